//! Webhooks: endpoints that are told what happens in a workspace. Whoever lets something happen
//! publishes it with [`publish`], in the same commit; a worker delivers it to everybody who listens,
//! at least once.

mod attempt;
mod deliver;
mod event;
mod lanes;
mod page_one;
mod pages;
mod retry;
mod routes;
mod sealed;
mod shapes;
mod store;
mod told;
mod webhook;

use crate::app::App;
use crate::clock::{DAY, first_id_at};
use crate::db::{DbError, Sql};

pub use deliver::{Deliverer, Notices, run};
pub use event::{EventType, EventTypes, When, publish};
pub use pages::router as pages;
pub use routes::router as routes;
pub use sealed::{reseal, secrets as sealed_secrets};
pub use store::listened;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL, told::ALL];

/// How many commits a sweep takes before it lets others have a turn.
const SWEEPS: usize = 200;

/// Forgets events that are older than they are kept, and what came of them.
pub async fn sweep(app: &App) -> Result<(), DbError> {
    let before = first_id_at(app.clock.steady() - i64::from(app.config.webhook_retention) * DAY);
    for _ in 0..SWEEPS {
        if !store::forget(&app.db, before).await? {
            break;
        }
    }
    Ok(())
}

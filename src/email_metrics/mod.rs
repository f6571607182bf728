//! What became of mail, in numbers. Whatever happens to a recipient is counted in the commit that
//! writes it down, as a row of its own ([`Tally`]): no commit waits for a counter that another one
//! holds. A chore adds these rows up by quarter-hours and by days ([`fold`]); whoever reads sums the days,
//! the quarter-hours at their ends and the rows, so the numbers are whole at every moment.

mod breakdown;
mod counts;
mod fold;
mod mails;
mod metric;
mod pages;
mod period;
mod plot;
mod query;
mod routes;
mod store;

pub use breakdown::Group;
pub use counts::{Counted, Counts, Tally};
pub use fold::fold;
pub use mails::MOST_KEPT;
pub use pages::router as pages;
pub use routes::router as routes;
pub use store::{by_domain, by_quarter, totals};

use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[mails::ALL, store::ALL];

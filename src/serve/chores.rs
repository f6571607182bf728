//! The small things that every process does now and then.

use std::fmt::Display;
use std::time::Duration;

use crate::product::Product;
use crate::webhooks;
use crate::{accounts, auth, automations, contacts, delivery, forms, oauth, receiving, relay_reports, tracking, web};

/// How often the small chores are done.
const CHORES: Duration = Duration::from_secs(5);

/// Every so many times the larger ones are done too: once an hour.
const RARELY: u64 = 720;

/// Each is safe to be done by several processes at once.
pub(super) async fn run(app: Product) {
    let mut ticks = tokio::time::interval(CHORES);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for tick in 0_u64.. {
        ticks.tick().await;
        app.metrics.run_upkeep();
        app.sweep_limits();
        let (now, steady) = (app.clock.now(), app.clock.steady());
        note("the last use of credentials could not be noted", app.credentials.flush(&app.db).await);
        note("sessions that ended could not be deleted", auth::sweep_sessions(&app.db, now).await);
        note("expired authorization requests could not be deleted", oauth::sweep(&app.db, &app.clock).await);
        let keys = app.db.commit(web::sweep_idempotency_keys(steady)).await;
        note("old keys of idempotency could not be deleted", keys);
        note("what is left of deleted automations could not be deleted", automations::sweep_deleted(&app).await);
        if tick % RARELY > 0 {
            continue;
        }
        let clients = oauth::sweep_clients(&app.db, &app.clock).await;
        note("clients that came to nothing could not be deleted", clients);
        let uploads = contacts::sweep_imports(app.occurrences()).await;
        note("what is left of broken uploads could not be deleted", uploads);
        note("received mail that need not be kept could not be deleted", receiving::sweep(&app).await);
        note("who opened and clicked long ago could not be forgotten", tracking::sweep(&app).await);
        let counted = app.db.commit(delivery::sweep(steady)).await;
        note("bulk mails that count for nobody any more could not be forgotten", counted);
        note("what domains sent on earlier days could not be forgotten", delivery::sweep_days(&app).await);
        note("old events of webhooks could not be forgotten", webhooks::sweep(&app).await);
        note("old sign-ups could not be forgotten", forms::sweep(&app).await);
        let tokens = app.db.commit(relay_reports::sweep(now)).await;
        note("tokens of relays' reports could not be forgotten", tokens);
        let devices = accounts::sweep_devices(&app.db, now).await;
        note("browsers that were not used for long could not be forgotten", devices);
        note("links that have expired could not be forgotten", accounts::sweep_links(&app.db, now).await);
    }
}

/// Tells of a chore that could not be done this time.
fn note<T, E: Display>(failure: &str, done: Result<T, E>) {
    if let Err(error) = done {
        tracing::warn!(%error, "{failure}");
    }
}

//! What is done now and then with what the store holds: counters are added up, and what need not be
//! kept any longer is deleted, some rows a commit. Each kind is a row that one process at a time has
//! claimed; while there is nothing to do, nothing is written.

use tokio::sync::watch;

use crate::app::App;
use crate::clock::{HOUR, SECOND};
use crate::db::{DbError, Row, Sql, Stmt, from_row, statements};
use crate::text::words;
use crate::work::{self, Claimable, InOrder, Next, Tasks, Worker, claim_rows};
use crate::{audit, automations, email_metrics, emails, occurrences, request_log};

pub const STATEMENTS: &[&[Sql]] = &[ALL];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chore {
    /// Adds up what commits have counted.
    EmailCounts,
    RequestLog,
    Occurrences,
    Runs,
    MailContents,
    AuditLog,
}

words!(Chore: ALL, parse {
    EmailCounts = "email_counts",
    RequestLog = "request_log",
    Occurrences = "occurrences",
    Runs = "runs",
    MailContents = "mail_contents",
    AuditLog = "audit_log",
});

statements! {
    functions {
        fn finish(claimed: &Claimed, due_at: i64)
            with [claimed.name.as_str(), claimed.attempt, due_at] expects 1 = Sql::both(
            "UPDATE chores SET due_at = $3 WHERE name = $1 AND attempt = $2");
    }
    NEXT = Sql::both(
        "SELECT due_at FROM chores WHERE (name <> 'email_counts' OR EXISTS (SELECT 1 FROM email_count_deltas))
         ORDER BY due_at LIMIT 1");
    /// Counters are there to be added up only where somebody has counted since.
    CLAIM = claim_rows!(
        "chores" ("name") where "(name <> 'email_counts' OR EXISTS (SELECT 1 FROM email_count_deltas))" set ""
        returning "chores.name, attempt");
}

struct Claimed {
    name: String,
    attempt: i64,
}

from_row!(Claimed { name, attempt });

impl Claimable for Claimed {
    const QUEUE: &'static str = "chores";
    const LEASE: i64 = 30 * SECOND;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        Claimed::read(row)
    }
}

impl InOrder for Claimed {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

impl Chore {
    async fn work_off(self, app: &App) -> Result<(), DbError> {
        match self {
            Chore::EmailCounts => email_metrics::fold(app).await,
            Chore::RequestLog => request_log::forget_old(app).await,
            Chore::Occurrences => occurrences::forget_old(app).await,
            Chore::Runs => automations::forget_ended(app).await,
            Chore::MailContents => emails::sweep(app).await,
            Chore::AuditLog => audit::forget_old(&app.db, &app.clock, app.config.retention.audit_retention).await,
        }
    }

    /// How long after it was done it is due again.
    fn pause(self) -> i64 {
        match self {
            Chore::EmailCounts => 5 * SECOND,
            Chore::RequestLog | Chore::Occurrences | Chore::Runs | Chore::MailContents | Chore::AuditLog => HOUR,
        }
    }
}

/// Works until it is time to stop.
pub async fn run(app: App, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    work::run(Upkeep(app), clock, stopping).await;
}

struct Upkeep(App);

impl Worker for Upkeep {
    const NAME: &'static str = "upkeep";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        // One after the other: none of it is urgent.
        if tasks.count() == 0
            && let Some(claimed) = work::claim_due::<Claimed>(&self.0.db, &self.0.clock, 1).await?.pop()
        {
            let app = self.0.clone();
            tasks.spawn(async move { note(do_chore(&app, &claimed).await, &claimed) });
            return Ok(Next::Due(None));
        }
        Ok(Next::Due(work::next_due::<Claimed>(&self.0.db).await?))
    }
}

/// Does what is due, and tells how many kinds that were.
pub async fn round(app: &App) -> Result<usize, DbError> {
    let mut count = 0;
    while let Some(claimed) = work::claim_due::<Claimed>(&app.db, &app.clock, 1).await?.pop() {
        do_chore(app, &claimed).await?;
        count += 1;
    }
    Ok(count)
}

/// Keeps the claim while it lasts. Whoever has claimed it since begins anew, which harms nobody.
async fn do_chore(app: &App, claimed: &Claimed) -> Result<(), DbError> {
    let Some(chore) = Chore::parse(&claimed.name) else { return Ok(()) };
    let renew = |lease_until: i64| -> Stmt { finish(claimed, lease_until) };
    tokio::select! {
        done = Box::pin(chore.work_off(app)) => done?,
        () = work::until_lost::<Claimed>((&app.db, &app.clock), renew) => return Ok(()),
    }
    work::unless_lost(app.db.commit(finish(claimed, app.clock.steady() + chore.pause())).await)
}

fn note(done: Result<(), DbError>, claimed: &Claimed) {
    if let Err(error) = done {
        tracing::warn!(chore = claimed.name, %error, "upkeep failed; it is tried again after its lease");
    }
}

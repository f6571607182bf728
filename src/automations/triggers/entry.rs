//! How runs begin: in the commit of the occurrence that starts them.

use smallvec::SmallVec;

use super::Trigger;
use super::fuse::{self, Fuse};
use crate::automations::automation::ReEntry;
use crate::automations::run::Run;
use crate::clock::Clock;
use crate::db::{Batch, Sql, Stmt, Value, statements};
use crate::id::RunId;
use crate::occurrences::{Cause, Entry};

/// Runs for the contact of an occurrence that was just recorded; none where it
/// was not. SQLite is told to fail without undoing: what failed is undone with
/// the batch, and it need not keep copies of the pages that it changes.
macro_rules! enter {
    ($insert:literal, ($a:literal, $id:literal, $version:literal, $exit_on:literal, $due_at:literal), $from:expr) => {
        concat!(
            $insert,
            " INTO runs (automation_id, id, version, exit_on, due_at, workspace_id, contact_id, occurrence_id, since,
                         status, state, attempt, settled, created_at)
             SELECT ",
            concat!($a, ", ", $id, ", CAST(", $version, " AS BIGINT), ", $exit_on, ", CAST(", $due_at, " AS BIGINT),"),
            " o.workspace_id, o.contact_id, o.id, o.seq, 'running', '', 0, 0, CAST($3 AS BIGINT)
             FROM ",
            $from
        )
    };
}

macro_rules! enter_one {
    ($insert:literal, $unless:expr) => {
        enter!(
            $insert,
            ("$4", "$5", "$6", "$7", "$8"),
            concat!("occurrences o WHERE o.workspace_id = $1 AND o.id = $2", $unless)
        )
    };
}

/// An id in a list of values. PostgreSQL has to be told what it is; to SQLite it is
/// bytes, which it would take for a number if told so.
macro_rules! an_id {
    (sqlite, $param:literal) => {
        $param
    };
    (postgres, $param:literal) => {
        concat!("CAST(", $param, " AS UUID)")
    };
}

/// The values come first in the join: SQLite then goes through them as they are,
/// and otherwise puts them into a table of its own for each statement.
macro_rules! enter_many {
    ($engine:ident, $insert:literal, $($more:expr),+) => {
        enter!(
            $insert,
            ("v.column1", "v.column2", "v.column3", "v.column4", "v.column5"),
            concat!(
                "(VALUES (",
                an_id!($engine, "$4"),
                ", ",
                an_id!($engine, "$5"),
                ", CAST($6 AS BIGINT), CAST($7 AS TEXT), CAST($8 AS BIGINT))",
                $(", ", $more,)+
                ") v CROSS JOIN occurrences o WHERE o.workspace_id = $1 AND o.id = $2"
            )
        )
    };
}

/// The contact has never been in this automation, or is not in it at the moment.
/// Left to itself, SQLite would walk through all runs of the automation.
macro_rules! unless_there {
    ($hint:literal, $when:literal) => {
        concat!(
            " AND NOT EXISTS (SELECT 1 FROM runs r",
            $hint,
            " WHERE r.contact_id = o.contact_id AND r.automation_id = $4",
            $when,
            ")"
        )
    };
}

/// How many runs of the automation the contact began after a moment, counted to a bound.
macro_rules! lately {
    ($hint:literal, $since:literal, $most:literal) => {
        concat!(
            "(SELECT COUNT(*) FROM (SELECT 1 FROM runs r",
            $hint,
            " WHERE r.contact_id = o.contact_id AND r.automation_id = $4 AND r.created_at > ",
            $since,
            // A clock that was set back has left some that are still to come.
            " AND r.created_at <= CAST($3 AS BIGINT) LIMIT ",
            $most,
            ") AS lately)"
        )
    };
}

/// The run that tells of a loop: it has failed before it began. Where there are as
/// many runs as may be, it becomes one more, so that there is one of it.
macro_rules! tell_of_loop {
    ($hint:literal) => {
        concat!(
            "INSERT INTO runs (automation_id, id, version, workspace_id, contact_id, occurrence_id, since, status, state,
                               attempt, settled, created_at, completed_at)
             SELECT $4, $5, CAST($6 AS BIGINT), o.workspace_id, o.contact_id, o.id, o.seq, 'failed', $7, 0, 0,
                    CAST($3 AS BIGINT), CAST($3 AS BIGINT)
             FROM occurrences o WHERE o.workspace_id = $1 AND o.id = $2 AND ",
            lately!($hint, "$8", "$9 + 1"),
            " = $9"
        )
    };
}

/// As many runs as one statement lets in.
const MOST: usize = 4;

statements! {
    ENTER = Sql::each(enter_one!("INSERT OR FAIL", ""), enter_one!("INSERT", ""));
    ENTER_2 = Sql::each(
        enter_many!(sqlite, "INSERT OR FAIL", "($9, $10, $11, $12, $13)"),
        enter_many!(postgres, "INSERT", "($9, $10, $11, $12, $13)"));
    ENTER_3 = Sql::each(
        enter_many!(sqlite, "INSERT OR FAIL", "($9, $10, $11, $12, $13)", "($14, $15, $16, $17, $18)"),
        enter_many!(postgres, "INSERT", "($9, $10, $11, $12, $13)", "($14, $15, $16, $17, $18)"));
    ENTER_4 = Sql::each(
        enter_many!(
            sqlite, "INSERT OR FAIL", "($9, $10, $11, $12, $13)", "($14, $15, $16, $17, $18)", "($19, $20, $21, $22, $23)"),
        enter_many!(postgres, "INSERT", "($9, $10, $11, $12, $13)", "($14, $15, $16, $17, $18)", "($19, $20, $21, $22, $23)"));
    ENTER_ONCE = Sql::each(
        enter_one!("INSERT OR FAIL", unless_there!(" INDEXED BY runs_by_contact", "")),
        enter_one!("INSERT", unless_there!("", "")));
    ENTER_ALONE = Sql::each(
        enter_one!("INSERT OR FAIL", unless_there!(" INDEXED BY runs_by_contact", " AND r.status = 'running'")),
        enter_one!("INSERT", unless_there!("", " AND r.status = 'running'")));
    ENTER_BOUNDED = Sql::each(
        enter_one!("INSERT OR FAIL", concat!(" AND ", lately!(" INDEXED BY runs_by_contact", "$9", "$10"), " < $10")),
        enter_one!("INSERT", concat!(" AND ", lately!("", "$9", "$10"), " < $10")));
    ENTER_ALONE_BOUNDED = Sql::each(
        enter_one!("INSERT OR FAIL", concat!(
            unless_there!(" INDEXED BY runs_by_contact", " AND r.status = 'running'"),
            " AND ", lately!(" INDEXED BY runs_by_contact", "$9", "$10"), " < $10")),
        enter_one!("INSERT", concat!(
            unless_there!("", " AND r.status = 'running'"), " AND ", lately!("", "$9", "$10"), " < $10")));
    TELL_OF_LOOP = Sql::each(tell_of_loop!(" INDEXED BY runs_by_contact"), tell_of_loop!(""));
}

/// Lets the contact in, where the automations take it, with the first timers set.
/// Their state is left empty: until a worker has brought a run on, it follows from
/// the graph and the time.
pub fn enter(cause: &Cause<'_>, triggers: &[Trigger], (clock, fuse): (&Clock, &Fuse), batch: &mut Batch) -> Entry {
    let mut entry = Entry::default();
    let mut let_in = |batch: &mut Batch, sql: Sql, triggers: &[&Trigger], bound: &[Value]| {
        let mut params = Vec::with_capacity(3 + 5 * triggers.len() + bound.len());
        params.extend([cause.workspace_id.into(), cause.occurrence_id.into(), cause.now.into()]);
        for trigger in triggers {
            let began = clock.tick();
            let due_at = Run::first_due(&trigger.graph, cause.steady, began.at());
            entry.at_once |= due_at <= cause.steady;
            let run_id: RunId = began.id();
            if cause.names_runs {
                entry.runs.push((trigger.automation_id, run_id));
            }
            params.extend([
                trigger.automation_id.into(),
                run_id.into(),
                trigger.version.into(),
                trigger.exit_on.as_deref().into(),
                due_at.into(),
            ]);
        }
        params.extend_from_slice(bound);
        batch.push(sql.with_all(params));
    };
    let mut alarms = SmallVec::new();
    let mut unlimited: SmallVec<[&Trigger; MOST]> = SmallVec::new();
    for trigger in triggers {
        let is_hot = trigger.calls_out && fuse.is_hot(trigger.automation_id, cause.whom, cause.now);
        let bound = [(cause.now - fuse::WINDOW).into(), fuse.limit().into()];
        if is_hot && trigger.re_entry != ReEntry::OncePerContact {
            alarms.push(batch.len());
            batch.push(tell_of_loop(cause, trigger, clock, &bound));
        }
        match trigger.re_entry {
            ReEntry::Always if is_hot => let_in(batch, ENTER_BOUNDED, &[trigger], &bound),
            ReEntry::Always => unlimited.push(trigger),
            ReEntry::OncePerContact => let_in(batch, ENTER_ONCE, &[trigger], &[]),
            ReEntry::OneAtATime if is_hot => let_in(batch, ENTER_ALONE_BOUNDED, &[trigger], &bound),
            ReEntry::OneAtATime => let_in(batch, ENTER_ALONE, &[trigger], &[]),
        }
    }
    for some in unlimited.chunks(MOST) {
        let_in(batch, [ENTER, ENTER_2, ENTER_3, ENTER_4][some.len() - 1], some, &[]);
    }
    Entry { alarms, ..entry }
}

fn tell_of_loop(cause: &Cause<'_>, trigger: &Trigger, clock: &Clock, [since, limit]: &[Value; 2]) -> Stmt {
    let id: RunId = clock.ordered_id();
    let mut run = Run::start(id, &trigger.graph);
    run.give_up(cause.now, fuse::REASON);
    TELL_OF_LOOP.with([
        cause.workspace_id.into(),
        cause.occurrence_id.into(),
        cause.now.into(),
        trigger.automation_id.into(),
        id.into(),
        trigger.version.into(),
        run.to_json().into(),
        since.clone(),
        limit.clone(),
    ])
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::db::{Db, DbError, Location, Options};

    /// One statement lets several in. If the second cannot enter, the first has
    /// not either.
    #[tokio::test]
    async fn who_was_let_in_with_one_that_cannot_enter_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let db = Db::open(&Options::new(Location::Sqlite(path.clone()))).await.expect("a store");
        let store = rusqlite::Connection::open(&path).expect("a connection");
        store
            .execute("INSERT INTO occurrences VALUES (zeroblob(16), zeroblob(16), 'name', zeroblob(16), 2, 0, '{}', NULL, 4)", [])
            .expect("a row");
        let zero = Uuid::nil();
        let run =
            |id: u128| -> [Value; 5] { [zero.into(), Uuid::from_u128(id).into(), 1.into(), Value::Null, 5.into()] };
        let mut params: Vec<Value> = vec![zero.into(), zero.into(), 4.into()];
        params.extend(run(1));
        params.extend(run(1));
        let refused = db.commit(ENTER_2.with_all(params.clone())).await;
        assert!(matches!(refused, Err(DbError::Duplicate(_))), "{refused:?}");
        let count = || store.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0)).expect("a count");
        assert_eq!(count(), 0);
        params[9] = Uuid::from_u128(2).into();
        assert_eq!(db.commit(ENTER_2.with_all(params)).await.expect("a commit")[0].changed, 2);
        assert_eq!(count(), 2);
    }
}

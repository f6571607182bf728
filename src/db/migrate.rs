//! Brings a store's schema up to date. One text serves both engines; what has
//! been applied is written down with a fingerprint, so that a store made by a
//! newer or a different Posthorn is refused rather than damaged.

use anyhow::{Context, bail, ensure};
use rusqlite::{Connection, TransactionBehavior};
use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;

use super::{Sql, statements};

/// The steps, in order. A published one is never edited.
const STEPS: &[(&str, &str)] = &[
    ("0001_accounts", include_str!("../../migrations/0001_accounts.sql")),
    ("0002_oauth", include_str!("../../migrations/0002_oauth.sql")),
    ("0003_events", include_str!("../../migrations/0003_events.sql")),
    ("0004_mail", include_str!("../../migrations/0004_mail.sql")),
    ("0005_client_documents", include_str!("../../migrations/0005_client_documents.sql")),
    ("0006_contacts", include_str!("../../migrations/0006_contacts.sql")),
    ("0007_automations", include_str!("../../migrations/0007_automations.sql")),
    ("0008_refresh_families", include_str!("../../migrations/0008_refresh_families.sql")),
    ("0009_topics", include_str!("../../migrations/0009_topics.sql")),
    ("0010_contact_imports", include_str!("../../migrations/0010_contact_imports.sql")),
    ("0011_lighter_checks", include_str!("../../migrations/0011_lighter_checks.sql")),
    ("0012_whole_names", include_str!("../../migrations/0012_whole_names.sql")),
    ("0013_calls", include_str!("../../migrations/0013_calls.sql")),
    ("0014_clock", include_str!("../../migrations/0014_clock.sql")),
    ("0015_holds", include_str!("../../migrations/0015_holds.sql")),
    ("0016_first_use", include_str!("../../migrations/0016_first_use.sql")),
    ("0017_known_devices", include_str!("../../migrations/0017_known_devices.sql")),
    ("0018_events_by_name", include_str!("../../migrations/0018_events_by_name.sql")),
    ("0019_binary_ids", include_str!("../../migrations/0019_binary_ids.sql")),
    ("0020_emails", include_str!("../../migrations/0020_emails.sql")),
    ("0021_domains", include_str!("../../migrations/0021_domains.sql")),
    ("0022_own_mail", include_str!("../../migrations/0022_own_mail.sql")),
    ("0023_delivery", include_str!("../../migrations/0023_delivery.sql")),
    ("0024_dropped_messages", include_str!("../../migrations/0024_dropped_messages.sql")),
    ("0025_emails_by_state", include_str!("../../migrations/0025_emails_by_state.sql")),
    ("0026_templates", include_str!("../../migrations/0026_templates.sql")),
    ("0027_broadcasts", include_str!("../../migrations/0027_broadcasts.sql")),
    ("0028_subscriptions", include_str!("../../migrations/0028_subscriptions.sql")),
    ("0029_segments", include_str!("../../migrations/0029_segments.sql")),
    ("0030_windows", include_str!("../../migrations/0030_windows.sql")),
    ("0031_lost_messages", include_str!("../../migrations/0031_lost_messages.sql")),
    ("0032_bulk", include_str!("../../migrations/0032_bulk.sql")),
    ("0033_sequences", include_str!("../../migrations/0033_sequences.sql")),
    ("0034_topics_and_counts", include_str!("../../migrations/0034_topics_and_counts.sql")),
    ("0035_webhooks", include_str!("../../migrations/0035_webhooks.sql")),
    ("0036_tracking", include_str!("../../migrations/0036_tracking.sql")),
    ("0037_relay_reports", include_str!("../../migrations/0037_relay_reports.sql")),
    ("0038_receiving", include_str!("../../migrations/0038_receiving.sql")),
    ("0039_numbers", include_str!("../../migrations/0039_numbers.sql")),
    ("0040_erasures", include_str!("../../migrations/0040_erasures.sql")),
    ("0041_automation_drafts", include_str!("../../migrations/0041_automation_drafts.sql")),
    ("0043_teams", include_str!("../../migrations/0043_teams.sql")),
    ("0044_refused_authorizations", include_str!("../../migrations/0044_refused_authorizations.sql")),
    ("0045_email_counts_by_day", include_str!("../../migrations/0045_email_counts_by_day.sql")),
    ("0046_passkeys", include_str!("../../migrations/0046_passkeys.sql")),
    ("0049_assistant_log_levels", include_str!("../../migrations/0049_assistant_log_levels.sql")),
    ("0050_events_in_order", include_str!("../../migrations/0050_events_in_order.sql")),
    ("0051_suppressions_by_origin", include_str!("../../migrations/0051_suppressions_by_origin.sql")),
    ("0052_ids_are_blobs", include_str!("../../migrations/0052_ids_are_blobs.sql")),
    ("0053_grants_by_user", include_str!("../../migrations/0053_grants_by_user.sql")),
];

const HISTORY: &str = "CREATE TABLE IF NOT EXISTS posthorn_migrations (
    position BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL
)";
const APPLIED: &str = "SELECT name, fingerprint FROM posthorn_migrations WHERE position > 0 ORDER BY position";
const RECORD: &str = "INSERT INTO posthorn_migrations (position, name, fingerprint) VALUES ($1, $2, $3)";
/// Whoever migrates waits for the transactions of committers, who ask for what a
/// newer version has done, and lets those wait that come.
const LOCK_TABLE: &str = "LOCK TABLE posthorn_migrations IN ACCESS EXCLUSIVE MODE";
/// Row 0 is nobody's step: it is the row that concurrent starts queue up on, where
/// tables cannot be locked. There, transactions are serializable.
const LOCK_ROW: &str = "INSERT INTO posthorn_migrations (position, name, fingerprint)
    VALUES (0, 'lock', '') ON CONFLICT DO NOTHING";
const LOCK: &str = "SELECT position FROM posthorn_migrations WHERE position = 0 FOR UPDATE";

/// What an outdated process is told.
pub(super) const REFUSAL: &str = "a newer Posthorn has migrated the store; this process must not write to it any more";

statements! {
    functions {
        /// What a newer version has done to the store. Committers ask for it in every
        /// transaction.
        pub(super) fn newer() with [STEPS.len() as i64] = Sql::both(
            "SELECT 1 FROM posthorn_migrations WHERE position > $1 LIMIT 1");
    }
}

/// What is meant for SQLite alone stands between `/*` and `*/`, where PostgreSQL
/// reads it as a comment; what is meant for PostgreSQL alone between the lines
/// `-- <postgres>` and `-- </postgres>`; what is meant for people behind `--`. Bytes
/// have types there whose names SQLite takes for numbers'.
fn for_sqlite(text: &str) -> String {
    let whole = without_postgres(text);
    if whole.contains("writable_schema") { whole } else { whole.replace(" UUID", " BLOB").replace(" BYTEA", " BLOB") }
}

fn without_postgres(text: &str) -> String {
    let mut is_ours = true;
    let ours = text.lines().filter(|line| {
        match *line {
            "-- <postgres>" => is_ours = false,
            "-- </postgres>" => is_ours = true,
            _ => {}
        }
        is_ours
    });
    ours.collect::<Vec<_>>().join("\n").replace("/*", "").replace("*/", "")
}

fn fingerprint(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The steps still to be taken on a store with this history.
pub(super) fn outstanding(applied: &[(String, String)]) -> anyhow::Result<std::ops::Range<usize>> {
    for (index, (name, print)) in applied.iter().enumerate() {
        let Some((ours, text)) = STEPS.get(index) else {
            bail!(
                "the store was last used by a newer Posthorn: it has the migration {name}, which this \
                 version ({}) does not know. Start the newer version, or restore a backup",
                env!("CARGO_PKG_VERSION"),
            );
        };
        ensure!(
            ours == name && fingerprint(text) == *print,
            "the store's schema is not Posthorn's: where this version has migration {ours} ({}), the store \
             has {name} ({print}). Point --database-url or --data-dir at another store",
            fingerprint(text),
        );
    }
    Ok(applied.len()..STEPS.len())
}

pub(super) fn sqlite(connection: &mut Connection) -> anyhow::Result<()> {
    // The write lock is the queue for processes that start at once.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(HISTORY)?;
    let applied = transaction
        .prepare(APPLIED)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for index in outstanding(&applied)? {
        let (name, text) = STEPS[index];
        announce(name, &applied);
        transaction.execute_batch(&for_sqlite(text)).with_context(|| format!("migration {name} failed"))?;
        transaction.execute(RECORD, (index as i64 + 1, name, fingerprint(text)))?;
    }
    transaction.commit()?;
    Ok(())
}

/// Whether nothing is left to do: what is asked at every start takes no lock.
pub(super) async fn postgres_is_current(client: &tokio_postgres::Client) -> anyhow::Result<bool> {
    match client.query(APPLIED, &[]).await {
        Ok(applied) => Ok(outstanding(&history_of(&applied))?.is_empty()),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(false),
        Err(error) => Err(error).context("what was migrated before cannot be read"),
    }
}

fn history_of(rows: &[tokio_postgres::Row]) -> Vec<(String, String)> {
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

pub(super) async fn postgres(client: &mut tokio_postgres::Client) -> anyhow::Result<()> {
    create_history(client).await?;
    let mut transaction = client.transaction().await?;
    if transaction.batch_execute(LOCK_TABLE).await.is_err() {
        transaction.rollback().await?;
        transaction = client.transaction().await?;
        transaction.query_one(LOCK, &[]).await?;
    }
    let applied = history_of(&transaction.query(APPLIED, &[]).await?);
    for index in outstanding(&applied)? {
        let (name, text) = STEPS[index];
        announce(name, &applied);
        transaction.batch_execute(text).await.with_context(|| format!("migration {name} failed"))?;
        transaction.execute(RECORD, &[&(index as i64 + 1), &name, &fingerprint(text)]).await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// A store that holds something may take its time.
fn announce(name: &str, applied: &[(String, String)]) {
    if !applied.is_empty() {
        tracing::info!(name, "migrating the store");
    }
}

/// `IF NOT EXISTS` is not atomic in PostgreSQL: of several processes that start
/// at once, all but one may be told that the table's name was taken meanwhile.
async fn create_history(client: &tokio_postgres::Client) -> anyhow::Result<()> {
    let mut attempt = 0;
    loop {
        let created = async {
            client.batch_execute(HISTORY).await?;
            client.batch_execute(LOCK_ROW).await
        };
        match created.await {
            Ok(()) => return Ok(()),
            Err(_) if attempt < 5 => attempt += 1,
            Err(error) => return Err(error).context("the table posthorn_migrations cannot be created"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50 * attempt)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(count: usize) -> Vec<(String, String)> {
        STEPS[..count].iter().map(|(name, text)| (name.to_string(), fingerprint(text))).collect()
    }

    #[test]
    fn an_empty_store_needs_every_step_and_a_current_one_none() {
        assert_eq!(outstanding(&[]).expect("empty"), 0..STEPS.len());
        assert!(outstanding(&history(STEPS.len())).expect("current").is_empty());
    }

    /// Stores have taken these steps, and are refused by a Posthorn whose steps differ: lines are added here, none is
    /// changed.
    #[test]
    fn steps_that_stores_have_taken_stay_as_they_are() {
        let steps: Vec<String> = STEPS.iter().map(|(name, text)| format!("{name} {}", fingerprint(text))).collect();
        let taken: Vec<&str> = include_str!("../../migrations/fingerprints.txt").lines().collect();
        assert_eq!(steps, taken);
    }

    #[test]
    fn a_newer_store_is_refused_by_name() {
        let mut applied = history(STEPS.len());
        applied.push(("9999_future".into(), "00".into()));
        let message = outstanding(&applied).expect_err("newer").to_string();
        assert!(message.contains("newer Posthorn") && message.contains("9999_future"), "{message}");
    }

    #[test]
    fn a_changed_step_is_refused() {
        let mut applied = history(1);
        applied[0].1 = "0000000000000000".into();
        let message = outstanding(&applied).expect_err("changed").to_string();
        assert!(message.contains("not Posthorn's"), "{message}");
    }

    #[test]
    fn a_store_whose_ids_were_taken_for_numbers_finds_them_through_its_indices() {
        let mut store = Connection::open_in_memory().expect("a store");
        store.execute_batch(HISTORY).expect("a history");
        let older = STEPS.iter().take_while(|(name, _)| *name != "0052_ids_are_blobs");
        for (index, (name, text)) in older.enumerate() {
            store.execute_batch(&without_postgres(text)).expect("a step");
            store.execute(RECORD, (index as i64 + 1, name, fingerprint(text))).expect("a record");
        }
        let numbers = "SELECT count(*) FROM sqlite_schema s, pragma_table_info(s.name) c
                       WHERE s.type = 'table' AND c.type IN ('UUID', 'BYTEA')";
        let plan = "EXPLAIN QUERY PLAN SELECT u.email FROM reset_links l JOIN users u ON u.id = l.user_id";
        let found =
            |store: &Connection, sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a row");
        assert_ne!(found(&store, numbers), 0);
        sqlite(&mut store).expect("the rest");
        assert_eq!(found(&store, numbers), 0);
        let mut prepared = store.prepare(plan).expect("a plan");
        let steps: Vec<String> = prepared.query_map([], |row| row.get(3)).expect("steps").flatten().collect();
        assert!(steps.iter().any(|step| step.starts_with("SEARCH u USING")), "{steps:?}");
        let sound: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
        assert_eq!(sound, "ok");
    }

    #[test]
    fn what_an_older_store_holds_is_there_after_its_tables_were_made_anew() {
        let mut store = Connection::open_in_memory().expect("a store");
        store.execute_batch(HISTORY).expect("a history");
        for (index, (name, text)) in STEPS[..10].iter().enumerate() {
            store.execute_batch(&for_sqlite(text)).expect("a step");
            store.execute(RECORD, (index as i64 + 1, name, fingerprint(text))).expect("a record");
        }
        let [a, r, w, c, o, m] = [1, 2, 3, 4, 5, 6].map(|number| format!("00000000-0000-7000-8000-{number:012}"));
        let rows = format!(
            "INSERT INTO runs VALUES ('{a}', '{r}', '{w}', 1, '{c}', '{o}', 2, 'running', '{{}}', 'e', 'x', 5, 3, 2, 4, NULL);
             INSERT INTO messages VALUES ('{m}', '{w}', 'to', 'subject', 'body', 'sent', 1, NULL, 2, NULL, 'why');
             INSERT INTO occurrences VALUES ('{w}', '{o}', 'name', '{c}', 2, 1, '{{}}', NULL, 4);"
        );
        store.execute_batch(&rows).expect("rows");
        sqlite(&mut store).expect("the rest");
        let found = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a row");
        assert_eq!(
            found(
                "SELECT count(*) FROM runs WHERE automation_id = x'00000000000070008000000000000001'
                   AND id = x'00000000000070008000000000000002' AND workspace_id = x'00000000000070008000000000000003'
                   AND version = 1 AND contact_id = x'00000000000070008000000000000004'
                   AND occurrence_id = x'00000000000070008000000000000005' AND since = 2 AND status = 'running'
                   AND state = '{}' AND waiting_for = 'e' AND exit_on = 'x' AND due_at = 5 AND attempt = 3
                   AND settled = 2 AND created_at = 4 AND completed_at IS NULL"
            ),
            1
        );
        assert_eq!(
            found(
                "SELECT count(*) FROM emails JOIN email_recipients ON email_id = id
                 WHERE id = x'00000000000070008000000000000006' AND emails.state = 40 AND reason = 'why'
                   AND emails.workspace_id = x'00000000000070008000000000000003' AND text = 'body' AND address = 'to'"
            ),
            1
        );
        assert_eq!(found("SELECT count(*) FROM occurrences WHERE name = 'name' AND heard"), 1);
        let indices = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name IN
            ('runs_due', 'runs_by_contact', 'runs_listening', 'occurrences_by_name', 'occurrences_heard', 'runs_failed')";
        assert_eq!(found(indices), 6);
        for refused in ["UPDATE runs SET status = 'odd'", "INSERT INTO runs SELECT * FROM runs"] {
            assert!(store.execute(refused, []).is_err(), "{refused}");
        }
    }
}

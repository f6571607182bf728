//! Stores to measure on: empty ones, and one that has seen some use.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};
use rusqlite::Connection;
use tempfile::TempDir;
use uuid::Uuid;

use posthorn::clock::Clock;
use posthorn::credentials::{NewKey, Permission};
use posthorn::id::{GrantId, Id, WorkspaceId};
use posthorn::oauth::Token;

use crate::server::posthorn;
use crate::workload::Names;

/// Whoever logs in.
pub const EMAIL: &str = "owner@example.com";
pub const PASSWORD: &str = "correct horse battery staple";

/// Rows that one transaction of the filling holds.
const PORTION: u64 = 100_000;

pub enum Store {
    /// Below the build folder: on a disk, where a temporary folder may be memory.
    Sqlite(TempDir),
    Postgres(String),
}

impl Store {
    pub fn sqlite() -> anyhow::Result<Store> {
        Ok(Store::Sqlite(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?))
    }

    pub fn arguments(&self) -> [String; 2] {
        match self {
            Store::Sqlite(folder) => ["--data-dir".into(), folder.path().display().to_string()],
            Store::Postgres(url) => ["--database-url".into(), url.clone()],
        }
    }

    /// A key that opens every route. Makes the store if there is none.
    pub fn key(&self) -> anyhow::Result<String> {
        let made = posthorn().arg("migrate").args(self.arguments()).output()?;
        ensure!(made.status.success(), "no store: {}", String::from_utf8_lossy(&made.stderr));
        let output = posthorn().args(["keys", "create", "--name", "load", "--json"]).args(self.arguments()).output()?;
        ensure!(output.status.success(), "no key: {}", String::from_utf8_lossy(&output.stderr));
        let key: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        key["token"].as_str().map(str::to_owned).context("a key in the answer")
    }

    /// Keys that open every route, each of a workspace of its own.
    pub fn keys(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let mut keys = vec![self.key()?];
        let connection = Connection::open(self.file().context("only an SQLite store is prepared so")?)?;
        let clock = Clock::system();
        connection.execute_batch("BEGIN")?;
        while keys.len() < count {
            let workspace: WorkspaceId = clock.ordered_id();
            let key = NewKey::make(&clock, workspace, "load", Permission::FullAccess);
            connection.execute(
                "INSERT INTO workspaces (id, name, created_at) VALUES (?1, 'load', ?2)",
                (bytes(workspace), key.created_at),
            )?;
            connection.execute(
                "INSERT INTO api_keys (id, workspace_id, name, permission, prefix, hash, created_at)
                 VALUES (?1, ?2, 'load', 'full_access', ?3, ?4, ?5)",
                (
                    bytes(key.id),
                    bytes(workspace),
                    &key.secret[..11],
                    posthorn::secret::hash(&key.secret),
                    key.created_at,
                ),
            )?;
            keys.push(key.secret);
        }
        connection.execute_batch("COMMIT")?;
        Ok(keys)
    }

    /// Grants that stand, each with a refresh token, as apps hold them. Makes the
    /// store, and whoever granted them.
    pub fn refresh_tokens(&self, count: usize) -> anyhow::Result<Vec<String>> {
        self.owner()?;
        let connection = Connection::open(self.file().context("only an SQLite store is prepared so")?)?;
        let (workspace, user): ([u8; 16], [u8; 16]) =
            connection
                .query_row("SELECT workspace_id, user_id FROM memberships", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let clock = Clock::system();
        connection.execute_batch("BEGIN")?;
        let mut tokens = Vec::with_capacity(count);
        for _ in 0..count {
            let (grant, now): (GrantId, i64) = (clock.ordered_id(), clock.now());
            let token = Token::first(grant);
            connection.execute(
                "INSERT INTO oauth_grants (id, workspace_id, client_id, user_id, scopes, created_at,
                                           family_hash, refresh_hash, refresh_expires_at)
                 VALUES (?1, ?2, ?3, ?4, 'full_access', ?5, ?6, ?7, ?8)",
                (
                    bytes(grant),
                    workspace,
                    crate::workload::CLIENT_ID,
                    user,
                    now,
                    token.family_hash(),
                    posthorn::secret::hash(&token.text()),
                    now + 86_400_000_000,
                ),
            )?;
            tokens.push(token.text());
        }
        connection.execute_batch("COMMIT")?;
        Ok(tokens)
    }

    /// Somebody who can log in, and owns the workspace.
    pub fn owner(&self) -> anyhow::Result<()> {
        self.user(EMAIL)
    }

    /// Somebody who can log in; whoever is not the first is a member.
    pub fn user(&self, email: &str) -> anyhow::Result<()> {
        let mut command = posthorn();
        command.args(["users", "create", "--email", email, "--password-stdin"]).args(self.arguments());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let mut stdin = child.stdin.take().context("a way to tell the password")?;
        writeln!(stdin, "{PASSWORD}")?;
        drop(stdin);
        ensure!(child.wait()?.success(), "no user");
        Ok(())
    }

    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Store::Sqlite(folder) => Some(folder.path().join("posthorn.db")),
            Store::Postgres(_) => None,
        }
    }

    /// Stores so many events past the server, in the order in which they would
    /// have come: pages are as full as use leaves them.
    pub fn fill(&self, events: u64, names: Names) -> anyhow::Result<()> {
        let file = self.file().context("only an SQLite store is filled")?;
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "cache_size", -2_000_000)?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let workspace: [u8; 16] = connection.query_row("SELECT id FROM workspaces", [], |row| row.get(0))?;
        // One event a second, the last of them a second ago.
        let clock = Clock::fixed(Clock::system().now() - events as i64 * 1_000_000);
        for start in (0..events).step_by(PORTION as usize) {
            connection.execute_batch("BEGIN")?;
            let mut insert = connection.prepare_cached(
                "INSERT INTO events (workspace_id, id, name, schema, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for number in start..events.min(start + PORTION) {
                let schema = r#"{"amount":"number","paid_at":"date"}"#;
                insert.execute((
                    workspace,
                    bytes(clock.ordered_id::<Uuid>()),
                    names.name(number),
                    schema,
                    clock.now(),
                ))?;
                clock.advance(1_000_000);
            }
            connection.execute_batch("COMMIT")?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        Ok(())
    }

    /// Waits until the disk has what was written, so that the next run does not
    /// pay for it.
    pub fn settle(&self) -> anyhow::Result<()> {
        if let Some(file) = self.file().filter(|file| file.exists()) {
            std::fs::File::open(file)?.sync_all()?;
        }
        Ok(())
    }
}

/// As SQLite keeps an id.
fn bytes(id: impl Id) -> [u8; 16] {
    id.uuid().into_bytes()
}

//! `posthorn backup` and `posthorn restore`: a copy of the SQLite store, and the
//! way back. A copy is on hold, so that it does not send what the original sends.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::Output;
use crate::clock::{Clock, rfc3339};
use crate::config::Config;
use crate::credentials::Signing;
use crate::db::{self, Location};
use crate::seal::Seal;
use crate::{hold, serve};

/// How often to say how far a copy is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub struct Backup {
    /// File to write, which must not be there yet
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
pub struct Restore {
    /// File that `posthorn backup` has written
    file: PathBuf,
    /// Put it in the place of a store that is there, which is kept under another name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    output: Output,
}

fn sqlite_file(config: &Config, command: &str) -> anyhow::Result<PathBuf> {
    match config.store().location {
        Location::Sqlite(path) => Ok(path),
        Location::Postgres(_) => bail!(
            "`posthorn {command}` is for SQLite. With PostgreSQL: `posthorn hold`, pg_dump, `posthorn resume`; what \
             pg_restore brings back is then on hold until `posthorn resume`"
        ),
    }
}

impl Backup {
    pub fn run(&self, config: &Config) -> anyhow::Result<()> {
        let store = sqlite_file(config, "backup")?;
        let (clock, began) = (Clock::system(), Instant::now());
        let marks = [hold::set(&clock, &format!("a backup of {}", rfc3339(clock.now())))];
        let mut said: Option<Instant> = None;
        let mut say = |done: u64, of: u64| {
            if said.is_none_or(|said| said.elapsed() >= PROGRESS_INTERVAL) {
                said = Some(Instant::now());
                eprintln!("{} of {} MiB copied", done >> 20, of >> 20);
            }
        };
        let bytes = db::backup(&store, &self.file, &marks, &mut say).context("the backup failed")?;
        let shown = self.file.display().to_string();
        let (size, seconds) = (bytes.div_ceil(1 << 20), began.elapsed().as_secs_f64());
        let words = format!(
            "{shown} holds the whole store: {size} MiB, {seconds:.1} s.\n\
             Wherever it is restored it is on hold: nothing is sent until `posthorn resume`."
        );
        self.output.tell(&json!({ "file": shown, "bytes": bytes }), words);
        Ok(())
    }
}

impl Restore {
    pub async fn run(&self, config: &Config) -> anyhow::Result<()> {
        let store = sqlite_file(config, "restore")?;
        let clock = Clock::system();
        let marks = [hold::set(&clock, &format!("restored from {}", self.file.display()))];
        serve::make_folder(&store)?;
        let kept = db::restore(&self.file, &store, &marks, self.replace).context("nothing was restored")?;
        // The store is in its place by now, whatever is wrong with its key.
        let is_readable = can_read_secrets(config, &clock).await.unwrap_or(false);
        let json = json!({
            "store": store.display().to_string(),
            "replaced": kept.as_ref().map(|path| path.display().to_string()),
            "secrets_readable": is_readable,
        });
        self.output.tell(&json, self.words(&store, kept.as_deref(), is_readable));
        Ok(())
    }

    fn words(&self, store: &Path, kept: Option<&Path>, is_readable: bool) -> String {
        let mut lines = vec![format!("{} was restored to {}.", self.file.display(), store.display())];
        lines.extend(kept.map(|kept| format!("The store that was there is now {}.", kept.display())));
        let unreadable = "The keys that sign access tokens are sealed with a secret that is not here: tokens that apps hold are \
             refused until the server runs with the --secret, or beside the key file, that the original had.";
        lines.extend((!is_readable).then(|| unreadable.to_owned()));
        lines.push("It is on hold: start the server, look around, and let it go on with `posthorn resume`.".into());
        lines.join("\n")
    }
}

async fn can_read_secrets(config: &Config, clock: &Clock) -> anyhow::Result<bool> {
    let db = serve::open_store(config).await?;
    Ok(Signing::new(Seal::existing(config)?.into()).fits(&db, clock).await?)
}

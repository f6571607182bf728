//! `posthorn status`: whether the server answers, on which store, and what waits there. Changes nothing.

use std::fmt;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use super::Output;
use super::doctor::{Browser, Reading};
use crate::clock::rfc3339;
use crate::config::Config;
use crate::db::{Inspection, Schema};
use crate::hold::{self, Hold};
use crate::{automations, delivery, serve};

/// What waits is counted up to here: the number is for people.
const COUNTED: i64 = 10_000;

#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    output: Output,
}

impl Status {
    /// `Err` where no server answers or its store takes no writes, so that the exit code says so.
    pub async fn run(self, config: &Config) -> anyhow::Result<()> {
        let url = serve::addresses(config, config.listen)?.base.as_str().to_owned();
        let server = ask(&url).await;
        let store = Store::look(config).await;
        let report = Report { url, server, location: config.store().location.to_string(), store };
        self.output.tell(&report.to_json(), &report);
        match &report.server {
            Ok(()) => Ok(()),
            Err(_) => bail!("the server is not ready"),
        }
    }
}

struct Report {
    url: String,
    /// `Err` says why it is of no use.
    server: Result<(), String>,
    location: String,
    store: Result<Store, String>,
}

/// What the store tells.
struct Store {
    held: Option<Hold>,
    mails: i64,
    runs: i64,
}

/// Whether the server answers and its store takes writes.
async fn ask(url: &str) -> Result<(), String> {
    let answer = Browser::new().get(&format!("{url}/readyz")).await?;
    match answer.status.is_success() && answer.json().is_ok_and(|body| body["status"] == "ok") {
        true => Ok(()),
        false => Err(answer.in_short()),
    }
}

impl Store {
    async fn look(config: &Config) -> Result<Store, String> {
        let inspection = Inspection::open(&config.store().location).await.map_err(|error| format!("{error:#}"))?;
        match inspection.schema().await.map_err(|error| format!("{error:#}"))? {
            Schema::Current => {}
            Schema::Empty => return Err("it is empty".into()),
            Schema::Behind(missing) => return Err(format!("it misses {missing} migrations of this version")),
        }
        let count = async |stmt| {
            let found: Option<i64> = inspection.query(stmt).await?;
            Ok(found.unwrap_or_default())
        };
        let all = async {
            let held = inspection.query(hold::find()).await?;
            let mails = count(delivery::count_waiting(COUNTED)).await?;
            Ok(Store { held, mails, runs: count(automations::count_due(COUNTED)).await? })
        };
        all.await.map_err(|error: crate::db::DbError| error.to_string())
    }
}

impl Report {
    fn to_json(&self) -> Value {
        let (store, held) = (self.store.as_ref().ok(), self.store.as_ref().ok().and_then(|store| store.held.as_ref()));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "server": {"url": self.url, "ready": self.server.is_ok(), "problem": self.server.as_ref().err()},
            "store": {"location": self.location, "problem": self.store.as_ref().err()},
            "held_since": held.map(|held| rfc3339(held.since)),
            "mails_waiting": store.map(|store| store.mails),
            "runs_waiting": store.map(|store| store.runs),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { url, location, .. } = self;
        writeln!(f, "Posthorn {}", env!("CARGO_PKG_VERSION"))?;
        match &self.server {
            Ok(()) => writeln!(f, "  Server   answers at {url}")?,
            Err(problem) => writeln!(f, "  Server   does not answer as it should at {url}: {problem}")?,
        }
        let Store { held, mails, runs } = match &self.store {
            Ok(store) => store,
            Err(problem) => return write!(f, "  Store    {location}: {problem}"),
        };
        writeln!(f, "  Store    {location}")?;
        if let Some(held) = held {
            writeln!(f, "  Hold     {}", held.sentence())?;
        }
        let shown = |count: i64| if count < COUNTED { count.to_string() } else { format!("{COUNTED} or more") };
        write!(f, "  Waiting  mails: {}, runs that go on at a time: {}", shown(*mails), shown(*runs))
    }
}

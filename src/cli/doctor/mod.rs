//! `posthorn doctor`: is everything as it should be? A list of checks, each with
//! one finding: what holds, or what does not and the one thing to do about it.
//! Nothing is changed: the store is neither made nor migrated.

mod browser;
mod certificate;
mod instance;
mod machine;
mod mail;
mod mail_servers;
mod oauth;
mod page;
mod report;
mod secrets;
mod store;

use std::borrow::Cow;

use clap::Args;

use super::{Output, print_json};
use crate::config::Config;
use crate::db::{Inspection, Location};
use report::{Problem, Report};

pub use browser::{Browser, Reading};
pub use oauth::Doctor as OauthDoctor;

/// What one check found.
type Finding = Result<Cow<'static, str>, Problem>;

#[derive(Args, Debug)]
pub struct Doctor {
    /// A domain whose mail server is called to see whether mail gets out, where it is delivered directly
    #[arg(long, value_name = "DOMAIN", default_value = "gmail.com")]
    reach: String,
    #[command(flatten)]
    output: Output,
}

impl Doctor {
    /// Makes the checks. `Err` when one failed, so that the exit code says so;
    /// warnings alone are no failure.
    pub async fn run(self, config: &Config) -> anyhow::Result<()> {
        let mut report = Report::new(self.output.json);
        examine(config, &self.reach, &mut report).await;
        if self.output.json {
            print_json(&report.to_json());
        }
        report.verdict()
    }
}

async fn examine(config: &Config, reach: &str, report: &mut Report) {
    report.add("settings", machine::settings(config));
    let location = config.store().location;
    if let Location::Sqlite(path) = &location {
        report.add("data folder", machine::folder(path));
        report.add("store files", machine::files(path));
        report.add("disk space", machine::space(path));
        report.add("write-ahead log", machine::log(path, config));
    }
    let inspection = match Inspection::open(&location).await {
        Ok(inspection) => {
            report.add("store", Ok(format!("{location} can be opened").into()));
            store::examine(&inspection, config, report).await.then_some(inspection)
        }
        Err(error) => {
            report.add("store", Err(store::unopened(&location, &error)));
            None
        }
    };
    instance::examine(config, report).await;
    mail::examine(config, inspection.as_ref(), reach, report).await;
}

//! `posthorn oauth doctor`: is a client's whole way through OAuth open? It talks
//! to a running instance over HTTP only, as a client and a person would.

mod checks;
#[cfg(test)]
mod tests;
mod visit;

use clap::Args;
use serde_json::json;

use super::browser::Browser;
use super::report::Report;
use crate::accounts::EmailAddress;
use crate::cli::password::PasswordInput;
use crate::cli::{Output, print_json};
use crate::config::{Config, PublicUrl};
use crate::serve;

use checks::Patient;

#[derive(Args, Debug)]
pub struct Doctor {
    /// Address of the instance [default: --base-url, or http://<listen>]
    #[arg(long, value_name = "URL")]
    url: Option<PublicUrl>,
    /// Somebody who may let apps into a workspace there
    #[arg(long)]
    email: EmailAddress,
    #[command(flatten)]
    password: PasswordInput,
    #[command(flatten)]
    output: Output,
}

/// The checks that need nobody's password.
pub async fn discover(browser: &Browser, issuer: &str, report: &mut Report) {
    checks::discovery(browser, issuer, report).await;
}

impl Doctor {
    /// Makes the checks. `Err` when one failed, so that the exit code says so.
    pub async fn run(self, config: &Config) -> anyhow::Result<()> {
        let password = self.password.read()?;
        let url = match self.url {
            Some(url) => url,
            None => serve::addresses(config, config.listen)?.base,
        };
        let patient = Patient {
            issuer: url.as_str().to_owned(),
            email: self.email.as_str().to_owned(),
            password: password.as_str().to_owned(),
            registration_token: config.registration_token.clone(),
        };
        let mut report = Report::new(self.output.json);
        let client_id = checks::examine(&patient, &mut report).await;
        if self.output.json {
            let mut found = report.to_json();
            found["registered_client_id"] = json!(client_id);
            print_json(&found);
        } else if let Some(id) = client_id {
            println!("\nThe throwaway client stays registered; `posthorn clients delete {id}` removes it.");
        }
        report.verdict()
    }
}

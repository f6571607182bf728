//! `posthorn oauth`: the health and the keys of OAuth.

use clap::Subcommand;
use serde_json::json;

use super::doctor::Doctor;
use super::{Desk, print_json};
use crate::auth::{SigningKey, store};

#[derive(Subcommand, Debug)]
pub enum Oauth {
    /// Walk a client's whole way through a running instance and say what fails; leaves no access behind
    Doctor(Doctor),
    /// Sign access tokens with a new key from now on; tokens of the old one are believed until they expire
    RotateKeys {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Makes a new signing key. Servers that run notice within a minute.
pub async fn rotate_keys(desk: &Desk, as_json: bool) -> anyhow::Result<()> {
    let id = desk.clock.ordered_id();
    desk.db.commit(store::new_signing_key(&id, &SigningKey::generate(), desk.clock.now())).await?;
    if as_json {
        print_json(&json!({ "kid": id }));
    } else {
        println!("Tokens are signed with the new key {id} within a minute.");
    }
    Ok(())
}

//! `posthorn oauth`: the health and the keys of OAuth.

use clap::Subcommand;
use serde_json::json;

use super::doctor::OauthDoctor;
use super::{CommandContext, Output};
use crate::config::Config;
use crate::credentials::Signing;
use crate::seal::Seal;

#[derive(Subcommand, Debug)]
pub enum Oauth {
    /// Walk a client's whole way through a running instance and say what fails; leaves no access behind
    Doctor(OauthDoctor),
    /// Sign access tokens with a new key from now on; tokens of the old one are believed until they expire
    RotateKeys(Output),
}

/// Makes a new signing key, sealed as the server would.
pub async fn rotate_keys(context: &CommandContext, config: &Config, output: Output) -> anyhow::Result<()> {
    let signing = Signing::new(Seal::of(config)?.into());
    anyhow::ensure!(
        signing.fits(&context.db, &context.clock).await?,
        "the keys in the store are sealed with another secret; give the server's --secret (POSTHORN_SECRET), \
         or put the store's key file back",
    );
    let id = signing.rotate(&context.db, &context.clock).await?;
    output.tell(&json!({ "kid": id }), format!("Tokens are signed with the new key {id} within a minute."));
    Ok(())
}

//! `posthorn clients`: OAuth clients.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

use super::{CommandContext, print_json, print_table};
use crate::clock::rfc3339;
use crate::db::DbError;
use crate::oauth::{self, AuthMethod, Grant, Origin, RegisteredClient, Registration};
use crate::secret;

#[derive(Subcommand, Debug)]
pub enum Clients {
    /// Register a client and print its id alone on its line, then its secret if it has one
    Create {
        #[arg(long)]
        name: String,
        /// Where the browser may be sent back to; repeatable
        #[arg(long, required = true)]
        redirect_uri: Vec<String>,
        /// authorization_code or refresh_token; repeatable [default: both]
        #[arg(long)]
        grant_type: Vec<String>,
        /// full_access or emails:send; repeatable [default: both]
        #[arg(long)]
        scope: Vec<String>,
        /// none, client_secret_basic or client_secret_post
        #[arg(long, default_value = "none")]
        auth_method: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the clients
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Vouch for a client when it sends people to a host; without --host, no longer
    Verify {
        id: String,
        /// Host, with its port if it has one, as the consent page shows it
        #[arg(long)]
        host: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shut a client out: no requests, no tokens
    Disable(One),
    /// Let a client in again
    Enable(One),
    /// Delete a client; from then on it is unknown
    Delete(One),
}

/// A client, named by its id.
#[derive(Args, Debug)]
pub struct One {
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Clients {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<()> {
        match self {
            Clients::Create { name, redirect_uri, grant_type, scope, auth_method, json } => {
                let mut metadata = json!({
                    "client_name": name,
                    "redirect_uris": redirect_uri,
                    "token_endpoint_auth_method": auth_method,
                });
                if !grant_type.is_empty() {
                    metadata["grant_types"] = json!(grant_type);
                }
                // Left out means both; whoever says nothing on purpose must not get them.
                if scope.iter().any(|one| one.trim().is_empty()) {
                    bail!("--scope is empty; allowed are full_access and emails:send, or leave it out for both");
                }
                if !scope.is_empty() {
                    metadata["scope"] = json!(scope.join(" "));
                }
                create(context, &metadata, json).await
            }
            Clients::List { json } => list(context, json).await,
            Clients::Verify { id, host, json } => verify(context, &id, host.as_deref(), json).await,
            Clients::Disable(one) => disable(context, &one, Some(context.clock.now())).await,
            Clients::Enable(one) => disable(context, &one, None).await,
            Clients::Delete(one) => delete(context, &one).await,
        }
    }
}

async fn create(context: &CommandContext, metadata: &serde_json::Value, as_json: bool) -> anyhow::Result<()> {
    let registration = match Registration::parse(metadata, Origin::Administrator) {
        Ok(registration) => registration,
        Err(refusal) => bail!("{}", refusal.description()),
    };
    let client = registration.into_client(context.clock.ordered_id::<Uuid>().to_string(), context.clock.now());
    let secret = client.auth_method.has_secret().then(secret::token);
    let hash = secret.as_deref().map(secret::hash);
    context.db.commit(oauth::insert_client(&client, "operator", hash.as_ref())).await?;
    if as_json {
        print_json(&json!(RegisteredClient::new(&client, secret.as_deref())));
    } else {
        println!("{}", client.id);
        secret.iter().for_each(|secret| println!("{secret}"));
    }
    Ok(())
}

async fn list(context: &CommandContext, as_json: bool) -> anyhow::Result<()> {
    let clients = oauth::clients(&context.db).await?;
    if as_json {
        let items: Vec<_> = clients.iter().map(|client| RegisteredClient::new(client, None)).collect();
        print_json(&json!(items));
    } else {
        let rows: Vec<_> = clients
            .into_iter()
            .map(|client| {
                let kind = if client.auth_method == AuthMethod::None { "public" } else { "confidential" };
                let grants = client.grants.iter().map(Grant::as_str).collect::<Vec<_>>().join(" ");
                let created = rfc3339(client.created_at);
                vec![client.id, client.name, kind.into(), grants, client.scopes.to_string(), created]
            })
            .collect();
        print_table(&["CLIENT ID", "NAME", "KIND", "GRANTS", "SCOPES", "CREATED"], &rows);
    }
    Ok(())
}

async fn verify(context: &CommandContext, id: &str, host: Option<&str>, as_json: bool) -> anyhow::Result<()> {
    match context.db.commit(oauth::verify_client(id, host)).await {
        Ok(_) if as_json => print_json(&json!({"client_id": id, "verified_host": host})),
        Ok(_) => println!("{id}: {}", host.map_or("not verified".into(), |host| format!("verified for {host}"))),
        Err(DbError::Unexpected { .. }) => return Err(no_such_client(id)),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn disable(context: &CommandContext, one: &One, since: Option<i64>) -> anyhow::Result<()> {
    match context.db.commit(oauth::disable_client(&one.id, since)).await {
        Ok(_) if one.json => print_json(&json!({"client_id": one.id, "disabled": since.is_some()})),
        Ok(_) => println!("{}: {}.", one.id, if since.is_some() { "disabled" } else { "enabled" }),
        Err(DbError::Unexpected { .. }) => return Err(no_such_client(&one.id)),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn no_such_client(id: &str) -> anyhow::Error {
    anyhow::anyhow!("{id}: there is no client with this id; `posthorn clients list` shows them")
}

async fn delete(context: &CommandContext, One { id, json }: &One) -> anyhow::Result<()> {
    match context.db.commit(oauth::delete_client(id, context.clock.now())).await {
        Ok(_) if *json => print_json(&json!({"client_id": id, "deleted": true})),
        Ok(_) => println!("Deleted the client {id}."),
        Err(DbError::Unexpected { .. }) => return Err(no_such_client(id)),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

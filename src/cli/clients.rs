//! `posthorn clients`: OAuth clients.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

use super::{CommandContext, Output};
use crate::clock::rfc3339;
use crate::oauth::{self, AuthMethod, Client, Origin, RegisteredClient, Registration};
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
        #[command(flatten)]
        output: Output,
    },
    /// List the clients
    List(Output),
    /// Vouch for a client when it sends people to a host; without --host, no longer
    Verify {
        id: String,
        /// Host, with its port if it has one, as the consent page shows it
        #[arg(long)]
        host: Option<String>,
        #[command(flatten)]
        output: Output,
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
    #[command(flatten)]
    output: Output,
}

impl Clients {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<()> {
        match self {
            Clients::Create { name, redirect_uri, grant_type, scope, auth_method, output } => {
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
                create(context, &metadata, output).await
            }
            Clients::List(output) => list(context, output).await,
            Clients::Verify { id, host, output } => verify(context, &id, host.as_deref(), output).await,
            Clients::Disable(one) => disable(context, &one, Some(context.clock.now())).await,
            Clients::Enable(one) => disable(context, &one, None).await,
            Clients::Delete(one) => delete(context, &one).await,
        }
    }
}

async fn create(context: &CommandContext, metadata: &serde_json::Value, output: Output) -> anyhow::Result<()> {
    let registration = match Registration::parse(metadata, Origin::Administrator) {
        Ok(registration) => registration,
        Err(refusal) => bail!("{}", refusal.description()),
    };
    let client = registration.into_client(context.clock.ordered_id::<Uuid>().to_string(), context.clock.now());
    let secret = client.auth_method.has_secret().then(secret::token);
    let hash = secret.as_deref().map(secret::hash);
    context.db.commit(oauth::insert_client(&client, "operator", hash.as_ref())).await?;
    let lines: Vec<&str> = std::iter::once(client.id.as_str()).chain(secret.as_deref()).collect();
    output.tell(&json!(RegisteredClient::new(&client, secret.as_deref())), lines.join("\n"));
    Ok(())
}

async fn list(context: &CommandContext, output: Output) -> anyhow::Result<()> {
    let item = |client: &Client| json!(RegisteredClient::new(client, None));
    let cells = |client: &Client| {
        let kind = if client.auth_method == AuthMethod::None { "public" } else { "confidential" };
        let (grants, scopes) = (client.grants.to_string(), client.scopes.to_string());
        vec![client.id.clone(), client.name.clone(), kind.into(), grants, scopes, rfc3339(client.created_at)]
    };
    let headings = ["CLIENT ID", "NAME", "KIND", "GRANTS", "SCOPES", "CREATED"];
    output.list(&oauth::clients(&context.db).await?, item, &headings, cells);
    Ok(())
}

async fn verify(context: &CommandContext, id: &str, host: Option<&str>, output: Output) -> anyhow::Result<()> {
    context.commit(oauth::verify_client(id, host), || no_such_client(id)).await?;
    let words = host.map_or("not verified".into(), |host| format!("verified for {host}"));
    output.tell(&json!({"client_id": id, "verified_host": host}), format!("{id}: {words}"));
    Ok(())
}

async fn disable(context: &CommandContext, One { id, output }: &One, since: Option<i64>) -> anyhow::Result<()> {
    context.commit(oauth::disable_client(id, since), || no_such_client(id)).await?;
    let word = if since.is_some() { "disabled" } else { "enabled" };
    output.tell(&json!({"client_id": id, "disabled": since.is_some()}), format!("{id}: {word}."));
    Ok(())
}

fn no_such_client(id: &str) -> anyhow::Error {
    anyhow::anyhow!("{id}: there is no client with this id; `posthorn clients list` shows them")
}

async fn delete(context: &CommandContext, One { id, output }: &One) -> anyhow::Result<()> {
    context.commit(oauth::delete_client(id, &context.clock), || no_such_client(id)).await?;
    output.tell(&json!({"client_id": id, "deleted": true}), format!("Deleted the client {id}."));
    Ok(())
}

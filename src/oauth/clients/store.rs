//! Clients in the store.

use super::cache::Known;
use super::client::{AuthMethod, Client, GrantSet};
use super::refused::delete_refused;
use crate::clock::{Clock, HOUR};
use crate::credentials::{access, raise_access};
use crate::db::{Batch, Columns, Db, DbError, FromRow, Sql, from_row, from_word, statements};
use crate::grants;
use crate::id::WorkspaceId;

statements! {
    functions {
        /// A client with where it came from, `open` or `operator`, and the hash of its
        /// secret if it has one.
        pub fn insert_client(client: &Client, origin: &str, secret_hash: Option<&[u8; 32]>)
            with [&client.id, &client.name, redirect_uris(client), client.scopes.to_string(), client.grants.to_string(),
                client.auth_method.as_str(), secret_hash, client.client_uri.as_deref(), client.logo_uri.as_deref(),
                origin, client.created_at] = Sql::both(
            "INSERT INTO oauth_clients (id, name, redirect_uris, scopes, grants, auth_method, secret_hash,
                                        client_uri, logo_uri, origin, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
        /// A client as its metadata document describes it at this moment. What an operator said of it stays.
        pub fn keep_document(client: &Client, now: i64)
            with [&client.id, &client.name, redirect_uris(client), client.scopes.to_string(), client.grants.to_string(),
                client.auth_method.as_str(), client.client_uri.as_deref(), client.logo_uri.as_deref(), now]
            expects 1 = Sql::both(
            "INSERT INTO oauth_clients (id, name, redirect_uris, scopes, grants, auth_method, client_uri, logo_uri,
                                        origin, created_at, used_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'document', $9, $9)
             ON CONFLICT (id) DO UPDATE SET
                 name = excluded.name, redirect_uris = excluded.redirect_uris, scopes = excluded.scopes,
                 grants = excluded.grants, auth_method = excluded.auth_method, client_uri = excluded.client_uri,
                 logo_uri = excluded.logo_uri, used_at = excluded.used_at
             WHERE oauth_clients.origin = 'document'");
        /// Deletes clients that described themselves and were given nothing. Every
        /// request of such a client says that it is in use, so an hour later no request
        /// and no code of it can be alive.
        pub fn sweep_documents(now: i64) with [now - HOUR] = Sql::both(
            "DELETE FROM oauth_clients WHERE used_at < $1 AND origin = 'document'
                 AND verified_host IS NULL AND disabled_at IS NULL
                 AND NOT EXISTS (SELECT 1 FROM oauth_grants g WHERE g.client_id = oauth_clients.id)")
            .raising();
        /// Strangers' clients that nobody ever approved, and that nobody is just looking at.
        pub fn sweep(registered_before: i64) = Sql::both(
            "DELETE FROM oauth_clients WHERE origin = 'open' AND created_at < $1
               AND NOT EXISTS (SELECT 1 FROM oauth_grants g WHERE g.client_id = oauth_clients.id)
               AND NOT EXISTS (SELECT 1 FROM authorization_codes c WHERE c.client_id = oauth_clients.id)
               AND NOT EXISTS (SELECT 1 FROM authorization_requests a WHERE a.client_id = oauth_clients.id)")
            .raising();
        /// A fence for what ends with the client: whoever deletes it waits, and ends that, too.
        pub fn client_is_there(id: &str) = Sql::each(
            "SELECT 1 FROM oauth_clients WHERE id = $1",
            "SELECT 1 FROM oauth_clients WHERE id = $1 FOR KEY SHARE");
        /// The revision, if what can be changed of the client has not been.
        fn client_stands(client: &Client)
            with [&client.id, client.disabled_at.unwrap_or(0), client.verified_host.as_deref().unwrap_or_default()]
            = Sql::both(
            "SELECT r.number FROM oauth_clients c JOIN revisions r ON r.topic = 'access'
             WHERE c.id = $1 AND COALESCE(c.disabled_at, 0) = $2 AND COALESCE(c.verified_host, '') = $3");
    }
    reads {
        /// The client, the revision it is read under, its secret's hash and whose it is, in one look.
        fn client_in_use(id: &str) -> Option<(Client, i64, Option<Vec<u8>>, Option<WorkspaceId>)> = Sql::both(
            "SELECT c.id, c.name, c.redirect_uris, c.scopes, c.grants, c.auth_method, c.client_uri, c.logo_uri,
                    c.verified_host, c.disabled_at, c.created_at, r.number, c.secret_hash, c.workspace_id
             FROM oauth_clients c JOIN revisions r ON r.topic = 'access' WHERE c.id = $1");
        fn clients_behind(id: &str) -> Vec<Client> = Sql::both(
            "SELECT id, name, redirect_uris, scopes, grants, auth_method, client_uri, logo_uri,
                    verified_host, disabled_at, created_at
             FROM oauth_clients WHERE id > $1 ORDER BY id LIMIT 1000");
    }
    VERIFY_CLIENT = Sql::both("UPDATE oauth_clients SET verified_host = $2 WHERE id = $1").raising();
    DISABLE_CLIENT = Sql::both("UPDATE oauth_clients SET disabled_at = $2 WHERE id = $1").raising();
    DELETE_CLIENT = Sql::both("DELETE FROM oauth_clients WHERE id = $1").raising();
}

from_row! { Client {
    id, name, redirect_uris: json, scopes, grants, auth_method, client_uri, logo_uri, verified_host, disabled_at,
    created_at
} }
from_word!(AuthMethod);

impl FromRow for GrantSet {
    fn take(columns: &mut Columns<'_>) -> Result<GrantSet, DbError> {
        columns.parsed("grants", GrantSet::parse)
    }
}

pub async fn find_client(db: &Db, id: &str) -> Result<Option<Known>, DbError> {
    let found = client_in_use(db, id).await?;
    Ok(found.map(|(client, revision, secret_hash, workspace_id)| {
        let basis = access(client_stands(&client), revision);
        Known { client, secret_hash, workspace_id, basis }
    }))
}

pub async fn clients(db: &Db) -> Result<Vec<Client>, DbError> {
    let mut all: Vec<Client> = Vec::new();
    loop {
        let page = clients_behind(db, all.last().map_or("", |last| &last.id)).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn redirect_uris(client: &Client) -> String {
    serde_json::Value::from(client.redirect_uris.clone()).to_string()
}

/// Notes that an operator vouches for a client when it sends people to this
/// host, or no longer does.
pub fn verify_client(id: &str, host: Option<&str>) -> Batch {
    Batch::new().and(VERIFY_CLIENT.with([id.into(), host.into()]).expect(1)).and(raise_access())
}

/// Shuts a client out since a time, or lets it in again; at once, everywhere.
pub fn disable_client(id: &str, since: Option<i64>) -> Batch {
    let mut batch = Batch::new().and(DISABLE_CLIENT.with([id.into(), since.into()]).expect(1)).and(raise_access());
    if let Some(now) = since {
        batch.append(grants::stop_of_client(id, now));
    }
    batch
}

/// Deletes a client everywhere at once, and with it what it was allowed.
pub fn delete_client(id: &str, clock: &Clock) -> Batch {
    let mut batch = Batch::new().and(DELETE_CLIENT.with([id.into()]).expect(1));
    batch.append(grants::revoke_of_client(id, clock));
    batch.push(delete_refused(id));
    batch
}

//! Clients in the store.

use super::cache::Known;
use super::client::{AuthMethod, Client, GrantSet};
use crate::clock::HOUR;
use crate::credentials::{ScopeSet, access, raise_access};
use crate::db::{Batch, Db, DbError, Row, Sql, statements};
use crate::grants::stop_of_client;

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
    }
    /// The client and the revision it is read under, in one look.
    FIND_CLIENT = Sql::both(
        "SELECT c.id, c.name, c.redirect_uris, c.scopes, c.grants, c.auth_method, c.client_uri, c.logo_uri,
                c.verified_host, c.created_at, c.disabled_at, r.number, c.secret_hash
         FROM oauth_clients c JOIN revisions r ON r.topic = 'access' WHERE c.id = $1");
    /// The revision, if what can be changed of the client has not been.
    CLIENT_STANDS = Sql::both(
        "SELECT r.number FROM oauth_clients c JOIN revisions r ON r.topic = 'access'
         WHERE c.id = $1 AND COALESCE(c.disabled_at, 0) = $2 AND COALESCE(c.verified_host, '') = $3");
    CLIENTS = Sql::both(
        "SELECT id, name, redirect_uris, scopes, grants, auth_method, client_uri, logo_uri,
                verified_host, created_at, disabled_at
         FROM oauth_clients WHERE id > $1 ORDER BY id LIMIT 1000");
    VERIFY_CLIENT = Sql::both("UPDATE oauth_clients SET verified_host = $2 WHERE id = $1").raising();
    DISABLE_CLIENT = Sql::both("UPDATE oauth_clients SET disabled_at = $2 WHERE id = $1").raising();
    DELETE_CLIENT = Sql::both("DELETE FROM oauth_clients WHERE id = $1").raising();
}

pub async fn find_client(db: &Db, id: &str) -> Result<Option<Known>, DbError> {
    let rows = db.read(FIND_CLIENT.with([id.into()])).await?;
    let read = |row: &Row| {
        let (client, disabled_at) = (read_client(row)?, row.maybe(10, Row::int)?.unwrap_or(0));
        let verified_host = client.verified_host.as_deref().unwrap_or_default();
        let stands = CLIENT_STANDS.with([id.into(), disabled_at.into(), verified_host.into()]);
        let basis = access(stands, row.int(11)?);
        Ok(Known { client, secret_hash: row.maybe(12, Row::bytes)?, basis })
    };
    rows.first().map(read).transpose()
}

pub async fn clients(db: &Db) -> Result<Vec<Client>, DbError> {
    let mut all: Vec<Client> = Vec::new();
    loop {
        let after = all.last().map_or(String::new(), |last| last.id.clone());
        let rows = db.read(CLIENTS.with([after.into()])).await?;
        if rows.is_empty() {
            return Ok(all);
        }
        let page: Result<Vec<Client>, DbError> = rows.iter().map(read_client).collect();
        all.extend(page?);
    }
}

fn read_client(row: &Row) -> Result<Client, DbError> {
    let broken = |what: &str| DbError::Broken(format!("a client has {what} that cannot be read"));
    Ok(Client {
        id: row.text(0)?,
        name: row.text(1)?,
        redirect_uris: serde_json::from_str(&row.text(2)?).map_err(|_| broken("redirect URIs"))?,
        scopes: ScopeSet::parse(&row.text(3)?).map_err(|_| broken("scopes"))?,
        grants: GrantSet::parse(&row.text(4)?).ok_or_else(|| broken("grants"))?,
        auth_method: AuthMethod::parse(&row.text(5)?).ok_or_else(|| broken("an authentication method"))?,
        client_uri: row.maybe(6, Row::text)?,
        logo_uri: row.maybe(7, Row::text)?,
        verified_host: row.maybe(8, Row::text)?,
        created_at: row.int(9)?,
        disabled: row.maybe(10, Row::int)?.is_some(),
    })
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
        batch.append(stop_of_client(id, now));
    }
    batch
}

/// Deletes a client everywhere at once.
pub fn delete_client(id: &str, now: i64) -> Batch {
    let mut batch = Batch::new().and(DELETE_CLIENT.with([id.into()]).expect(1)).and(raise_access());
    batch.append(stop_of_client(id, now));
    batch
}

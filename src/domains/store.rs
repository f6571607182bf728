//! Domains in the store.

use std::sync::Arc;

use super::domain::{Capability, DomainChange, NewDomain, TlsPolicy};
use super::status::{Findings, Status};
use super::transport;
use crate::clock::SECOND;
use crate::config::{Relay, TransportKind};
use crate::credentials::delete_keys_of_domain;
use crate::db::{Basis, Batch, DbError, Row, Sql, Stmt, Value, statements};
use crate::id::{DomainId, WorkspaceId};
use crate::seal::Seal;
use crate::web::Page;
use crate::work::{Claimable, InOrder, claim_rows};

/// How many domains a workspace may have: each costs a key pair, and a look at DNS every day.
pub const MOST: i64 = 1000;

macro_rules! columns {
    () => {
        "domains.workspace_id, domains.id, name, region, status, is_owned, may_send, revision, return_path, \
         open_tracking, click_tracking, tracking_subdomain, tls, sending, receiving, transport, relays, warm_up, \
         warm_up_since, findings, created_at, checked_at, awaited_since, attempt"
    };
}

statements! {
    functions {
        pub fn by_id(workspace_id: WorkspaceId, id: DomainId) = Sql::both(concat!(
            "SELECT ", columns!(), " FROM domains WHERE workspace_id = $1 AND id = $2"));
        /// The workspaces for whose sake a name cannot be had: this one, and whoever has shown that it is its own.
        pub fn taken(workspace_id: WorkspaceId, name: &str) = Sql::both(
            "SELECT workspace_id FROM domains WHERE name = $2 AND (is_owned OR workspace_id = $1)");
        /// The ids and names of the domains of a workspace, by name.
        pub fn names(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM domains WHERE workspace_id = $1 ORDER BY name");
        /// Claims one domain, due or not, whose records are awaited anew.
        pub fn begin(workspace_id: WorkspaceId, id: DomainId, lease_until: i64, awaited_since: i64) expects 1
            = Sql::both(concat!(
            "UPDATE domains SET due_at = $3, attempt = attempt + 1, awaited_since = $4
             WHERE workspace_id = $1 AND id = $2 RETURNING ", columns!()));
        /// Has the records looked at, now and in the days to come.
        pub fn await_anew(workspace_id: WorkspaceId, id: DomainId, now: Moment)
            with [workspace_id, id, now.steady] expects 1 = Sql::both(
            "UPDATE domains SET awaited_since = $3, due_at = $3, attempt = attempt + 1, revision = revision + 1
             WHERE workspace_id = $1 AND id = $2");
        /// Something was taken away from those who send: what was decided before is decided again.
        pub fn raise() expects 1 = Sql::both(
            "UPDATE revisions SET number = number + 1 WHERE topic = 'domains'").raising();
        /// What is known of a name: of the workspace itself, and of whoever has shown that it is its own.
        pub fn of_name(workspace_id: WorkspaceId, name: &str) = Sql::both(
            "SELECT r.number, d.workspace_id, d.id, d.is_owned, d.may_send, d.sending, d.transport, d.revision, d.status,
                 d.open_tracking, d.click_tracking, d.tracking_subdomain, d.findings
             FROM revisions r LEFT JOIN domains d ON d.name = $2 AND (d.is_owned OR d.workspace_id = $1)
             WHERE r.topic = 'domains'");
        /// For those who deliver: they know a domain by its id alone.
        pub fn for_delivery(id: DomainId) = Sql::both(
            "SELECT r.number, d.workspace_id, d.name, d.return_path, d.tls, d.transport, d.relays, d.warm_up,
                 d.warm_up_since, d.revision, d.findings
             FROM domains d JOIN revisions r ON r.topic = 'domains' WHERE d.id = $1");
        /// Domains with relays of their own, by id: id and what is kept.
        pub fn all_relays(after: DomainId) = Sql::both(
            "SELECT id, relays FROM domains WHERE relays IS NOT NULL AND id > $1 ORDER BY id LIMIT 100");
        /// Keeps relays otherwise, unless somebody changed them meanwhile.
        pub fn reseal_relays(id: DomainId, kept: &str, now_kept: &str) = Sql::both(
            "UPDATE domains SET relays = $3 WHERE id = $1 AND relays = $2");
    }
    reads {
        /// Whose mail for a name is, if its workspace has shown that the name is its own and takes mail for it.
        pub fn receiver(name: &str) -> Option<(WorkspaceId, DomainId)> = Sql::both(
            "SELECT workspace_id, id FROM domains WHERE name = $1 AND is_owned AND receiving");
    }
    /// Refused where another workspace has shown that the name is its own, and where there are too many.
    INSERT = Sql::both(
        "INSERT INTO domains (workspace_id, id, name, region, status, is_owned, may_send, revision, return_path,
             open_tracking, click_tracking, tracking_subdomain, tls, sending, receiving, transport, relays, warm_up,
             warm_up_since, findings, created_at, awaited_since, due_at, attempt)
         SELECT w.id, $2, $3, $4, 'not_started', FALSE, FALSE, 1, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
             '{}', $16, $17, $18, 0
         FROM workspaces w
         WHERE w.id = $1 AND (SELECT COUNT(*) FROM domains d WHERE d.workspace_id = $1) < $19
           AND NOT EXISTS (SELECT 1 FROM domains d WHERE d.name = $3 AND d.is_owned)");
    OLDER = Sql::both(concat!(
        "SELECT ", columns!(), " FROM domains WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3"));
    NEWER = Sql::both(concat!(
        "SELECT ", columns!(), " FROM domains WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3"));
    COUNT = Sql::both("SELECT COUNT(*) FROM domains WHERE workspace_id = $1");
    EXISTS = Sql::each(
        "SELECT 1 FROM domains WHERE workspace_id = $1 AND id = $2",
        "SELECT 1 FROM domains WHERE workspace_id = $1 AND id = $2 FOR KEY SHARE");
    /// A look at DNS that is under way is of records that may not be wanted any more: it counts for nothing.
    CHANGE = Sql::both(
        "UPDATE domains SET open_tracking = COALESCE($3, open_tracking), click_tracking = COALESCE($4, click_tracking),
             tls = COALESCE($5, tls), sending = COALESCE($6, sending), receiving = COALESCE($7, receiving),
             tracking_subdomain = CASE WHEN $8 THEN $9 ELSE tracking_subdomain END,
             transport = CASE WHEN $10 THEN $11 ELSE transport END, relays = CASE WHEN $10 THEN $12 ELSE relays END,
             warm_up = CASE WHEN $13 THEN $14 ELSE warm_up END,
             warm_up_since = CASE WHEN $13 THEN $15 ELSE warm_up_since END,
             revision = revision + 1, attempt = attempt + 1, awaited_since = $16, due_at = $16
         WHERE workspace_id = $1 AND id = $2");
    DELETE = Sql::both("DELETE FROM domains WHERE workspace_id = $1 AND id = $2").raising();
    NEXT = Sql::both("SELECT due_at FROM domains WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1");
    CLAIM = claim_rows!(
        "domains" ("workspace_id", "id") where "due_at IS NOT NULL" set "" returning columns!());
    SETTLE = Sql::both(
        "UPDATE domains SET status = $4, is_owned = $5, may_send = $6, revision = revision + $7, findings = $8,
             checked_at = $9, due_at = $10
         WHERE workspace_id = $1 AND id = $2 AND attempt = $3");
    REVISION_IS = Sql::both("SELECT 1 FROM revisions WHERE topic = 'domains' AND number = $1");
    NAME_IS_NOBODYS = Sql::both(
        "SELECT r.number FROM revisions r WHERE r.topic = 'domains'
           AND NOT EXISTS (SELECT 1 FROM domains d WHERE d.name = $2 AND (d.is_owned OR d.workspace_id = $1))");
    DOMAIN_STANDS = Sql::both(
        "SELECT r.number FROM revisions r JOIN domains d ON d.workspace_id = $1 AND d.id = $2 AND d.revision = $3
         WHERE r.topic = 'domains'
           AND NOT EXISTS (SELECT 1 FROM domains o WHERE o.name = d.name AND o.is_owned AND o.workspace_id <> $1)");
}

/// A domain as the store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub workspace_id: WorkspaceId,
    pub id: DomainId,
    pub name: String,
    pub region: String,
    pub status: Status,
    pub is_owned: bool,
    pub may_send: bool,
    pub return_path: String,
    pub open_tracking: bool,
    pub click_tracking: bool,
    pub tracking_subdomain: Option<String>,
    pub tls: String,
    pub sending: bool,
    pub receiving: bool,
    pub transport: Option<TransportKind>,
    /// Sealed.
    pub relays: Option<String>,
    pub warm_up: Option<i64>,
    pub findings: Findings,
    pub created_at: i64,
    pub checked_at: Option<i64>,
    pub awaited_since: i64,
    /// Which look at DNS this is: the fence against one that took too long.
    pub attempt: i64,
}

impl Stored {
    pub fn read(row: &Row) -> Result<Stored, DbError> {
        Ok(Stored {
            workspace_id: row.id(0)?,
            id: row.id(1)?,
            name: row.text(2)?,
            region: row.text(3)?,
            status: status(&row.text(4)?)?,
            is_owned: row.bool(5)?,
            may_send: row.bool(6)?,
            return_path: row.text(8)?,
            open_tracking: row.bool(9)?,
            click_tracking: row.bool(10)?,
            tracking_subdomain: row.maybe(11, Row::text)?,
            tls: row.text(12)?,
            sending: row.bool(13)?,
            receiving: row.bool(14)?,
            transport: kind(row.maybe(15, Row::text)?)?,
            relays: row.maybe(16, Row::text)?,
            warm_up: row.maybe(17, Row::int)?,
            findings: findings(&row.text(19)?)?,
            created_at: row.int(20)?,
            checked_at: row.maybe(21, Row::int)?,
            awaited_since: row.int(22)?,
            attempt: row.int(23)?,
        })
    }

    /// The relays of its own, in the order in which they are tried. None where they were
    /// sealed with a key that is not here.
    pub fn own_relays(&self, seal: &Seal) -> Vec<Relay> {
        own_relays(self.relays.as_deref(), seal).unwrap_or_default()
    }
}

/// What DNS said of a domain's records.
pub fn findings(kept: &str) -> Result<Findings, DbError> {
    serde_json::from_str(kept).map_err(|error| DbError::Broken(format!("findings of a domain: {error}")))
}

/// `None` where they cannot be opened.
pub fn own_relays(kept: Option<&str>, seal: &Seal) -> Option<Vec<Relay>> {
    kept.map_or(Some(Vec::new()), |kept| transport::relays(&seal.open_text(kept)?))
}

pub fn status(word: &str) -> Result<Status, DbError> {
    Status::parse(word).ok_or_else(|| DbError::Broken(format!("unknown status {word} of a domain")))
}

pub fn kind(word: Option<String>) -> Result<Option<TransportKind>, DbError> {
    let parse = |word: String| {
        TransportKind::parse(&word).ok_or_else(|| DbError::Broken(format!("unknown transport {word} of a domain")))
    };
    word.map(parse).transpose()
}

impl Claimable for Stored {
    const QUEUE: &'static str = "domains";
    /// Far longer than a few questions take.
    const LEASE: i64 = 60 * SECOND;

    fn read(row: &Row) -> Result<Stored, DbError> {
        Stored::read(row)
    }
}

impl InOrder for Stored {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

/// When something happens, in wall time and in steady time.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub wall: i64,
    pub steady: i64,
}

/// The domain to come.
pub fn new(workspace_id: WorkspaceId, id: DomainId, given: &NewDomain, seal: &Seal, now: Moment) -> Stored {
    let capabilities = given.capabilities.unwrap_or_default();
    Stored {
        workspace_id,
        id,
        name: given.name.as_str().to_owned(),
        region: given.region.unwrap_or_default().as_str().to_owned(),
        status: Status::NotStarted,
        is_owned: false,
        may_send: false,
        return_path: given.custom_return_path.clone().unwrap_or_default().as_str().to_owned(),
        open_tracking: given.open_tracking.unwrap_or(false),
        click_tracking: given.click_tracking.unwrap_or(false),
        tracking_subdomain: given.tracking_subdomain.as_ref().map(|label| label.as_str().to_owned()),
        tls: given.tls.unwrap_or_default().as_str().to_owned(),
        sending: capabilities.sending.is_none_or(Capability::is_enabled),
        receiving: capabilities.receiving.is_some_and(Capability::is_enabled),
        transport: given.transport.as_ref().map(|transport| transport.kind()),
        relays: given.transport.as_ref().and_then(|transport| transport.relays()).map(|relays| seal.close_text(relays)),
        warm_up: given.warm_up.map(|warm_up| i64::from(warm_up.mails())),
        findings: Findings::new(),
        created_at: now.wall,
        checked_at: None,
        awaited_since: now.steady,
        attempt: 0,
    }
}

/// Its records are looked for at `due_at`.
pub fn insert(domain: &Stored, due_at: i64) -> Stmt {
    let insert = INSERT.with([
        domain.workspace_id.into(),
        domain.id.into(),
        (&domain.name).into(),
        (&domain.region).into(),
        (&domain.return_path).into(),
        domain.open_tracking.into(),
        domain.click_tracking.into(),
        domain.tracking_subdomain.as_deref().into(),
        (&domain.tls).into(),
        domain.sending.into(),
        domain.receiving.into(),
        domain.transport.map(TransportKind::as_str).into(),
        domain.relays.as_deref().into(),
        domain.warm_up.into(),
        domain.warm_up.map(|_| domain.created_at).into(),
        domain.created_at.into(),
        domain.awaited_since.into(),
        due_at.into(),
        MOST.into(),
    ]);
    insert.expect(1)
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn count(workspace_id: WorkspaceId) -> Stmt {
    COUNT.with([workspace_id.into()])
}

/// Finds a domain of a workspace, which is there until the batch is committed.
pub fn exists(workspace_id: WorkspaceId, id: DomainId) -> Stmt {
    EXISTS.with([workspace_id.into(), id.into()]).expect(1)
}

/// Changes what is named and leaves the rest, whatever others change meanwhile.
pub fn change(workspace_id: WorkspaceId, id: DomainId, change: &DomainChange, seal: &Seal, now: Moment) -> Batch {
    let capabilities = change.capabilities.unwrap_or_default();
    let enabled = |capability: Option<Capability>| Value::from(capability.map(Capability::is_enabled));
    let tracking = change.tracking_subdomain.0.as_ref().map(|label| label.as_ref().map(|label| label.as_str()));
    let transport = change.transport.0.as_ref().map(Option::as_ref);
    let warm_up = change.warm_up.0.map(|given| given.map(|warm_up| i64::from(warm_up.mails())));
    let change = CHANGE.with([
        workspace_id.into(),
        id.into(),
        change.open_tracking.into(),
        change.click_tracking.into(),
        change.tls.map(TlsPolicy::as_str).into(),
        enabled(capabilities.sending),
        enabled(capabilities.receiving),
        tracking.is_some().into(),
        tracking.flatten().into(),
        transport.is_some().into(),
        transport.flatten().map(|transport| transport.kind().as_str()).into(),
        transport.flatten().and_then(|transport| transport.relays()).map(|relays| seal.close_text(relays)).into(),
        warm_up.is_some().into(),
        warm_up.flatten().into(),
        warm_up.flatten().map(|_| now.wall).into(),
        now.steady.into(),
    ]);
    Batch::new().and(change.expect(1)).and(raise())
}

/// Deletes a domain, what signs for it, and the API keys that are held to it. The domain
/// goes first: whoever makes such a key holds on to it.
pub fn delete(workspace_id: WorkspaceId, id: DomainId) -> Batch {
    let mut batch = Batch::new().and(DELETE.with([workspace_id.into(), id.into()]).expect(1));
    batch.push(super::keys_store::delete(id));
    batch.push(raise());
    batch.append(delete_keys_of_domain(id));
    batch
}

/// What a look at DNS has come to.
pub struct Outcome<'a> {
    pub status: Status,
    pub is_owned: bool,
    pub findings: &'a Findings,
    pub checked_at: i64,
    pub due_at: Option<i64>,
    /// Whether those who send have to hear of it.
    pub is_news: bool,
}

/// Holds only as long as nobody has begun another look or changed the domain since.
pub fn settle(domain: &Stored, outcome: &Outcome<'_>) -> Stmt {
    let settle = SETTLE.with([
        domain.workspace_id.into(),
        domain.id.into(),
        domain.attempt.into(),
        outcome.status.as_str().into(),
        outcome.is_owned.into(),
        (outcome.is_owned && outcome.status.may_send()).into(),
        i64::from(outcome.is_news).into(),
        serde_json::to_string(outcome.findings).unwrap_or_default().into(),
        outcome.checked_at.into(),
        outcome.due_at.into(),
    ]);
    settle.expect(1)
}

/// Holds as long as a name is nobody's and unknown to a workspace.
pub fn nobodys(workspace_id: WorkspaceId, name: &str, revision: i64) -> Arc<Basis> {
    Basis::new(REVISION_IS, NAME_IS_NOBODYS.with([workspace_id.into(), name.into()]), revision)
}

/// Holds as long as a domain is as it was, and nobody else's.
pub fn stands(workspace_id: WorkspaceId, id: DomainId, own: i64, revision: i64) -> Arc<Basis> {
    let stands = DOMAIN_STANDS.with([workspace_id.into(), id.into(), own.into()]);
    Basis::new(REVISION_IS, stands, revision)
}

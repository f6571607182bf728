//! Where the traces of a person are in the store.

use uuid::Uuid;

use crate::clock::{SECOND, Time};
use crate::db::{DbError, FromRow, Row, Sql, from_row, statements};
use crate::id::{AutomationId, ContactId, EmailId, OccurrenceId, RunId, WorkspaceId};
use crate::mime::Address;
use crate::text::like;
use crate::work::{Claimable, InOrder, claim_rows};

/// How many rows are gone through at once.
pub const ROWS: i64 = 2_000;

/// Whose traces they are.
#[derive(Clone)]
pub struct Person {
    pub workspace_id: WorkspaceId,
    pub id: ContactId,
    pub email_key: String,
}

/// Why the address of somebody who was erased gets no mail.
pub const ERASED: &str = "The person was erased.";

impl Person {
    /// By which the suppression list knows the address.
    fn mail_key(&self) -> String {
        Address::key_of(&self.email_key)
    }

    /// What JSON that names the address looks like, in lower case: alone, or behind a name.
    fn patterns(&self) -> [String; 2] {
        let key = like(&self.email_key, '\\');
        [format!("%\"{key}\"%"), format!("%<{key}>%")]
    }
}

/// Some rows of a table: behind one place, up to another.
#[derive(Clone, Copy)]
pub struct Stretch {
    pub behind: (Uuid, i64),
    pub until: (Uuid, i64),
}

statements! {
    functions {
        pub fn insert(person: &Person, now: i64, due_at: i64)
            with [person.workspace_id, person.id, &person.email_key, Uuid::nil(), now, due_at] = Sql::both(
            "INSERT INTO erasures (workspace_id, id, email_key, stage, position, number, created_at, due_at, attempt)
             VALUES ($1, $2, $3, 0, $4, 0, $5, $6, 0)");
        pub fn erasure(workspace_id: WorkspaceId, id: ContactId) = Sql::both(
            "SELECT id, created_at, completed_at FROM erasures WHERE workspace_id = $1 AND id = $2");
        pub fn advance(claimed: &Claimed, stage: i64, place: (Uuid, i64), due_at: i64)
            with [claimed.workspace_id, claimed.id, claimed.attempt, stage, place.0, place.1, due_at] expects 1
            = Sql::both(
            "UPDATE erasures SET stage = $4, position = $5, number = $6, due_at = $7
             WHERE workspace_id = $1 AND id = $2 AND attempt = $3");
        pub fn end(claimed: &Claimed, now: i64) with [claimed.workspace_id, claimed.id, claimed.attempt, now] expects 1
            = Sql::both(
            "UPDATE erasures SET email_key = NULL, due_at = NULL, completed_at = $4
             WHERE workspace_id = $1 AND id = $2 AND attempt = $3");

        pub fn runs(person: &Person, behind: Uuid) with [person.workspace_id, person.id, behind] = Sql::both(
            "SELECT r.automation_id, r.id, r.occurrence_id, r.status, r.created_at, r.completed_at, r.state FROM runs r
             WHERE r.contact_id = $2 AND r.workspace_id = $1 AND r.id > $3 ORDER BY r.id LIMIT 200");
        pub fn delete_run(automation_id: AutomationId, id: RunId) = Sql::both(
            "DELETE FROM runs WHERE automation_id = $1 AND id = $2");
        pub fn delete_outbox(run_id: RunId) = Sql::both("DELETE FROM outbox WHERE run_id = $1");

        pub fn edge_of_events(workspace_id: WorkspaceId, behind: Uuid) with [workspace_id, behind, ROWS] = Sql::both(
            "SELECT id FROM (SELECT id FROM occurrences WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3)
                 AS looked
             ORDER BY id DESC LIMIT 1");
        pub fn events(person: &Person, of: Stretch)
            with [person.workspace_id, person.id, of.behind.0, of.until.0] = Sql::both(
            "SELECT id, name, payload, created_at FROM occurrences
             WHERE workspace_id = $1 AND id > $3 AND id <= $4 AND contact_id = $2 ORDER BY id");
        pub fn delete_events(person: &Person, of: Stretch)
            with [person.workspace_id, person.id, of.behind.0, of.until.0] = Sql::both(
            "DELETE FROM occurrences WHERE workspace_id = $1 AND id > $3 AND id <= $4 AND contact_id = $2");

        /// Of every workspace: rows of recipients are found by their mails.
        pub fn edge_of_recipients(behind: Uuid, number: i64) with [behind, number, ROWS] = Sql::both(
            "SELECT email_id, number FROM (SELECT email_id, number FROM email_recipients
                 WHERE (email_id, number) > ($1, $2) ORDER BY email_id, number LIMIT $3) AS looked
             ORDER BY email_id DESC, number DESC LIMIT 1");
        pub fn recipients(person: &Person, of: Stretch)
            with [person.workspace_id, person.id, &person.email_key, of.behind.0, of.behind.1, of.until.0, of.until.1]
            = Sql::both(
            "SELECT email_id, number FROM email_recipients
             WHERE (email_id, number) > ($4, $5) AND (email_id, number) <= ($6, $7)
               AND workspace_id = $1 AND (contact_id = $2 OR LOWER(address) = $3)
             ORDER BY email_id, number");
        /// A mail, and whether it went to others, too.
        pub fn mail(email_id: EmailId) = Sql::both(
            "SELECT e.sender, e.subject, e.envelope, e.origin, e.html, e.text, e.created_at,
                    CASE WHEN e.origin = 'broadcast' OR (SELECT COUNT(*) FROM (SELECT 1 FROM email_recipients r
                             WHERE r.email_id = e.id LIMIT 2) AS some_recipients) > 1
                    THEN TRUE ELSE FALSE END
             FROM emails e WHERE e.id = $1");
        pub fn history(email_id: EmailId, number: i64) = Sql::both(
            "SELECT type, detail, created_at FROM email_events
             WHERE email_id = $1 AND (number IS NULL OR number = $2) ORDER BY id");
        pub fn body_piece(email_id: EmailId, part: i64, number: i64) = Sql::both(
            "SELECT bytes FROM email_chunks WHERE email_id = $1 AND part = $2 AND number = $3");
        /// What has not left yet does not leave any more.
        pub fn forget_recipient(email_id: EmailId, number: i64, address: &str) = Sql::both(
            "UPDATE email_recipients SET address = $3, reason = NULL,
                 state = CASE WHEN due_at IS NULL THEN state ELSE 90 END, due_at = NULL, attempt = attempt + 1
             WHERE email_id = $1 AND number = $2");
        pub fn forget_history(email_id: EmailId, number: i64) = Sql::both(
            "UPDATE email_events SET detail = '{}', visitor = NULL WHERE email_id = $1 AND number = $2");
        pub fn forget_whole_history(email_id: EmailId) = Sql::both(
            "UPDATE email_events SET detail = '{}', visitor = NULL WHERE email_id = $1");
        pub fn forget_values(email_id: EmailId, number: i64) = Sql::both(
            "DELETE FROM email_values WHERE email_id = $1 AND number = $2");
        pub fn set_envelope(email_id: EmailId, envelope: &str) = Sql::both(
            "UPDATE emails SET envelope = $2 WHERE id = $1");
        pub fn forget_content(email_id: EmailId, envelope: &str) = Sql::both(
            "UPDATE emails SET subject = '(erased)', html = NULL, text = NULL, size = NULL, envelope = $2,
                 state = CASE WHEN state < 20 OR state = 28 OR state = 30 THEN 90 ELSE state END
             WHERE id = $1");
        pub fn forget_pieces(email_id: EmailId) = Sql::both("DELETE FROM email_chunks WHERE email_id = $1");

        pub fn edge_of_received(workspace_id: WorkspaceId, behind: Uuid) with [workspace_id, behind, ROWS] = Sql::both(
            "SELECT id FROM (SELECT id FROM received_emails WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3)
                 AS looked
             ORDER BY id DESC LIMIT 1");
        pub fn received(person: &Person, of: Stretch)
            with [person.workspace_id, of.behind.0, of.until.0, &person.email_key, &person.patterns()[1]] = Sql::both(
            "SELECT id, subject, text, created_at FROM received_emails
             WHERE workspace_id = $1 AND id > $2 AND id <= $3
               AND (LOWER(sender) = $4 OR LOWER(sender) LIKE $5 ESCAPE '\\') ORDER BY id");
        pub fn delete_received(id: Uuid) = Sql::both("DELETE FROM received_emails WHERE id = $1");
        pub fn delete_received_pieces(id: Uuid) = Sql::both("DELETE FROM received_chunks WHERE email_id = $1");

        pub fn edge_of_told(behind: Uuid) with [behind, ROWS] = Sql::both(
            "SELECT id FROM (SELECT id FROM webhook_events WHERE id > $1 ORDER BY id LIMIT $2) AS looked
             ORDER BY id DESC LIMIT 1");
        pub fn told(person: &Person, of: Stretch)
            with [person.workspace_id, of.behind.0, of.until.0, &person.patterns()[0], &person.patterns()[1]]
            = Sql::both(
            "SELECT id FROM webhook_events WHERE workspace_id = $1 AND id > $2 AND id <= $3
               AND (LOWER(payload) LIKE $4 ESCAPE '\\' OR LOWER(payload) LIKE $5 ESCAPE '\\')");
        pub fn delete_told(id: Uuid) = Sql::both("DELETE FROM webhook_events WHERE id = $1");
        pub fn delete_deliveries(id: Uuid) = Sql::both("DELETE FROM webhook_deliveries WHERE event_id = $1");

        pub fn edge_of_log(workspace_id: WorkspaceId, behind: Uuid) with [workspace_id, behind, ROWS] = Sql::both(
            "SELECT id FROM (SELECT id FROM request_log WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3)
                 AS looked
             ORDER BY id DESC LIMIT 1");
        pub fn delete_log(person: &Person, of: Stretch)
            with [person.workspace_id, of.behind.0, of.until.0, &person.patterns()[0], &person.patterns()[1],
                format!("%/{}%", person.patterns()[0].trim_matches(['%', '"']))] = Sql::both(
            "DELETE FROM request_log WHERE workspace_id = $1 AND id > $2 AND id <= $3
               AND (LOWER(endpoint) LIKE $6 ESCAPE '\\'
                    OR LOWER(COALESCE(request_body, '')) LIKE $4 ESCAPE '\\'
                    OR LOWER(COALESCE(request_body, '')) LIKE $5 ESCAPE '\\'
                    OR LOWER(COALESCE(response_body, '')) LIKE $4 ESCAPE '\\'
                    OR LOWER(COALESCE(response_body, '')) LIKE $5 ESCAPE '\\')");

        pub fn delete_signups(person: &Person) with [person.workspace_id, &person.email_key] = Sql::both(
            "DELETE FROM form_signups WHERE workspace_id = $1 AND email_key = $2");
        pub fn delete_places(person: &Person) with [person.id] = Sql::both(
            "DELETE FROM bulk_places WHERE contact_id = $1");
        /// That the address gets no mail is kept, and nothing else of it: it is how an objection is honoured.
        pub fn thin_suppression(person: &Person) with [person.workspace_id, person.mail_key(), ERASED] = Sql::both(
            "UPDATE suppressions SET email = email_key, email_id = NULL,
                 reason = CASE WHEN reason = $3 THEN reason ELSE NULL END
             WHERE workspace_id = $1 AND email_key = $2");
        pub fn suppression(person: &Person) with [person.workspace_id, person.mail_key()] = Sql::both(
            "SELECT origin, reason, created_at FROM suppressions WHERE workspace_id = $1 AND email_key = $2");
    }
    NEXT = Sql::both("SELECT due_at FROM erasures WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1");
    CLAIM = claim_rows!(
        "erasures" ("workspace_id", "id") where "due_at IS NOT NULL" set ""
        returning "erasures.workspace_id, erasures.id, email_key, stage, position, number, attempt");
}

/// An erasure that somebody works on.
pub struct Claimed {
    pub workspace_id: WorkspaceId,
    pub id: ContactId,
    pub email_key: String,
    pub stage: i64,
    pub position: Uuid,
    pub number: i64,
    pub attempt: i64,
}

from_row!(Claimed { workspace_id, id, email_key, stage, position, number, attempt });

impl Claimable for Claimed {
    const QUEUE: &'static str = "erasures";
    /// Far longer than some rows take.
    const LEASE: i64 = 60 * SECOND;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        FromRow::of_row(row)
    }
}

impl InOrder for Claimed {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

pub struct Event {
    pub id: OccurrenceId,
    pub name: String,
    pub payload: serde_json::Value,
    pub created_at: Time,
}

pub struct Run {
    pub automation_id: AutomationId,
    pub id: RunId,
    pub occurrence_id: OccurrenceId,
    pub status: String,
    pub created_at: Time,
    pub completed_at: Option<Time>,
    /// As JSON; empty before its first step.
    pub state: String,
}

pub struct Mail {
    pub sender: String,
    pub subject: String,
    pub envelope: serde_json::Value,
    pub origin: String,
    pub html: Option<String>,
    pub text: Option<String>,
    pub created_at: Time,
    /// Whether it went to others, too.
    pub is_shared: bool,
}

pub struct Happened {
    pub kind: String,
    pub detail: serde_json::Value,
    pub created_at: Time,
}

pub struct Received {
    pub id: Uuid,
    pub subject: String,
    pub text: Option<String>,
    pub created_at: Time,
}

from_row!(Event { id, name, payload: json, created_at });
from_row!(Run { automation_id, id, occurrence_id, status, created_at, completed_at, state });
from_row!(Mail { sender, subject, envelope: json, origin, html, text, created_at, is_shared });
from_row!(Happened { kind, detail: json, created_at });
from_row!(Received { id, subject, text, created_at });

//! A workspace in which much has happened. A few people are made by the server itself, each with an event, a run and
//! mail that ended in its own way; then all that is kept of them is copied, row by row, past the server: so the copies
//! look as the product makes them, whatever that is by now.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use posthorn::clock::{Clock, DAY, rfc3339};
use posthorn::id::{EmailId, Id, own_id};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;
use uuid::Uuid;

use crate::login::{post_json, send_json};
use crate::metrics;
use crate::report::Report;
use crate::server::Server;
use crate::store::Store;
use crate::webhooks::Endpoint;
use crate::workload::scattered;

/// People with an event, a run and a mail each, and over how many days they came.
pub const PEOPLE: u64 = 1_000_000;
const DAYS: i64 = 10;

/// What else there is much of: requests, changes, received mail.
const RECORDS: u64 = 100_000;

/// Rows that one transaction of the filling holds, counted by people.
const PORTION: u64 = 50_000;

/// How long the server may take with the few.
const PATIENCE: Duration = Duration::from_secs(60);

const SENDER: &str = "Acme <hello@acme.example>";

/// How it went with somebody.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Completed,
    Waiting,
    Failed,
    Cancelled,
    Bounced,
    Complained,
}

impl Fate {
    const ALL: [Fate; 6] =
        [Fate::Completed, Fate::Waiting, Fate::Failed, Fate::Cancelled, Fate::Bounced, Fate::Complained];

    /// Of the n-th. Complaints are the oldest of all: whoever looks for them from the newest on looks longest.
    fn of(n: u64) -> Fate {
        match (n, n % 100) {
            (..100, _) => Fate::Complained,
            (_, 0..2) => Fate::Failed,
            (_, 2..4) => Fate::Cancelled,
            (_, 4..6) => Fate::Bounced,
            (_, 6..36) => Fate::Waiting,
            _ => Fate::Completed,
        }
    }

    /// Mail to some addresses comes back whenever it is captured.
    fn address(self, mark: &str) -> String {
        match self {
            Fate::Bounced => format!("bounced+{mark}@posthorn.test"),
            Fate::Complained => format!("complained+{mark}@posthorn.test"),
            _ => format!("{mark}@example.com"),
        }
    }

    /// Of the one that the server makes.
    fn original(self) -> String {
        self.address(&format!("original-{}", self as u8))
    }
}

/// What is kept of a person, by table.
const OF_A_PERSON: [(&str, &str); 13] = [
    ("contacts", "id = {contact}"),
    ("segment_members", "contact_id = {contact}"),
    ("segment_events", "contact_id = {contact}"),
    ("topic_subscriptions", "contact_id = {contact}"),
    ("occurrences", "contact_id = {contact}"),
    ("runs", "contact_id = {contact}"),
    ("emails", "id IN (SELECT email_id FROM email_recipients WHERE address = {address}) AND origin <> 'broadcast'"),
    ("email_recipients", "address = {address}"),
    ("email_events", "instr(detail, {address})"),
    ("bulk_places", "contact_id = {contact}"),
    ("webhook_events", "instr(payload, {address})"),
    ("webhook_deliveries", "event_id IN (SELECT id FROM webhook_events WHERE instr(payload, {address}))"),
    ("webhook_attempts", "event_id IN (SELECT id FROM webhook_events WHERE instr(payload, {address}))"),
];

/// Whether the server still has something to do with those few.
const IS_BUSY: &str = "SELECT EXISTS (SELECT 1 FROM email_recipients WHERE due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM runs WHERE status = 'running' AND waiting_for IS NULL)
    OR EXISTS (SELECT 1 FROM broadcasts WHERE due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM segments WHERE due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM segment_due)
    OR EXISTS (SELECT 1 FROM outbox)
    OR EXISTS (SELECT 1 FROM tracking_hits)
    OR EXISTS (SELECT 1 FROM erasures WHERE due_at IS NOT NULL)";

/// Fills a new store, whose owner can log in.
pub fn fill(report: &Report) -> anyhow::Result<Store> {
    let store = Store::sqlite()?;
    let key = store.key()?;
    store.refresh_tokens(1)?;
    store.user("colleague@example.com")?;
    metrics::count_and_add_up(&store)?;
    let connection = Connection::open(store.file().context("only an SQLite store is prepared so")?)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let endpoint = Endpoint::start()?;
    let server = Server::with_settings(&store, &["--private-webhooks".into()])?;
    make_few(&Calling { server: &server, key: &key, connection: &connection }, &endpoint)?;
    drop(server);
    add_alone(&connection)?;
    copy_all(&connection, report)?;
    store.settle()?;
    Ok(store)
}

/// Whoever makes the few.
struct Calling<'a> {
    server: &'a Server,
    key: &'a str,
    connection: &'a Connection,
}

impl Calling<'_> {
    fn post(&self, path: &str, body: &serde_json::Value) -> anyhow::Result<serde_json::Value> {
        post_json(self.server.address, path, self.key, body)
    }

    /// Makes something, and tells its id.
    fn make(&self, path: &str, body: serde_json::Value) -> anyhow::Result<String> {
        Ok(self.post(path, &body)?["id"].as_str().with_context(|| format!("an id from {path}"))?.to_owned())
    }

    fn wait(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.connection.query_row(IS_BUSY, [], |row| row.get(0))? {
            ensure!(began.elapsed() < PATIENCE, "the server is not done with a few people after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn make_few(calling: &Calling<'_>, endpoint: &Endpoint) -> anyhow::Result<()> {
    let address = format!("http://{}/", endpoint.address);
    calling.make("/webhooks", json!({"endpoint": address, "events": ["email.bounced", "email.complained"]}))?;
    calling.make("/contact-properties", json!({"key": "plan", "type": "string"}))?;
    let topic = calling.make("/topics", json!({"name": "News", "default_subscription": "opt_in"}))?;
    let segment = calling.make("/segments", json!({"name": "Customers"}))?;
    let rule = json!({"type": "rule", "field": "contact.properties.plan", "operator": "eq", "value": "pro"});
    calling.make("/segments", json!({"name": "Pro", "filter": rule}))?;
    calling.make("/forms", json!({"name": "Footer", "from": SENDER, "topics": [topic], "enabled": true}))?;
    calling.make("/suppressions", json!({"email": "gone@example.com"}))?;
    calling.make("/domains", json!({"name": "acme.example"}))?;
    // One of those by which numbers are counted.
    calling.make("/domains", json!({"name": "d1.example"}))?;
    make_automation(calling)?;
    let people: Vec<String> = Fate::ALL.iter().map(|fate| fate.original()).collect();
    for (email, fate) in people.iter().zip(Fate::ALL) {
        let plan = if fate == Fate::Failed { "free" } else { "pro" };
        let contact = json!({"email": email, "first_name": "Ada", "last_name": "Lovelace",
            "properties": {"plan": plan}, "segments": [{"id": segment}], "topics": [{"id": topic, "subscription": "opt_in"}]});
        calling.make("/contacts", contact)?;
        let payload = json!({"plan": plan, "amount": 49.9, "items": ["Espresso machine", "Grinder"]});
        calling.make("/events/send", json!({"event": "order.placed", "email": email, "payload": payload}))?;
    }
    calling.wait()?;
    for fate in [Fate::Completed, Fate::Failed] {
        calling.make("/events/send", json!({"event": "order.paid", "email": fate.original(), "payload": {}}))?;
    }
    let run = "SELECT r.automation_id, r.id FROM runs r JOIN contacts c ON c.id = r.contact_id WHERE c.email = ?1";
    let ids = |row: &rusqlite::Row<'_>| Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, [u8; 16]>(1)?));
    let (automation, run) = calling.connection.query_row(run, [Fate::Cancelled.original()], ids)?;
    let [automation, run] = [automation, run].map(Uuid::from_bytes);
    calling.post(&format!("/automations/{automation}/runs/{run}/cancel"), &json!({}))?;
    calling.wait()?;
    let news = json!({"name": "News", "segment_id": segment, "topic_id": topic, "from": SENDER, "subject": "News",
        "html": "<p>It has begun. <a href=\"{{{RESEND_UNSUBSCRIBE_URL}}}\">No more of this</a></p>"});
    let broadcast = calling.make("/broadcasts", news.clone())?;
    calling.make(&format!("/broadcasts/{broadcast}/send"), json!({}))?;
    calling.wait()?;
    calling.make("/broadcasts", news)?;
    let erased = calling.make("/contacts", json!({"email": "erased@example.com"}))?;
    calling.post(&format!("/contacts/{erased}/erase"), &json!({}))?;
    calling.wait()?;
    let later = rfc3339(Clock::system().now() + DAY);
    let attached = json!([{"filename": "terms.txt", "content": "aGVsbG8="}]);
    let scheduled = json!({"from": SENDER, "to": "later@example.com", "subject": "Soon", "text": "Soon",
        "html": "<p>Soon</p>", "scheduled_at": later, "attachments": attached});
    calling.make("/emails", scheduled)?;
    Ok(())
}

/// An automation that most stay in: a mail, and then a payment is waited for. It is published twice, because a page
/// tells its versions apart.
fn make_automation(calling: &Calling<'_>) -> anyhow::Result<()> {
    let template = json!({"name": "Receipt", "from": SENDER, "subject": "Your order",
        "html": "<h1>Thank you, {{{NAME}}}</h1><p>We will write again when it leaves us.</p>",
        "variables": [{"key": "NAME", "type": "string", "fallback_value": "dear customer"}]});
    let template = calling.make("/templates", template)?;
    calling.make(&format!("/templates/{template}/publish"), json!({}))?;
    calling.make("/events", json!({"name": "order.placed", "schema": {"plan": "string", "amount": "number"}}))?;
    calling.make("/events", json!({"name": "order.paid"}))?;
    let rule = json!({"type": "rule", "field": "event.plan", "operator": "eq", "value": "pro"});
    let steps = json!([
        {"key": "start", "type": "trigger", "config": {"event_name": "order.placed"}},
        {"key": "receipt", "type": "send_email", "config": {"template": {"id": template}}},
        {"key": "paid", "type": "wait_for_event", "config": {"event_name": "order.paid", "timeout": "30 days"}},
        {"key": "pro", "type": "condition", "config": rule},
        {"key": "mark", "type": "contact_update", "config": {"properties": {"plan": {"var": "event.plan"}}}},
        // There is no such segment: whoever comes here has failed.
        {"key": "join", "type": "add_to_segment", "config": {"segment_id": Uuid::nil().to_string()}},
    ]);
    let connections = json!([
        {"from": "start", "to": "receipt"},
        {"from": "receipt", "to": "paid"},
        {"from": "paid", "to": "pro", "type": "event_received"},
        {"from": "pro", "to": "mark", "type": "condition_met"},
        {"from": "pro", "to": "join", "type": "condition_not_met"},
    ]);
    let first = json!({"name": "Receipts", "status": "enabled", "steps": steps.as_array().map(|all| &all[..3]),
        "connections": connections.as_array().map(|all| &all[..2])});
    let automation = calling.make("/automations", first)?;
    let whole = json!({"steps": steps, "connections": connections});
    send_json(calling.server.address, ("PATCH", &format!("/automations/{automation}")), calling.key, &whole)?;
    Ok(())
}

/// What comes in by other ways than requests with a key: a mail that was received, a file of contacts, and a client
/// of the workspace's own.
fn add_alone(connection: &Connection) -> anyhow::Result<()> {
    let id = || Clock::system().ordered_id::<Uuid>().into_bytes();
    let (received, now) = (id(), Clock::system().now());
    connection.execute(
        "INSERT INTO received_emails (id, workspace_id, domain_id, created_at, digest, sender, subject, message_id,
             envelope, html, text, size)
         SELECT ?1, workspace_id, id, ?2, ?1, 'Ada <ada@example.com>', 'A question', '<a@example.com>',
             '{\"to\":[\"hello@acme.example\"],\"received_for\":[\"hello@acme.example\"]}', '<p>Why?</p>', 'Why?', 12
         FROM domains WHERE name = 'acme.example'",
        (received, now),
    )?;
    connection.execute(
        "INSERT INTO contact_imports (workspace_id, id, status, plan, size, position, line, total, created, updated,
             skipped, failed, errors, created_at, completed_at, attempt)
         SELECT id, ?1, 'completed', '{}', 100, 100, 10, 9, 9, 0, 0, 0, '[]', ?2, ?2, 1 FROM workspaces",
        (id(), now),
    )?;
    connection.execute(
        "INSERT INTO oauth_clients (id, name, redirect_uris, scopes, grants, auth_method, origin, created_at, workspace_id)
         SELECT ?1, 'Shop', redirect_uris, scopes, grants, auth_method, 'operator', ?2, (SELECT id FROM workspaces)
         FROM oauth_clients WHERE origin = 'built_in' LIMIT 1",
        (Uuid::from_bytes(id()).to_string(), now),
    )?;
    Ok(())
}

/// A row, as a pattern of others.
struct Pattern {
    insert: String,
    cells: Vec<Cell>,
}

enum Cell {
    /// In every copy.
    Same(Value),
    /// The id of something that is copied with it, by its place among them.
    Id(usize),
    Text(Vec<Piece>),
    /// When something was, so long after the first.
    Time(i64),
    /// The number of a recipient among those that share a mail.
    Number,
}

enum Piece {
    Same(String),
    Id(usize),
    Address,
}

/// Rows that are copied together.
struct Patterns {
    rows: Vec<Pattern>,
    ids: usize,
    broadcast: Broadcast,
}

/// The mail that many share, and how many did before there were copies: each of these is numbered behind them, and has
/// an id that is made of both.
#[derive(Clone, Copy)]
struct Broadcast {
    id: EmailId,
    recipients: i64,
}

impl Broadcast {
    fn sent(connection: &Connection) -> anyhow::Result<Broadcast> {
        let sent = "SELECT id, recipients FROM broadcasts WHERE state = 'sent'";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, [u8; 16]>(0)?, row.get(1)?));
        let (id, recipients) = connection.query_row(sent, [], read)?;
        Ok(Broadcast { id: Uuid::from_bytes(id).into(), recipients })
    }

    fn number(self, n: u64) -> i64 {
        self.recipients + 1 + n as i64
    }
}

/// A row as it was read.
struct Read {
    table: &'static str,
    columns: Vec<String>,
    values: Vec<Value>,
}

impl Read {
    fn all(connection: &Connection, table: &'static str, condition: &str) -> anyhow::Result<Vec<Read>> {
        let mut select = connection.prepare(&format!("SELECT * FROM {table} WHERE {condition}"))?;
        let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
        let count = columns.len();
        let rows = select.query_map([], |row| (0..count).map(|at| row.get(at)).collect())?;
        rows.map(|values| Ok(Read { table, columns: columns.clone(), values: values? })).collect()
    }

    fn value(&self, column: &str) -> Option<&Value> {
        self.columns.iter().position(|name| name == column).map(|at| &self.values[at])
    }

    fn id(&self) -> Option<Uuid> {
        match self.value("id")? {
            Value::Blob(bytes) => Uuid::from_slice(bytes).ok(),
            _ => None,
        }
    }
}

impl Patterns {
    /// Of a person.
    fn of_person(connection: &Connection, address: &str) -> anyhow::Result<Patterns> {
        let id: [u8; 16] =
            connection.query_row("SELECT id FROM contacts WHERE email = ?1", [address], |row| row.get(0))?;
        let contact = format!("x'{}'", Uuid::from_bytes(id).simple());
        let mut rows = Vec::new();
        for (table, condition) in OF_A_PERSON {
            let condition = condition.replace("{contact}", &contact).replace("{address}", &format!("'{address}'"));
            rows.extend(Read::all(connection, table, &condition)?);
        }
        Patterns::new(connection, &rows, address)
    }

    fn new(connection: &Connection, rows: &[Read], address: &str) -> anyhow::Result<Patterns> {
        let mut ids: Vec<Uuid> = rows.iter().filter_map(Read::id).collect();
        // The copies' ids have the order of the originals'.
        ids.sort();
        let began = rows.iter().filter_map(|row| match row.value("created_at") {
            Some(Value::Integer(at)) => Some(*at),
            _ => None,
        });
        let began = began.min().context("a row that tells when it was made")?;
        let broadcast = Broadcast::sent(connection)?;
        let shared = Value::Blob(broadcast.id.uuid().as_bytes().to_vec());
        let number = rows.iter().find_map(|row| match (row.value("email_id"), row.value("number")) {
            (Some(id), Some(Value::Integer(number))) if *id == shared => Some(*number),
            _ => None,
        });
        // The last of all, where there is one.
        let copied = ids.len();
        ids.extend(number.map(|number| own_id(broadcast.id, number).uuid()));
        let pattern = |row: &Read| {
            let cell = |(column, value): (&String, &Value)| match value {
                Value::Integer(own) if column == "number" && Some(*own) == number => Cell::Number,
                Value::Integer(at) if column.ends_with("_at") => Cell::Time(at - began),
                Value::Blob(bytes) => match ids.iter().position(|id| id.as_bytes() == bytes.as_slice()) {
                    Some(at) => Cell::Id(at),
                    None => Cell::Same(value.clone()),
                },
                Value::Text(text) => Cell::Text(pieces(text, &ids, address)),
                _ => Cell::Same(value.clone()),
            };
            let room = vec!["?"; row.values.len()].join(", ");
            Pattern {
                insert: format!("INSERT INTO {} VALUES ({room})", row.table),
                cells: row.columns.iter().zip(&row.values).map(cell).collect(),
            }
        };
        Ok(Patterns { rows: rows.iter().map(pattern).collect(), ids: copied, broadcast })
    }

    fn copy(&self, connection: &Connection, clock: &Clock, n: u64, address: &str) -> anyhow::Result<()> {
        let number = self.broadcast.number(n);
        let ids = (0..self.ids).map(|_| clock.ordered_id::<Uuid>());
        let ids: Vec<Uuid> = ids.chain([own_id(self.broadcast.id, number).uuid()]).collect();
        let now = clock.now();
        let copied = |cell: &Cell| match cell {
            Cell::Same(value) => value.clone(),
            Cell::Id(at) => Value::Blob(ids[*at].as_bytes().to_vec()),
            Cell::Time(after) => Value::Integer(now + after),
            Cell::Number => Value::Integer(number),
            Cell::Text(pieces) => Value::Text(
                pieces
                    .iter()
                    .map(|piece| match piece {
                        Piece::Same(text) => text.clone(),
                        Piece::Id(at) => ids[*at].to_string(),
                        Piece::Address => address.to_owned(),
                    })
                    .collect(),
            ),
        };
        for row in &self.rows {
            let values = row.cells.iter().map(copied);
            connection.prepare_cached(&row.insert)?.execute(rusqlite::params_from_iter(values))?;
        }
        Ok(())
    }
}

/// A text, cut where it names what every copy has of its own.
fn pieces(text: &str, ids: &[Uuid], address: &str) -> Vec<Piece> {
    let found = |name: &str| text.find(name).map(|at| (at, name.len()));
    let named = ids.iter().enumerate().filter_map(|(at, id)| Some((found(&id.to_string())?, Piece::Id(at))));
    let addressed = found(address).filter(|_| !address.is_empty()).map(|place| (place, Piece::Address));
    match named.chain(addressed).min_by_key(|((at, _), _)| *at) {
        None => vec![Piece::Same(text.to_owned())],
        Some(((at, length), piece)) => {
            let mut all = vec![Piece::Same(text[..at].to_owned()), piece];
            all.extend(pieces(&text[at + length..], ids, address));
            all
        }
    }
}

fn copy_all(connection: &Connection, report: &Report) -> anyhow::Result<()> {
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -2_000_000)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.set_prepared_statement_cache_capacity(64);
    let people = Fate::ALL.map(|fate| Patterns::of_person(connection, &fate.original()));
    let people: Vec<Patterns> = people.into_iter().collect::<anyhow::Result<_>>()?;
    let person = |clock: &Clock, n: u64| {
        let fate = Fate::of(n);
        people[fate as usize].copy(connection, clock, n, &fate.address(&format!("{:012x}", scattered(n))))
    };
    copy(connection, PEOPLE, person)?;
    report.tell(&format!("{PEOPLE} people are there"));
    for table in ["request_log", "audit_log", "received_emails"] {
        let one = Read::all(connection, table, "1 ORDER BY id DESC LIMIT 1")?;
        let one = Patterns::new(connection, &one, "")?;
        copy(connection, RECORDS, |clock, n| one.copy(connection, clock, n, ""))?;
    }
    connection.execute_batch(
        "UPDATE broadcasts SET recipients = (SELECT COUNT(*) FROM email_recipients r WHERE r.email_id = broadcasts.id);
         UPDATE email_recipients SET state = 28, reason = 'The connection was lost.' WHERE email_id IN
             (SELECT id FROM emails WHERE state = 40 ORDER BY id LIMIT 100);
         UPDATE emails SET state = 28 WHERE id IN (SELECT email_id FROM email_recipients WHERE state = 28);
         INSERT INTO suppressions (workspace_id, email_key, id, email, origin, reason, email_id, created_at)
             SELECT workspace_id, address, email_id, address, CASE state WHEN 80 THEN 'complaint' ELSE 'bounce' END,
                 '550 There is nobody of this name.', email_id, queued_at
             FROM email_recipients WHERE state IN (70, 80) AND contact_id IS NULL;",
    )?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Copies so many times, evenly over the last days.
fn copy(connection: &Connection, count: u64, one: impl Fn(&Clock, u64) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let step = DAYS * DAY / count as i64;
    let clock = Clock::fixed(Clock::system().now() - DAYS * DAY);
    for start in (0..count).step_by(PORTION as usize) {
        connection.execute_batch("BEGIN")?;
        for n in start..count.min(start + PORTION) {
            one(&clock, n)?;
            clock.advance(step);
        }
        connection.execute_batch("COMMIT")?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(())
}

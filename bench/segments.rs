//! Segments that fill themselves, in a workspace with a million contacts: what they add to a change of a contact, and
//! how long it takes to count one and to show its first page.

use anyhow::{Context, ensure};
use posthorn::clock::Clock;
use posthorn::id::Id;
use rusqlite::Connection;
use serde_json::json;
use uuid::Uuid;

use crate::Plan;
use crate::login::post_json;
use crate::report::Report;
use crate::rows::{Side, compare, measure};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

const CONTACTS: u64 = 1_000_000;

/// Rows that one transaction of the filling holds.
const PORTION: u64 = 50_000;

/// A store with a million contacts, all of them in the first of so many segments that fill themselves.
struct Scene {
    store: Store,
    key: String,
    segments: Vec<String>,
}

impl Scene {
    fn new(segments: usize) -> anyhow::Result<Scene> {
        let store = Store::sqlite()?;
        let key = store.key()?;
        let server = Server::real(&store)?;
        let mut made = Vec::new();
        for n in 0..segments {
            let rule = json!({"type": "rule", "field": "contact.email", "operator": "starts_with", "value": if n == 0 { "" } else { "!" }});
            let answer = post_json(server.address, "/segments", &key, &json!({"name": "load", "filter": rule}))?;
            made.push(answer["id"].as_str().context("an id")?.to_owned());
        }
        drop(server);
        let scene = Scene { store, key, segments: made };
        scene.fill()?;
        Ok(scene)
    }

    /// Stores the contacts past the server, and who is in which segment with them.
    fn fill(&self) -> anyhow::Result<()> {
        let connection = Connection::open(self.store.file().context("only an SQLite store is prepared so")?)?;
        let workspace: Vec<u8> = connection.query_row("SELECT id FROM workspaces", [], |row| row.get(0))?;
        let segment = self.segments.first().map(|id| id.parse::<Uuid>()).transpose()?;
        let clock = Clock::system();
        for portion in 0..CONTACTS / PORTION {
            connection.execute_batch("BEGIN")?;
            for n in portion * PORTION..(portion + 1) * PORTION {
                let (id, email): (Uuid, String) = (clock.ordered_id(), email(n));
                connection.prepare_cached(
                    "INSERT INTO contacts (workspace_id, id, email, email_key, unsubscribed, properties, sequence, created_at)
                     VALUES (?1, ?2, ?3, ?3, FALSE, '{\"plan\":\"pro\"}', 1, ?4)",
                )?
                .execute((&workspace, id.uuid().into_bytes(), &email, clock.now()))?;
                if let Some(segment) = segment {
                    connection.prepare_cached("INSERT INTO segment_members VALUES (?1, ?2, ?3, ?4)")?.execute((
                        &workspace,
                        segment.into_bytes(),
                        id.uuid().into_bytes(),
                        clock.now(),
                    ))?;
                }
            }
            connection.execute_batch("COMMIT")?;
        }
        connection.execute_batch("UPDATE segments SET filling = NULL, due_at = NULL")?;
        self.store.settle()
    }
}

/// The address of a contact that is there from the beginning.
fn email(n: u64) -> String {
    format!("stored-{n:07}@example.com")
}

/// Contacts that change, and new ones that come into a segment: beside one, and new ones also beside five.
pub fn changes(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let (without, with, many) = (Scene::new(0)?, Scene::new(1)?, Scene::new(5)?);
    let change = |scene: &Scene| {
        // In no order: the next one is never on the same page.
        let paths = (0..CONTACTS / 10).map(|n| format!("/contacts/{}", email(n * 999_983 % CONTACTS))).collect();
        let body = json!({"first_name": "~~~~~~~~~~~~"}).to_string();
        measure(plan, &Server::real(&scene.store)?, 64, &mut Workload::patch(paths, &scene.key, &body))
    };
    let create = |scene: &Scene| {
        let body = json!({"email": "~~~~~~~~~~~~@example.com", "properties": {"plan": "pro"}}).to_string();
        let mut workload = Workload::post("/contacts", &scene.key, &body, 201);
        measure(plan, &Server::real(&scene.store)?, 64, &mut workload)
    };
    let mut against_none = |what: &str, side: &dyn Fn(&Scene) -> anyhow::Result<Side>, with: &Scene| {
        let what = format!("{what}, SQLite");
        compare(plan, report, (&what, "no segments", 1.0 / 1.2), || side(&without), || side(with))
    };
    against_none("PATCH /contacts/{email} of 1,000,000, a segment that fills itself", &change, &with)?;
    against_none("POST /contacts beside 1,000,000, a segment that fills itself", &create, &with)?;
    against_none("POST /contacts beside 1,000,000, 5 segments that fill themselves", &create, &many)
}

/// The slowest of a hundred times that a segment of a million is counted and its first page read, as 1/p99 against 200 ms.
pub fn count(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scene = Scene::new(1)?;
    let id = scene.segments.first().context("a segment")?;
    compare(
        plan,
        report,
        ("GET /segments/{id} and its first 100 of 1,000,000 contacts, 1/p99, SQLite", "200 ms", 1.0),
        || Ok(Side { per_second: 5.0, server: None }),
        || {
            let server = Server::real(&scene.store)?;
            let mut took = 0.0;
            let mut seen = None;
            for path in [format!("/segments/{id}"), format!("/segments/{id}/contacts?limit=100")] {
                let side = measure(plan, &server, 1, &mut Workload::get(&path, &scene.key))?;
                took += side.server.context("a server")?.outcome.p99.as_secs_f64();
                seen = side.server;
            }
            ensure!(took > 0.0, "nothing was measured");
            Ok(Side { per_second: 1.0 / took, server: seen })
        },
    )
}

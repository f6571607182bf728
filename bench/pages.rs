//! Every page of the dashboard, in a workspace with a million contacts, events, runs and mails. Which pages there are,
//! the router tells: one that is neither looked at nor left out for a reason fails the row.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use metrics_exporter_prometheus::PrometheusBuilder;
use posthorn::app::App;
use posthorn::clock::Clock;
use posthorn::config::Config;
use posthorn::product::Product;
use posthorn::seal::Seal;
use posthorn::serve;
use rusqlite::Connection;
use uuid::Uuid;

use crate::Plan;
use crate::client;
use crate::login;
use crate::million;
use crate::report::{MAIL_MEMORY_BAR, Measured, PageTime, Report};
use crate::rows::{Seen, Side};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

/// How often each page is asked for in a round, after some times that do not count.
const TIMES: usize = 100;
const WARM_UP: usize = 3;

/// What is looked at, below the workspace. In braces: the id of something ([`THINGS`]).
const VISITED: &[&str] = &[
    "/",
    "/account",
    "/account/second-factor",
    "/account/sessions/end-others",
    "/apps",
    "/apps/{grant}/revoke",
    "/audit",
    "/audit?after={change}",
    "/audit?before={change}",
    "/automations",
    "/automations/new",
    "/automations/{automation}",
    "/automations/{automation}?after={run}",
    "/automations/{automation}?before={run}",
    "/automations/{automation}/delete",
    "/automations/{automation}/edit",
    "/automations/{automation}/edit?step=receipt",
    "/automations/{automation}/edit/discard",
    "/automations/{automation}/edit/publish",
    "/automations/{automation}/runs/{run}",
    "/automations/{automation}/runs/{failed_run}",
    "/automations/{automation}/runs/{waiting_run}",
    "/automations/{automation}/runs/{waiting_run}/cancel",
    "/automations/{automation}/versions/1",
    "/automations/{automation}/versions/1..2",
    "/branding",
    "/broadcasts",
    "/broadcasts/new",
    "/broadcasts/{broadcast}",
    "/broadcasts/{broadcast}/html",
    "/broadcasts/{broadcast}/recipients",
    "/broadcasts/{broadcast}/recipients?after={own_mail}",
    "/broadcasts/{broadcast}/recipients?search=nobody",
    "/broadcasts/{broadcast}/recipients?search={address}",
    "/broadcasts/{broadcast}/recipients?type=bounced",
    "/broadcasts/{broadcast}/recipients?type=bounced&bounce_type=permanent",
    "/broadcasts/{broadcast}/recipients?type=bounced&bounce_type=permanent&after={own_mail}",
    "/broadcasts/{broadcast}/recipients?type=bounced&bounce_type=permanent&search=nobody",
    "/broadcasts/{broadcast}/recipients?type=bounced&bounce_type=transient",
    "/broadcasts/{broadcast}/recipients?type=delivered",
    "/broadcasts/{broadcast}/recipients?type=unsubscribed",
    "/broadcasts/{broadcast}/recipients?type=complained",
    "/broadcasts/{draft}",
    "/broadcasts/{draft}/delete",
    "/broadcasts/{draft}/edit",
    "/broadcasts/{draft}/review",
    "/clients",
    "/clients/{client}",
    "/clients/{client}/delete",
    "/contacts",
    "/contacts?after={contact}",
    "/contacts?mail=unsubscribed",
    "/contacts?q=nobody",
    "/contacts?q=nobody&after={contact}",
    "/contacts?q={address}",
    "/contacts?q=example",
    "/contacts?segment={segment}",
    "/contacts?segment={segment}&q=nobody",
    "/contacts?segment={rule_segment}&mail=unsubscribed",
    "/contacts?topic={topic}",
    "/contacts?topic={topic}&q=nobody",
    "/contacts/new",
    "/contacts/{contact}",
    "/contacts/{contact}?events=0.{occurrence}&mails=0.{email}",
    "/contacts/{contact}?events=0.{contact}&mails=0.{contact}&broadcasts=0.{broadcast}",
    "/contacts/{contact}/delete",
    "/contacts/{contact}/erase",
    "/deliverability",
    "/deliverability?apart=broadcast",
    "/deliverability?apart=domain&granularity=hourly",
    "/deliverability?apart=email&granularity=weekly",
    "/deliverability?broadcast_id={broadcast}",
    "/deliverability?days=7",
    "/deliverability?domain_id={domain}",
    "/deliverability?domain_id={domain}&granularity=hourly&timezone=Asia%2FKathmandu",
    "/deliverability?email_id={email},{own_mail}",
    "/domains",
    "/domains/{domain}",
    "/domains/{domain}/delete",
    "/domains/{domain}/settings",
    "/emails",
    "/emails?after={email}",
    "/emails?before={email}",
    "/emails?search=nobody",
    "/emails?search=order",
    "/emails?search={address}",
    "/emails?state=bounced",
    "/emails?state=bounced&after={email}",
    "/emails?state=bounced&search=nobody",
    "/emails?state=bounced&search=nobody&after={email}",
    "/emails?state=complained",
    "/emails?state=complained&search=nobody",
    "/emails?state=scheduled",
    "/emails?state=scheduled&search=soon",
    "/emails?state=uncertain",
    "/emails?state=uncertain&search=nobody",
    "/emails?state=uncertain&search=order",
    "/emails/new",
    "/emails/{email}",
    "/emails/{email}/html",
    "/emails/{email}/recipients/0/drop",
    "/emails/{broadcast}",
    "/emails/{own_mail}",
    "/emails/{scheduled}",
    "/emails/{scheduled}/attachments/{attachment}",
    "/emails/{scheduled}/cancel",
    "/erasures/{erasure}",
    "/events",
    "/events/new",
    "/events/send",
    "/events/{event}",
    "/events/{event}?after={occurrence}",
    "/events/{event}?before={occurrence}",
    "/events/{event}/delete",
    "/events/{event}/test",
    "/forms",
    "/forms/new",
    "/forms/{form}",
    "/forms/{form}/delete",
    "/imports",
    "/imports/{import}",
    "/keys",
    "/keys/{key}/delete",
    "/keys/{key}/rename",
    "/logs",
    "/logs?after={request}",
    "/logs/{request}",
    "/occurrences/{occurrence}",
    "/password",
    "/properties",
    "/properties/{property}/delete",
    "/received",
    "/received?after={received}",
    "/received/{received}",
    "/received/{received}/forward",
    "/received/{received}/html",
    "/runs",
    "/runs?after={run}",
    "/runs?before={run}",
    "/runs?email={address}",
    "/runs?status=cancelled",
    "/runs?status=completed",
    "/runs?status=completed&after={run}",
    "/runs?status=completed&email={address}",
    "/runs?status=failed",
    "/runs?status=failed&after={run}",
    "/runs?status=failed&email={address}",
    "/runs?status=running",
    "/segments",
    "/segments/new",
    "/segments/{segment}",
    "/segments/{segment}?after={contact}",
    "/segments/{segment}/delete",
    "/segments/{rule_segment}",
    "/segments/{rule_segment}/rules",
    "/segments/{rule_segment}/rules/clear",
    "/settings",
    "/suppressions",
    "/suppressions?after={suppression}",
    "/suppressions?origin=bounce",
    "/suppressions?origin=complaint",
    "/suppressions?origin=manual",
    "/suppressions?search=nobody",
    "/suppressions/{suppression}/delete",
    "/team",
    "/team/leave",
    "/team/{colleague}/remove",
    "/team/{colleague}/transfer",
    "/templates",
    "/templates/new",
    "/templates/{template}",
    "/templates/{template}/delete",
    "/templates/{template}/edit",
    "/templates/{template}/html",
    "/templates/{template}/publish",
    "/templates/{template}/test",
    "/topics",
    "/topics/{topic}",
    "/topics/{topic}/delete",
    "/usage",
    "/webhooks",
    "/webhooks/new",
    "/webhooks/{webhook}",
    "/webhooks/{webhook}?after={webhook_event}",
    "/webhooks/{webhook}/delete",
    "/webhooks/{webhook}/edit",
    "/webhooks/{webhook}/events/{webhook_event}",
    "/webhooks/{webhook}/rotate",
    "/workspaces",
];

/// What is not, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("/assets/{name}", "a file of the program, which reads no store"),
    (
        "/automations/{id}/runs/{run_id}/messages/{message_id}/drop",
        "of a message that waits for its template; reads what the page of its run reads",
    ),
    ("/broadcasts/{id}/{act}", "before one that is on its way is canceled; reads one row by its key"),
    ("/contacts.csv", "a file with all contacts, which takes as long as it is"),
    ("/contacts/{contact}/export", "a file with all that is kept of a person, which takes as long as it is"),
    ("/emails/{id}/source", "a file, written as the mail travels; reads one mail by its key"),
    ("/emails/{id}/text", "a file; reads the text of one mail by its key"),
    ("/forgot", "for whoever is not logged in, and reads nothing of a workspace"),
    ("/imports/{id}/map", "of a file that waits for it; reads its first piece by its key"),
    ("/invitation/{token}", "by a link that only its mail has; reads one row by its key"),
    ("/login", "for whoever is not logged in, and reads nothing of a workspace"),
    ("/messages", "leads to /emails"),
    ("/oauth/authorize/{id}", "by an app that asks; reads one row by its key"),
    ("/received/{id}/attachments/{attachment}", "a file; reads the pieces of one message by their key"),
    ("/received/{id}/source", "a file; reads the pieces of one message by their key"),
    ("/reset/{token}", "by a link that only its mail has; reads one row by its key"),
    ("/setup/{token}", "before there is anything"),
    ("/suppressions/export", "a file with all entries, which takes as long as it is"),
    ("/team/invitations/{id}/withdraw", "of an invitation that is open; reads those that the page of the team lists"),
];

/// The ids of what is looked at: not the newest, which every list begins with.
const THINGS: &[(&str, &str)] = &[
    ("automation", "SELECT id FROM automations"),
    ("broadcast", "SELECT id FROM broadcasts WHERE state = 'sent'"),
    ("change", "SELECT id FROM audit_log ORDER BY id DESC LIMIT 1 OFFSET 50000"),
    ("colleague", "SELECT user_id FROM memberships WHERE role = 'member'"),
    ("contact", "SELECT contact_id FROM runs WHERE status = 'completed' ORDER BY id DESC LIMIT 1 OFFSET 100000"),
    ("domain", "SELECT id FROM domains WHERE name = 'd1.example'"),
    ("draft", "SELECT id FROM broadcasts WHERE state = 'draft'"),
    (
        "email",
        "SELECT id FROM emails WHERE state = 40 AND origin = 'automation' ORDER BY id DESC LIMIT 1 OFFSET 100000",
    ),
    ("erasure", "SELECT id FROM erasures"),
    ("event", "SELECT id FROM events WHERE name = 'order.placed'"),
    ("failed_run", "SELECT id FROM runs WHERE status = 'failed' ORDER BY id DESC LIMIT 1 OFFSET 1000"),
    ("form", "SELECT id FROM forms"),
    ("grant", "SELECT id FROM oauth_grants"),
    ("import", "SELECT id FROM contact_imports"),
    ("key", "SELECT id FROM api_keys"),
    ("occurrence", "SELECT id FROM occurrences WHERE name = 'order.placed' ORDER BY id DESC LIMIT 1 OFFSET 100000"),
    ("property", "SELECT id FROM contact_properties"),
    ("received", "SELECT id FROM received_emails ORDER BY id DESC LIMIT 1 OFFSET 50000"),
    ("request", "SELECT id FROM request_log ORDER BY id DESC LIMIT 1 OFFSET 50000"),
    ("rule_segment", "SELECT id FROM segments WHERE filter IS NOT NULL"),
    ("run", "SELECT id FROM runs WHERE status = 'completed' ORDER BY id DESC LIMIT 1 OFFSET 100000"),
    ("scheduled", "SELECT id FROM emails WHERE scheduled_at IS NOT NULL"),
    ("segment", "SELECT id FROM segments WHERE filter IS NULL"),
    ("suppression", "SELECT id FROM suppressions ORDER BY id DESC LIMIT 1 OFFSET 1000"),
    ("template", "SELECT id FROM templates"),
    ("topic", "SELECT id FROM topics"),
    ("waiting_run", "SELECT id FROM runs WHERE status = 'running' ORDER BY id DESC LIMIT 1 OFFSET 100000"),
    ("webhook", "SELECT id FROM webhooks"),
    ("webhook_event", "SELECT event_id FROM webhook_deliveries ORDER BY event_id DESC LIMIT 1 OFFSET 1000"),
];

/// What stands in an address for what is in braces.
fn things(store: &Store) -> anyhow::Result<Vec<(&'static str, String)>> {
    let connection = Connection::open(store.file().context("only an SQLite store is asked so")?)?;
    let mut things = Vec::new();
    for (name, query) in THINGS {
        let id: [u8; 16] = connection.query_row(query, [], |row| row.get(0)).with_context(|| (*query).to_owned())?;
        things.push((*name, Uuid::from_bytes(id).to_string()));
    }
    let texts = [
        ("client", "SELECT id FROM oauth_clients WHERE workspace_id IS NOT NULL"),
        ("address", "SELECT email FROM contacts ORDER BY id DESC LIMIT 1 OFFSET 500000"),
        (
            "attachment",
            "SELECT json_extract(envelope, '$.attachments[0].id') FROM emails WHERE scheduled_at IS NOT NULL",
        ),
    ];
    for (name, query) in texts {
        let text: String = connection.query_row(query, [], |row| row.get(0)).with_context(|| query.to_owned())?;
        things.push((name, text.replace('@', "%40").replace('+', "%2B")));
    }
    let own = "SELECT email_id, number FROM email_recipients WHERE email_id = (SELECT id FROM broadcasts WHERE state = 'sent')
               ORDER BY number DESC LIMIT 1 OFFSET 100000";
    let (shared, number): ([u8; 16], i64) = connection.query_row(own, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    things.push(("own_mail", posthorn::id::own_id(Uuid::from_bytes(shared).into(), number).to_string()));
    Ok(things)
}

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    config: Config,
}

/// The paths that the router has, of a product that nobody serves.
fn paths() -> anyhow::Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let config = Settings::parse_from(["pages".as_ref(), "--data-dir".as_ref(), folder.path().as_os_str()]).config;
    tokio::runtime::Runtime::new()?.block_on(async {
        let db = serve::open_store(&config).await?;
        let addresses = serve::addresses(&config, config.listen)?;
        let (metrics, seal) = (PrometheusBuilder::new().build_recorder().handle(), Seal::of(&config)?);
        Ok(Product::new(App::new(config, addresses, db, Clock::system(), metrics, seal)).page_paths())
    })
}

/// A path, whatever stands in its braces.
fn shape(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part }).collect::<Vec<_>>().join("/")
}

/// Whether an address leads to the page at a path.
fn leads_to(address: &str, path: &str) -> bool {
    let (address, path) = (shape(address), shape(path));
    let mut parts = address.split('/').zip(path.split('/'));
    address.split('/').count() == path.split('/').count() && parts.all(|(given, known)| given == known || known == "{}")
}

/// Fails where the router knows a page that nobody looks at, or somebody looks at one that it does not know.
fn check_that_none_is_missing(server: &Server) -> anyhow::Result<()> {
    let paths = paths()?;
    let (mut missing, mut pages) = (Vec::new(), 0);
    for path in &paths {
        let methods = login::methods(server.address, &format!("/dashboard{}", path.replace(['{', '}'], "")))?;
        if !methods.split(',').any(|method| method.trim() == "GET") {
            continue;
        }
        pages += 1;
        // A path without anything in braces is found before one that has.
        let is_visited = VISITED.iter().any(|address| {
            let led: Vec<&String> = paths.iter().filter(|known| leads_to(address, known)).collect();
            led.iter().min_by_key(|known| known.matches('{').count()) == Some(&path)
        });
        if !is_visited && !LEFT_OUT.iter().any(|(left_out, _)| left_out == path) {
            missing.push(path.as_str());
        }
    }
    ensure!(missing.is_empty(), "these pages are neither looked at nor left out for a reason: {}", missing.join(" "));
    let known = |address: &str| paths.iter().any(|path| leads_to(address, path));
    let left_out = LEFT_OUT.iter().map(|(path, _)| *path);
    for address in VISITED.iter().copied().chain(left_out) {
        ensure!(known(address), "there is no page at {address} any more");
    }
    ensure!(pages > 100, "the router was asked for its pages and told {pages}");
    Ok(())
}

/// Asks for every page, one after the other.
fn visit_all(store: &Store, report: &Report) -> anyhow::Result<(Vec<client::Outcome>, Seen)> {
    let server = Server::real(store)?;
    let cookie = login::session(server.address)?;
    let things = things(store)?;
    let connection = Connection::open(store.file().context("an SQLite store")?)?;
    let workspace: [u8; 16] = connection.query_row("SELECT id FROM workspaces", [], |row| row.get(0))?;
    let root = format!("/dashboard/w/{}", Uuid::from_bytes(workspace));
    let address = |page: &str| {
        let put = |address: String, (name, id): &(&str, String)| address.replace(&format!("{{{name}}}"), id);
        things.iter().fold(format!("{root}{page}"), put)
    };
    let mut requests: Vec<Workload> = VISITED.iter().map(|page| Workload::page(&address(page), &cookie)).collect();
    let mut latencies = vec![Vec::with_capacity(TIMES); VISITED.len()];
    let (mut visitor, began) = (client::Visitor::new(server.address)?, Instant::now());
    // One page after the other, and then all again: what a page keeps for a moment is not what the next look finds.
    for lap in 0..WARM_UP + TIMES {
        for ((page, request), latencies) in VISITED.iter().zip(&mut requests).zip(&mut latencies) {
            let took = visitor.ask(request).with_context(|| (*page).to_owned())?;
            latencies.extend((lap >= WARM_UP).then_some(took));
        }
    }
    let outcome = |latencies| client::outcome((WARM_UP + TIMES) as u64, latencies, began.elapsed());
    let times: Vec<client::Outcome> = latencies.into_iter().map(outcome).collect::<anyhow::Result<_>>()?;
    for (page, outcome) in VISITED.iter().zip(&times) {
        report.tell(&format!("{page}: {:.1?}, {:.1?}", outcome.p50, outcome.p99));
    }
    let answered: u64 = times.iter().map(|outcome| outcome.answered).sum();
    let slowest = *times.iter().max_by_key(|outcome| outcome.p99).context("a page")?;
    let cpu = server.cpu()?.div_f64(answered as f64);
    Ok((times, Seen { outcome: slowest, memory: server.memory()?, cpu }))
}

/// The slowest page, by the slowest of a hundred times that it is asked for, as 1/p99 against 50 ms.
pub fn pages(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let store = million::fill(report)?;
    check_that_none_is_missing(&Server::real(&store)?)?;
    let what = format!(
        "the slowest of {} pages of the dashboard with {} contacts, events, runs and mails, 1/p99, SQLite",
        VISITED.len(),
        million::PEOPLE
    );
    let mut measured = Measured::new(&what, "50 ms", 1.0).within(MAIL_MEMORY_BAR);
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let (times, seen) = visit_all(&store, report)?;
        let subject = Side { per_second: 1.0 / seen.outcome.p99.as_secs_f64(), server: Some(seen) };
        measured.add(Side { per_second: 20.0, server: None }, subject);
        rounds.push(times);
    }
    report.add(measured);
    report.add_pages(VISITED.iter().enumerate().map(|(at, page)| middle(page, at, &rounds)).collect());
    Ok(())
}

/// What the page at this place took in the middle one of the rounds.
fn middle(page: &str, at: usize, rounds: &[Vec<client::Outcome>]) -> PageTime {
    let of = |time: fn(&client::Outcome) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(|round| time(&round[at])).collect();
        times.sort();
        times[times.len() / 2]
    };
    PageTime { page: page.to_owned(), p50: of(|outcome| outcome.p50), p99: of(|outcome| outcome.p99) }
}

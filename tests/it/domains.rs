//! `/domains`: records, what DNS says of them, who may send as whom, and keys that are held to a domain.

use std::time::Duration;

use posthorn::clock::HOUR;
use posthorn::config::TransportKind;
use posthorn::db::Batch;
use posthorn::id::{DomainId, WorkspaceId};
use posthorn::{accounts, domains};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::automation_pages::{owner, page, press};
use crate::dns::Dns;
use crate::harness::{Answer, TestApp, on_both};
use crate::store::Store;

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

pub async fn add(app: &TestApp, key: &str, name: &str) -> Value {
    let answer = app.post("/domains").key(key).json(json!({"name": name})).send().await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

fn id(domain: &Value) -> &str {
    domain["id"].as_str().expect("an id")
}

async fn read(app: &TestApp, key: &str, domain: &Value) -> Value {
    let answer = app.get(format!("/domains/{}", id(domain))).key(key).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Looks at DNS, and tells what became of the domain.
pub async fn verify(app: &TestApp, key: &str, domain: &Value) -> Value {
    let answer = app.post(format!("/domains/{}/verify", id(domain))).key(key).send().await;
    assert_eq!((answer.status, answer.json()), (200, json!({"object": "domain", "id": id(domain)})));
    read(app, key, domain).await
}

/// Sets every record that a domain asks for.
pub fn publish(dns: &Dns, domain: &Value) {
    for record in domain["records"].as_array().expect("records") {
        publish_one(dns, record);
    }
}

fn publish_one(dns: &Dns, record: &Value) {
    let text = |field: &str| record[field].as_str().expect("text");
    match text("type") {
        "MX" => dns.mx(text("name"), 10, text("value")),
        "TXT" => dns.txt(text("name"), text("value")),
        _ => dns.cname(text("name"), text("value")),
    }
}

fn statuses(domain: &Value) -> Vec<&str> {
    let records = domain["records"].as_array().expect("records");
    records.iter().map(|record| record["status"].as_str().expect("a status")).collect()
}

fn advice(domain: &Value, record: usize) -> &str {
    domain["records"][record]["advice"].as_str().unwrap_or_default()
}

/// A process that asks this server, with more settings.
pub async fn open(store: &Store, dns: &Dns, settings: &[&str]) -> TestApp {
    let server = dns.setting();
    TestApp::open(store, &[&[server.as_str()], settings].concat()).await
}

/// Whether mail may be sent, and by what; or what is said.
async fn may_send(
    app: &TestApp,
    workspace: WorkspaceId,
    held_to: Option<&str>,
    name: &str,
) -> Result<TransportKind, String> {
    let held_to: Option<DomainId> = held_to.map(|id| id.parse().expect("an id"));
    let sender = app.app.domains().may_send(workspace, held_to, name).await;
    sender.map(|sender| sender.transport).map_err(|error| {
        assert_eq!((error.status().as_u16(), error.envelope().name), (403, "validation_error"));
        error.message().into_owned()
    })
}

/// The workspace of [`TestApp::second_workspace_key`].
async fn second_workspace(app: &TestApp) -> WorkspaceId {
    let all = accounts::workspaces(&app.app.db).await.expect("workspaces");
    all.into_iter().find(|workspace| workspace.name == "Other").expect("the second").id
}

fn refused(answer: &Answer, word: &str) {
    let message = answer.refused(403, "validation_error");
    assert!(message.contains(word), "{message}");
}

on_both! {
    async fn a_domain_is_added_read_changed_and_deleted(app: TestApp) {
        let key = app.full_key().await;
        let domain = add(&app, &key, "Example.COM").await;
        let dkim = |at: usize| domain["records"][at]["value"].as_str().expect("a value").to_owned();
        assert!(dkim(2).starts_with("v=DKIM1; k=rsa; p=") && dkim(3).starts_with("v=DKIM1; k=ed25519; p="), "{domain}");
        let record = |record: &str, name: &str, kind: &str, value: String| {
            json!({"record": record, "name": name, "type": kind, "ttl": "Auto", "status": "not_started", "value": value})
        };
        let mut mx = record("SPF", "send.example.com", "MX", "mail.example".into());
        mx["priority"] = json!(10);
        let mut expected = json!({
            "object": "domain", "id": id(&domain), "name": "example.com", "status": "not_started",
            "created_at": "2026-01-02T03:04:05.678901Z", "region": "us-east-1",
            "capabilities": {"sending": "enabled", "receiving": "disabled"},
            "open_tracking": false, "click_tracking": false, "tls": "opportunistic", "custom_return_path": "send",
            "transport": null, "warm_up": null, "checked_at": null,
            "records": [
                mx,
                record("SPF", "send.example.com", "TXT", "v=spf1 a:mail.example ~all".into()),
                record("DKIM", "posthorn._domainkey.example.com", "TXT", dkim(2)),
                record("DKIM", "posthorn-ed._domainkey.example.com", "TXT", dkim(3)),
            ],
            "dmarc": {"name": "_dmarc.example.com", "type": "TXT", "status": "not_started", "value": "v=DMARC1; p=none;"},
        });
        assert_eq!(domain, expected);
        assert_eq!(read(&app, &key, &domain).await, expected);

        let path = format!("/domains/{}", id(&domain));
        let change = json!({"id": id(&domain), "open_tracking": true, "tls": "enforced", "tracking_subdomain": "links",
            "capabilities": {"receiving": "enabled"}, "transport": "smtp://user:hunter2@relay.example", "warm_up": 50});
        let changed = app.patch(&path).key(&key).json(change).send().await;
        assert_eq!((changed.status, changed.json()), (200, json!({"object": "domain", "id": id(&domain)})));
        let now = read(&app, &key, &domain).await;
        assert!(!now.to_string().contains("hunter2"));
        assert_eq!((&now["open_tracking"], &now["click_tracking"], &now["tls"]), (&json!(true), &json!(false), &json!("enforced")));
        assert_eq!((&now["transport"], &now["warm_up"], &now["tracking_subdomain"]), (&json!("relay"), &json!(50), &json!("links")));
        assert_eq!(now["capabilities"], json!({"sending": "enabled", "receiving": "enabled"}));
        assert_eq!(now["records"][1]["value"], "v=spf1 a:relay.example ~all");
        let kinds: Vec<_> = now["records"].as_array().expect("records").iter().map(|one| &one["record"]).collect();
        assert_eq!(json!(kinds), json!(["SPF", "SPF", "DKIM", "DKIM", "Receiving MX", "Tracking"]));

        let back = json!({"open_tracking": false, "tls": "opportunistic", "tracking_subdomain": null,
            "capabilities": {"receiving": "disabled"}, "transport": null, "warm_up": null});
        assert_eq!(app.patch(&path).key(&key).json(back).send().await.status, 200);
        assert_eq!(app.patch(&path).key(&key).send().await.status, 200, "nothing to change is fine");
        assert_eq!(read(&app, &key, &domain).await, expected);
        let fields = expected.as_object_mut().expect("an object");
        ["object", "records", "dmarc"].iter().for_each(|field| drop(fields.remove(*field)));
        let list = app.get("/domains").key(&key).send().await.json();
        assert_eq!(list, json!({"object": "list", "has_more": false, "data": [expected]}));

        let gone = app.delete(&path).key(&key).send().await;
        assert_eq!(gone.json(), json!({"object": "domain", "id": id(&domain), "deleted": true}));
        for path in [path.clone(), "/domains/x".into()] {
            let (status, name) = if path.ends_with('x') { (422, "invalid_parameter") } else { (404, "not_found") };
            app.get(&path).key(&key).send().await.refused(status, name);
            app.patch(&path).key(&key).json(json!({})).send().await.refused(status, name);
            app.delete(&path).key(&key).send().await.refused(status, name);
            app.post(format!("{path}/verify")).key(&key).send().await.refused(status, name);
            app.post(format!("{path}/dkim-keys")).key(&key).send().await.refused(status, name);
        }
        assert_eq!((app.count("domains").await, app.count("dkim_keys").await), (0, 0));
    }

    async fn what_breaks_a_rule_is_422_and_names_the_field(app: TestApp) {
        let key = app.full_key().await;
        for (field, value, word) in [
            ("name", json!("localhost"), "`example.com`"),
            ("name", json!("a@example.com"), "`example.com`"),
            ("name", json!("https://example.com"), "`example.com`"),
            ("name", json!("192.0.2.1"), "`example.com`"),
            ("region", json!("mars-1"), "`us-east-1`"),
            ("custom_return_path", json!("a.b"), "one label"),
            ("open_tracking", json!("yes"), "`open_tracking`"),
            ("tls", json!("none"), "`enforced`"),
            ("capabilities", json!({"sending": true}), "`capabilities.sending`"),
            ("tracking_subdomain", json!(""), "one label"),
            ("tracking_subdomain", json!("Send"), "must not be `send`, to which bounces go"),
            ("transport", json!("http://relay.example"), "`capture`"),
            ("warm_up", json!(0), "from 1"),
        ] {
            let mut body = json!({"name": "example.com"});
            body[field] = value.clone();
            let message = app.post("/domains").key(&key).json(body).send().await.refused(422, "validation_error");
            assert!(message.contains(word) && message.contains(&format!("`{field}")), "{value}: {message}");
        }
        app.post("/domains").key(&key).json(json!({})).send().await.refused(422, "missing_required_field");
        assert_eq!(app.count("domains").await, 0);
        let body = json!({"name": "example.com", "custom_return_path": "bounces", "tracking_subdomain": "send"});
        let made = app.post("/domains").key(&key).json(body).send().await;
        let path = format!("/domains/{}", made.json()["id"].as_str().expect("an id"));
        let message = app.patch(&path).key(&key).json(json!({"tracking_subdomain": "bounces"})).send().await.refused(422, "validation_error");
        assert!(message.contains("`tracking_subdomain` field must not be `bounces`"), "{message}");
        assert_eq!(app.get(&path).key(&key).send().await.json()["tracking_subdomain"], "send");
    }

    async fn a_request_that_is_sent_again_adds_no_second_domain(app: TestApp) {
        let key = app.full_key().await;
        let send = || app.post("/domains").key(&key).header("idempotency-key", "k").json(json!({"name": "a.example"})).send();
        let (first, second) = (send().await, send().await);
        assert_eq!((first.status, second.status), (201, 201));
        assert_eq!(first.json(), second.json());
        refused(&app.post("/domains").key(&key).json(json!({"name": "A.example"})).send().await, "added already");
        assert_eq!(app.count("domains").await, 1);
    }

    async fn decisions_1_another_workspaces_domain_is_404_on_every_method(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let domain = add(&app, &mine, "example.com").await;
        let path = format!("/domains/{}", id(&domain));
        app.get(&path).key(&theirs).send().await.refused(404, "not_found");
        app.patch(&path).key(&theirs).json(json!({"tls": "enforced"})).send().await.refused(404, "not_found");
        app.delete(&path).key(&theirs).send().await.refused(404, "not_found");
        app.post(format!("{path}/verify")).key(&theirs).send().await.refused(404, "not_found");
        app.post(format!("{path}/dkim-keys")).key(&theirs).send().await.refused(404, "not_found");
        assert_eq!(app.get("/domains").key(&theirs).send().await.json()["data"], json!([]));
        assert_eq!(read(&app, &mine, &domain).await, domain);
    }

    async fn a_domain_is_verified_when_its_records_are_there(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &[]).await;
        let key = app.full_key().await;
        let body = json!({"name": "example.com", "tracking_subdomain": "links", "capabilities": {"receiving": "enabled"}});
        let domain = app.post("/domains").key(&key).json(body).send().await.json();
        let empty = verify(&app, &key, &domain).await;
        assert_eq!((&empty["status"], statuses(&empty)), (&json!("pending"), vec!["pending"; 6]));
        assert!((0..6).all(|at| advice(&empty, at).contains("There is no ")), "{empty}");
        assert!(empty["dmarc"]["advice"].as_str().is_some_and(|text| text.contains("Gmail")), "{empty}");

        // What people get wrong, and what they are told.
        dns.mx("send.example.com", 10, "mx.other.example");
        dns.txt("send.example.com", "v=spf1 include:other.example -all");
        let value = domain["records"][2]["value"].as_str().expect("a key");
        dns.txt("posthorn._domainkey.example.com", &value[..100]);
        dns.txt("posthorn-ed._domainkey.example.com.example.com", "v=DKIM1; p=x");
        dns.cname("links.example.com", "other.example");
        dns.txt("_dmarc.example.com", "v=DMARC1; p=reject");
        let wrong = verify(&app, &key, &domain).await;
        assert_eq!((&wrong["status"], statuses(&wrong)), (&json!("pending"), vec!["pending"; 6]));
        for (at, word) in [(0, "`mail.example`"), (1, "`a:mail.example`"), (2, "cut off"), (3, "Enter only `posthorn-ed._domainkey`"), (5, "`mail.example`")] {
            assert!(advice(&wrong, at).contains(word), "{wrong}");
        }
        assert_eq!((&wrong["records"][0]["found"], &wrong["dmarc"]["status"]), (&json!("10 mx.other.example"), &json!("verified")));

        // What sending needs is enough to send.
        for name in ["send.example.com", "posthorn._domainkey.example.com", "links.example.com"] {
            dns.forget(name);
        }
        for at in [1, 2] {
            publish_one(&dns, &domain["records"][at]);
        }
        let partly = verify(&app, &key, &domain).await;
        assert_eq!(partly["status"], "partially_verified");
        assert_eq!(statuses(&partly), ["pending", "verified", "verified", "pending", "pending", "pending"]);
        for at in [0, 3, 4, 5] {
            publish_one(&dns, &domain["records"][at]);
        }
        let whole = verify(&app, &key, &domain).await;
        assert_eq!((&whole["status"], statuses(&whole)), (&json!("verified"), vec!["verified"; 6]));
        assert!((0..6).all(|at| whole["records"][at].get("advice").is_none()), "{whole}");
        assert_eq!(whole["checked_at"], "2026-01-02T03:04:05.678901Z");
    }

    async fn t30_of_a_domain_with_one_wrong_record_only_that_one_is_red(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &[]).await;
        let (key, cookie) = (app.full_key().await, owner(&app).await);
        let domain = add(&app, &key, "example.com").await;
        let wrong = &domain["records"][0];
        for record in domain["records"].as_array().expect("records").iter().skip(1) {
            publish_one(&dns, record);
        }
        dns.mx(wrong["name"].as_str().expect("a name"), 10, "mx.other.example");
        verify(&app, &key, &domain).await;
        let shown = page(&app, &cookie, &format!("/domains/{}", id(&domain))).await;
        let records: Vec<&str> = shown.split("<section class=\"panel record\"").skip(1).collect();
        let count = domain["records"].as_array().expect("records").len();
        assert_eq!(records.len(), count + 1, "and the one that is advised");
        assert!(records[0].contains("badge bad\">Wrong<") && records[0].contains("DNS says <code class=\"wrap\">10 mx.other.example<"), "{shown}");
        for right in &records[1..count] {
            assert!(right.contains("badge good\">Verified<") && !right.contains("class=\"notice"), "{right}");
        }
        assert_eq!(shown.matches("badge bad").count(), 1, "{shown}");
        assert_eq!(press(&app, &cookie, &shown, "/verify").await.status, 303);
        app.assert_told(&["domain.created", "domain.verified"]).await;
    }

    async fn dns_that_fails_changes_nothing_and_a_record_is_gone_after_a_day(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &["--transport=direct"]).await;
        let (key, workspace) = (app.full_key().await, app.workspace().await);
        let domain = add(&app, &key, "example.com").await;
        publish(&dns, &domain);
        assert_eq!(verify(&app, &key, &domain).await["status"], "verified");
        assert_eq!(may_send(&app, workspace, None, "example.com").await, Ok(TransportKind::Direct));

        dns.fail(true);
        app.clock.advance(100 * HOUR);
        let unknown = verify(&app, &key, &domain).await;
        assert_eq!((&unknown["status"], statuses(&unknown)), (&json!("verified"), vec!["verified"; 4]));
        assert!(advice(&unknown, 0).contains("did not answer"), "{unknown}");
        dns.fail(false);
        dns.forget("posthorn._domainkey.example.com");
        for hours in [0, 12, 11] {
            app.clock.advance(hours * HOUR);
            let missed = verify(&app, &key, &domain).await;
            assert_eq!(missed["status"], "verified", "{missed}");
            assert!(advice(&missed, 2).contains("There is no TXT"), "{missed}");
        }
        assert!(may_send(&app, workspace, None, "example.com").await.is_ok());
        app.clock.advance(HOUR);
        let gone = verify(&app, &key, &domain).await;
        assert_eq!((&gone["status"], statuses(&gone)[2]), (&json!("failed"), "failed"));
        let owner = app.owner().await;
        let overview = app.see("/dashboard/", &owner).await.text();
        let alert = format!("example.com has failing DNS records. <a href=\"/dashboard/domains/{}\">", id(&domain));
        assert!(overview.contains(&alert), "{overview}");
        let cached = may_send(&app, workspace, None, "example.com").await;
        assert!(cached.is_ok(), "what is cached is guarded: {cached:?}");
        app.app.domains().forget_sender(workspace, "example.com");
        let message = may_send(&app, workspace, None, "example.com").await.expect_err("refused");
        assert!(message.contains("`failed`") && message.contains(id(&domain)), "{message}");
        // It stays this workspace's name, and comes back with its record.
        publish_one(&dns, &domain["records"][2]);
        assert_eq!(verify(&app, &key, &domain).await["status"], "verified");
        assert!(may_send(&app, workspace, None, "example.com").await.is_ok());
    }

    async fn decisions_7_a_name_that_one_workspace_verified_is_refused_to_all_others(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &[]).await;
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let other = second_workspace(&app).await;
        let (first, second) = (add(&app, &mine, "example.com").await, add(&app, &theirs, "example.com").await);
        assert_eq!(may_send(&app, other, None, "example.com").await, Ok(TransportKind::Capture));
        publish(&dns, &first);
        assert_eq!(verify(&app, &theirs, &second).await["status"], "pending", "the keys are not theirs");
        assert_eq!(verify(&app, &mine, &first).await["status"], "verified");

        // Also where mail is captured, and where any sender is allowed; in every process.
        for settings in [&[][..], &["--transport=direct", "--senders=any"]] {
            let app = open(&store, &dns, settings).await;
            let message = may_send(&app, other, None, "example.com").await.expect_err("refused");
            assert!(message.contains("another workspace"), "{message}");
        }
        // Even with both keys in DNS.
        for at in [1, 2] {
            dns.forget(second["records"][at]["name"].as_str().expect("a name"));
            publish_one(&dns, &second["records"][at]);
        }
        let late = verify(&app, &theirs, &second).await;
        assert_eq!(late["status"], "failed");
        assert!(late["advice"].as_str().is_some_and(|text| text.contains("Another workspace")), "{late}");
        assert_eq!(app.delete(format!("/domains/{}", id(&second))).key(&theirs).send().await.status, 200);
        refused(&app.post("/domains").key(&theirs).json(json!({"name": "EXAMPLE.com"})).send().await, "another workspace");
        // Deleted, the name is free again.
        assert_eq!(app.delete(format!("/domains/{}", id(&first))).key(&mine).send().await.status, 200);
        add(&app, &theirs, "example.com").await;
    }

    async fn decisions_7_only_capture_takes_any_sender(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &[]).await;
        let (key, workspace) = (app.full_key().await, app.workspace().await);
        assert_eq!(may_send(&app, workspace, None, "any.example").await, Ok(TransportKind::Capture));
        let any = open(&store, &dns, &["--smtp-url=smtp://relay.example", "--senders=any"]).await;
        assert_eq!(may_send(&any, workspace, None, "any.example").await, Ok(TransportKind::Relay));

        let real = open(&store, &dns, &["--smtp-url=smtp://relay.example"]).await;
        let unknown = may_send(&real, workspace, None, "any.example").await.expect_err("refused");
        assert!(unknown.contains("`any.example` is not verified") && unknown.contains("`POST /domains`"), "{unknown}");
        let domain = add(&real, &key, "example.com").await;
        let pending = may_send(&real, workspace, None, "example.com").await.expect_err("refused");
        assert!(pending.contains("`not_started`") && pending.contains(&format!("/domains/{}/verify", id(&domain))), "{pending}");
        assert_eq!(domain["records"][1]["value"], "v=spf1 a:relay.example ~all");
        publish(&dns, &domain);
        assert_eq!(verify(&real, &key, &domain).await["status"], "verified");
        assert_eq!(may_send(&real, workspace, None, "example.com").await, Ok(TransportKind::Relay));
        assert!(may_send(&real, workspace, None, "sub.example.com").await.is_err(), "a subdomain is another domain");

        let path = format!("/domains/{}", id(&domain));
        let change = async |body: Value| assert_eq!(real.patch(&path).key(&key).json(body).send().await.status, 200);
        change(json!({"transport": "direct"})).await;
        real.app.domains().forget_sender(workspace, "example.com");
        assert_eq!(may_send(&real, workspace, None, "example.com").await, Ok(TransportKind::Direct));
        change(json!({"capabilities": {"sending": "disabled"}})).await;
        real.app.domains().forget_sender(workspace, "example.com");
        let disabled = may_send(&real, workspace, None, "example.com").await.expect_err("refused");
        assert!(disabled.contains("`sending` disabled"), "{disabled}");
    }

    /// What one process takes away no other can go on with: the guard of what it knows does not hold.
    async fn what_is_known_of_a_sender_is_guarded_in_every_process(store: Store) {
        let dns = Dns::start().await;
        let (one, two) = (open(&store, &dns, &[]).await, open(&store, &dns, &[]).await);
        let (key, workspace) = (one.full_key().await, one.workspace().await);
        let kept = add(&one, &key, "kept.example").await;
        let lost = add(&one, &key, "lost.example").await;
        publish(&dns, &kept);
        assert_eq!(verify(&one, &key, &kept).await["status"], "verified");
        let sender = async |name: &str| two.app.domains().may_send(workspace, None, name).await.expect("allowed");
        let (kept_sender, lost_sender, free) = (sender("kept.example").await, sender("lost.example").await, sender("free.example").await);
        let holds = async |sender: &domains::Sender| two.app.db.commit(Batch::new().when(sender.guard())).await.is_ok();
        assert!(holds(&kept_sender).await && holds(&lost_sender).await && holds(&free).await);
        assert_eq!(one.delete(format!("/domains/{}", id(&lost))).key(&key).send().await.status, 200);
        assert!(!holds(&lost_sender).await, "it was deleted");
        assert!(holds(&kept_sender).await && holds(&free).await, "others go on under the new revision");
        // A name that somebody else verifies is taken from those who used it freely.
        let theirs = one.second_workspace_key().await;
        let domain = add(&one, &theirs, "free.example").await;
        assert!(holds(&free).await);
        publish(&dns, &domain);
        assert_eq!(verify(&one, &theirs, &domain).await["status"], "verified");
        assert!(!holds(&free).await && holds(&kept_sender).await);
    }

    async fn decisions_7_a_key_with_a_domain_sends_from_that_domain_alone(app: TestApp) {
        let (key, workspace) = (app.full_key().await, app.workspace().await);
        let theirs = app.second_workspace_key().await;
        let (domain, other) = (add(&app, &key, "a.example").await, add(&app, &theirs, "b.example").await);
        let make = |body: Value| app.post("/api-keys").key(&key).json(body).send();
        for (permission, domain_id, word) in [
            ("full_access", id(&domain), "`sending_access`"),
            ("sending_access", NOBODY, "names no domain"),
            ("sending_access", id(&other), "names no domain"),
            ("sending_access", "x", "`domain_id`"),
        ] {
            let body = json!({"name": "k", "permission": permission, "domain_id": domain_id});
            let message = make(body).await.refused(422, "validation_error");
            assert!(message.contains(word), "{message}");
        }
        let made = make(json!({"name": "k", "permission": "sending_access", "domain_id": id(&domain)})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(may_send(&app, workspace, Some(id(&domain)), "a.example").await, Ok(TransportKind::Capture));
        let message = may_send(&app, workspace, Some(id(&domain)), "c.example").await.expect_err("refused");
        assert!(message.contains("only send from `a.example`, not from `c.example`"), "{message}");

        // The key ends with the domain, at once and in every process.
        let token = made.json()["token"].as_str().expect("a token").to_owned();
        let elsewhere = TestApp::open(&app.store, &[]).await;
        elsewhere.get("/domains").key(&token).send().await.refused(401, "restricted_api_key");
        assert_eq!(app.delete(format!("/domains/{}", id(&domain))).key(&key).send().await.status, 200);
        for app in [&app, &elsewhere] {
            app.get("/domains").key(&token).send().await.refused(403, "invalid_api_key");
        }
        assert_eq!(app.get("/domains").key(&key).send().await.status, 200);
    }

    async fn old_keys_sign_until_the_records_of_the_new_ones_are_seen(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &[]).await;
        let key = app.full_key().await;
        let domain = add(&app, &key, "example.com").await;
        let domain_id: DomainId = id(&domain).parse().expect("an id");
        let selectors = async |at: i64| {
            app.clock.advance(2_000_000);
            let keys = app.app.domains().signing_keys(domain_id).await.expect("a store").expect("a domain");
            keys.at(at).map(|key| key.selector.clone()).collect::<Vec<_>>()
        };
        let unseen = app.clock.now();
        assert!(selectors(unseen).await.is_empty(), "nobody could check the signature");
        publish(&dns, &domain);
        assert_eq!(verify(&app, &key, &domain).await["status"], "verified");
        let first = app.clock.now();
        assert_eq!(selectors(first).await, ["posthorn", "posthorn-ed"]);
        assert!(selectors(unseen).await.is_empty(), "what was accepted before is not signed on a later attempt");

        let path = format!("/domains/{}/dkim-keys", id(&domain));
        assert_eq!(app.post(&path).key(&key).send().await.json(), json!({"object": "domain", "id": id(&domain)}));
        let message = app.post(&path).key(&key).send().await.refused(409, "validation_error");
        assert!(message.contains("not published"), "{message}");
        let both = verify(&app, &key, &domain).await;
        assert_eq!((&both["status"], both["records"].as_array().map(Vec::len)), (&json!("partially_verified"), Some(6)));
        assert_eq!(selectors(app.clock.now()).await, ["posthorn", "posthorn-ed"]);
        let fresh = |record: &&Value| record["name"].as_str().is_some_and(|name| name.starts_with("posthorn2"));
        both["records"].as_array().expect("records").iter().filter(fresh).for_each(|record| publish_one(&dns, record));
        let turned = verify(&app, &key, &domain).await;
        assert_eq!((&turned["status"], statuses(&turned)), (&json!("verified"), vec!["verified"; 4]));
        let second = app.clock.now();
        assert_eq!(selectors(second).await, ["posthorn2", "posthorn2-ed"]);
        assert_eq!(selectors(first).await, ["posthorn", "posthorn-ed"], "every attempt of a mail is signed alike");
    }

    async fn what_delivery_has_to_know_follows_every_change(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &[]).await;
        let key = app.full_key().await;
        let domain = add(&app, &key, "example.com").await;
        let domain_id: DomainId = id(&domain).parse().expect("an id");
        let settings = async || {
            app.clock.advance(2_000_000);
            app.app.domains().delivery_settings(domain_id).await.expect("a store")
        };
        let plain = settings().await.expect("a domain");
        assert_eq!((plain.transport, plain.relays.len(), &*plain.return_path), (None, 0, "send.example.com"));
        assert_eq!((plain.tls, plain.daily_limit(app.clock.now())), (domains::TlsPolicy::Opportunistic, None));
        let change = json!({"transport": "smtp://a.example,smtps://u:p@b.example", "tls": "enforced", "warm_up": 10});
        assert_eq!(app.patch(format!("/domains/{domain_id}")).key(&key).json(change).send().await.status, 200);
        let own = settings().await.expect("a domain");
        let hosts: Vec<&str> = own.relays.iter().map(|relay| relay.host.as_str()).collect();
        assert_eq!((own.transport, hosts), (Some(TransportKind::Relay), vec!["a.example", "b.example"]));
        assert_eq!((own.tls, own.daily_limit(app.clock.now() + 24 * HOUR)), (domains::TlsPolicy::Enforced, Some(20)));
        assert_eq!(app.delete(format!("/domains/{domain_id}")).key(&key).send().await.status, 200);
        assert!(settings().await.is_none());
    }

    async fn domains_are_looked_at_by_themselves(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &[]).await;
        let key = app.full_key().await;
        let domain = add(&app, &key, "example.com").await;
        publish(&dns, &domain);
        let (stop, stopping) = watch::channel(false);
        let working = tokio::spawn(domains::run_checks(app.app.domains().clone(), stopping));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((read(&app, &key, &domain).await["status"].clone(), dns.questions()), (json!("not_started"), 0));
        app.clock.advance(HOUR / 60);
        while read(&app, &key, &domain).await["status"] != "verified" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.send_replace(true);
        working.await.expect("no panic");
    }
}

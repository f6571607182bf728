//! Every public method of the crate `resend-rs`, once. Its types are strict: an answer that lacks a field is an
//! error. Started by ../run, which sets RESEND_BASE_URL, RESEND_API_KEY, GRANT (the id of a grant) and METHODS, the
//! file that takes what came of each: null, or what went wrong. Which methods there are, ../run reads from the
//! crate's source.

use std::fmt::Display;
use std::io::{Seek, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use resend_rs::events::ContactEventType;
use resend_rs::list_opts::ListOptions;
use resend_rs::types::*;
use resend_rs::{Resend, Result, json};
use serde_json::{Map, Value};

const NOBODY: &str = "01890000-0000-7000-8000-000000000000";
const FROM: &str = "Ada <ada@example.com>";

/// What came of the methods that were called.
#[derive(Default)]
struct Outcome(Map<String, Value>);

impl Outcome {
    fn take<T>(&mut self, name: &str, answer: Result<T>) -> Option<T> {
        let problem = answer.as_ref().err().map(|error| Value::from(format!("{error:?}")));
        match self.0.get_mut(name) {
            Some(told) if !told.is_null() => *told = problem.unwrap_or_default(),
            Some(_) => {}
            None => {
                self.0.insert(name.into(), problem.unwrap_or_default());
            }
        }
        answer.ok()
    }
}

/// Calls a method and notes what came of it: `call!(outcome, resend.contacts.get(id))`.
macro_rules! call {
    ($outcome:ident, $resend:ident.$service:ident.$method:ident($($argument:expr),* $(,)?)) => {
        $outcome.take(
            concat!(stringify!($service), ".", stringify!($method)),
            $resend.$service.$method($($argument),*).await,
        )
    };
}

fn id(found: Option<impl Display>) -> String {
    found.map_or_else(|| NOBODY.to_owned(), |id| id.to_string())
}

fn unique() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos()
}

fn somebody() -> String {
    format!("ada+{}@example.com", unique())
}

fn mail() -> CreateEmailBaseOptions {
    CreateEmailBaseOptions::new(FROM, ["delivered@resend.dev"], "Hello").with_text("Hello.")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let resend = Resend::default();
    let mut outcome = Outcome::default();
    people(&resend, &mut outcome).await;
    emails(&resend, &mut outcome).await;
    templates(&resend, &mut outcome).await;
    events(&resend, &mut outcome).await;
    domains_and_keys(&resend, &mut outcome).await;
    suppressions(&resend, &mut outcome).await;
    webhooks(&resend, &mut outcome).await;
    let file = std::env::var("METHODS").expect("METHODS is set");
    std::fs::write(file, Value::Object(outcome.0).to_string()).expect("written");
}

async fn people(resend: &Resend, outcome: &mut Outcome) {
    let segment = id(call!(outcome, resend.segments.create("Everybody")).map(|made| made.id));
    call!(outcome, resend.segments.list(ListOptions::default()));
    call!(outcome, resend.segments.get(&segment));
    call!(outcome, resend.segments.update(&segment, "All"));
    let email = somebody();
    let fields = CreateContactOptions::new(&email).with_first_name("Ada");
    let contact = id(call!(outcome, resend.contacts.create(fields)));
    call!(outcome, resend.contacts.list(ListOptions::default()));
    call!(outcome, resend.contacts.get(&email));
    call!(outcome, resend.contacts.update(&contact, ContactChanges::new().with_last_name("Lovelace")));
    call!(outcome, resend.contacts.add_contact_segment(&contact, &segment));
    call!(outcome, resend.contacts.list_contact_segment(&contact, ListOptions::default()));
    call!(outcome, resend.segments.list_contacts(&segment, ListOptions::default()));
    let fields = CreateTopicOptions::new("News", SubscriptionType::OptIn);
    let topic = id(call!(outcome, resend.topics.create(fields)).map(|made| made.id));
    call!(outcome, resend.topics.list(ListOptions::default()));
    call!(outcome, resend.topics.get(&topic));
    call!(outcome, resend.topics.update(&topic, UpdateTopicOptions::new().with_name("Product news")));
    let choices = [UpdateContactTopicOptions::new(topic.clone(), SubscriptionType::OptOut)];
    call!(outcome, resend.contacts.update_contact_topics(&contact, choices));
    call!(outcome, resend.contacts.get_contact_topics(&contact, ListOptions::default()));
    let fields = CreateContactPropertyOptions::new(format!("plan_{}", unique()), PropertyType::String);
    let property = id(call!(outcome, resend.contacts.create_property(fields.with_fallback("free"))).map(|made| made.id));
    call!(outcome, resend.contacts.list_properties(ListOptions::default()));
    call!(outcome, resend.contacts.get_property(&property));
    let change = ContactPropertyChanges::default().with_fallback("paid");
    call!(outcome, resend.contacts.update_property(&property, change));
    call!(outcome, resend.contacts.delete_property(&property));
    let mut file = tempfile::tempfile().expect("a file");
    writeln!(file, "email\n{}", somebody()).expect("written");
    file.rewind().expect("at its beginning");
    let fields = CreateContactImportOptions::new();
    let started = id(call!(outcome, resend.contacts.create_import(file, fields)).map(|made| made.id));
    call!(outcome, resend.contacts.list_imports(ListOptions::default()));
    call!(outcome, resend.contacts.get_import(&started));
    broadcasts(resend, outcome, &segment).await;
    call!(outcome, resend.contacts.delete_contact_segment(&contact, &segment));
    call!(outcome, resend.contacts.delete(&contact));
    call!(outcome, resend.topics.delete(&topic));
    call!(outcome, resend.segments.delete(&segment));
}

async fn broadcasts(resend: &Resend, outcome: &mut Outcome, segment: &str) {
    let fields = CreateBroadcastOptions::new(segment, FROM, "News").with_html("<p>News.</p>").with_name("News");
    let broadcast = id(call!(outcome, resend.broadcasts.create(fields)).map(|made| made.id));
    call!(outcome, resend.broadcasts.list(ListOptions::default()));
    call!(outcome, resend.broadcasts.get(&broadcast));
    call!(outcome, resend.broadcasts.update(&broadcast, UpdateBroadcastOptions::new().with_subject("Old news")));
    let copy = id(call!(outcome, resend.broadcasts.duplicate(&broadcast)).map(|made| made.id));
    call!(outcome, resend.broadcasts.delete(&copy));
    let send = SendBroadcastOptions::new(&broadcast).with_scheduled_at("in 1 day");
    call!(outcome, resend.broadcasts.send(send));
    let delivered = ListRecipientsOptions::new(BroadcastRecipientEventType::Delivered);
    call!(outcome, resend.broadcasts.recipients(&broadcast, delivered));
    call!(outcome, resend.broadcasts.clicked_links(&broadcast, ListOptions::default()));
    call!(outcome, resend.broadcasts.cancel(&broadcast));
}

async fn emails(resend: &Resend, outcome: &mut Outcome) {
    let attached = CreateAttachment::from_content(b"a".to_vec()).with_filename("a.txt");
    let email = id(call!(outcome, resend.emails.send(mail().with_attachment(attached))).map(|made| made.id));
    call!(outcome, resend.emails.list(ListOptions::default()));
    call!(outcome, resend.emails.get(&email));
    call!(outcome, resend.emails.share(&email, ShareEmailOptions::new()));
    let listed = call!(outcome, resend.emails.list_attachments(&email, ListOptions::default()));
    let attachment = id(listed.and_then(|list| list.data.into_iter().next()).map(|one| one.id));
    call!(outcome, resend.emails.get_attachment(&email, &attachment));
    let later = id(call!(outcome, resend.emails.send(mail().with_scheduled_at("in 1 day"))).map(|made| made.id));
    call!(outcome, resend.emails.update(&later, UpdateEmailOptions::new().with_scheduled_at("in 2 days")));
    call!(outcome, resend.emails.cancel(&later));
    call!(outcome, resend.batch.send(vec![mail(), mail()]));
    call!(outcome, resend.batch.send_with_batch_validation(vec![mail()], BatchValidation::Permissive));
    call!(outcome, resend.emails.metrics(GetEmailMetricsOptions::default().with_period_dimension()));
    call!(outcome, resend.usage.get());
    let received = call!(outcome, resend.receiving.list(ListOptions::default()));
    let received = id(received.and_then(|list| list.data.into_iter().next()).map(|one| one.id));
    call!(outcome, resend.receiving.get(&received, GetInboundEmailOptions::default()));
    let listed = call!(outcome, resend.receiving.list_attachments(&received, ListOptions::default()));
    let attachment = id(listed.and_then(|list| list.data.into_iter().next()).map(|one| one.id));
    call!(outcome, resend.receiving.get_attachment(&attachment, &received));
    let forward = ForwardReceivingEmail::new(InboundEmailId::new(&received), FROM, ["delivered@resend.dev"]);
    // It sends no other text than the caller's own.
    let forward = forward.with_text("See below.");
    call!(outcome, resend.receiving.forward(forward));
}

async fn templates(resend: &Resend, outcome: &mut Outcome) {
    let fields = CreateTemplateOptions::new("Welcome", "<p>Hello.</p>").with_subject("Hello");
    let template = id(call!(outcome, resend.templates.create(fields)).map(|made| made.id));
    call!(outcome, resend.templates.list(ListOptions::default()));
    call!(outcome, resend.templates.get(&template));
    let change = UpdateTemplateOptions::new("Welcome", "<p>Hello.</p>").with_subject("Welcome");
    call!(outcome, resend.templates.update(&template, change));
    call!(outcome, resend.templates.publish(&template));
    let copy = id(call!(outcome, resend.templates.duplicate(&template)).map(|made| made.id));
    call!(outcome, resend.templates.delete(&copy));
}

async fn events(resend: &Resend, outcome: &mut Outcome) {
    let name = format!("user.created.{}", unique());
    let fields = CreateEventOptions { name: name.clone(), schema: json!({"plan": "string"}) };
    let event = id(call!(outcome, resend.events.create(fields)).map(|made| made.id));
    call!(outcome, resend.events.list(ListOptions::default()));
    call!(outcome, resend.events.get(&name));
    let change = UpdateEventOptions { schema: json!({"plan": "string", "seats": "number"}) };
    call!(outcome, resend.events.update(&event, change));
    let trigger = Step::Trigger { key: "t".into(), config: TriggerStepConfig { event_name: name.clone() } };
    let fields = CreateAutomationOptions {
        name: "Welcome".into(),
        status: AutomationStatus::Enabled,
        steps: vec![trigger],
        connections: Vec::new(),
    };
    let automation = id(call!(outcome, resend.automations.create(fields)).map(|made| made.id));
    call!(outcome, resend.automations.list(ListOptions::default()));
    call!(outcome, resend.automations.get(&automation));
    let contact_id_or_email = ContactIdOrEmail::Email(somebody());
    let happened = SendEventOptions { event: name, contact_id_or_email, payload: json!({"plan": "pro"}) };
    call!(outcome, resend.events.send(happened));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let runs = call!(outcome, resend.automations.list_runs(&automation, None, ListOptions::default()));
    // Its id is a private field.
    let run = runs.and_then(|list| list.data.into_iter().next()).and_then(|run| serde_json::to_value(run).ok());
    let run = id(run.as_ref().and_then(|run| run["id"].as_str()));
    call!(outcome, resend.automations.get_run(&automation, &run));
    let change = UpdateAutomationOptions::new().with_status(AutomationStatus::Disabled);
    call!(outcome, resend.automations.update(&automation, change));
    let copy = id(call!(outcome, resend.automations.duplicate(&automation)).map(|made| made.id));
    call!(outcome, resend.automations.stop(&automation));
    call!(outcome, resend.automations.delete(&copy));
    call!(outcome, resend.events.delete(&event));
}

async fn domains_and_keys(resend: &Resend, outcome: &mut Outcome) {
    let fields = CreateDomainOptions::new(&format!("mail-{}.example.com", unique()));
    let domain = id(call!(outcome, resend.domains.create(fields)).map(|made| made.id));
    call!(outcome, resend.domains.list(ListOptions::default()));
    call!(outcome, resend.domains.get(&domain));
    call!(outcome, resend.domains.update(&domain, DomainChanges::new().with_tls(Tls::Enforced)));
    call!(outcome, resend.domains.verify(&domain));
    call!(outcome, resend.domains.delete(&domain));
    let key = id(call!(outcome, resend.api_keys.create(CreateApiKeyOptions::new("Another"))).map(|made| made.id));
    call!(outcome, resend.api_keys.list(ListOptions::default()));
    call!(outcome, resend.api_keys.update(&key, UpdateApiKeyOptions::new("The other")));
    call!(outcome, resend.api_keys.delete(&key));
    call!(outcome, resend.oauth.list(ListOptions::default()));
    call!(outcome, resend.oauth.revoke(&std::env::var("GRANT").expect("GRANT is set")));
    let logs = call!(outcome, resend.logs.list(ListOptions::default()));
    let log = id(logs.and_then(|list| list.data.into_iter().next()).map(|log| log.id));
    call!(outcome, resend.logs.get(&log));
}

async fn suppressions(resend: &Resend, outcome: &mut Outcome) {
    let email = somebody();
    call!(outcome, resend.suppressions.add(AddSuppressionOptions::new().with_email(&email)));
    call!(outcome, resend.suppressions.list(ListOptions::default()));
    call!(outcome, resend.suppressions.get(&email));
    call!(outcome, resend.suppressions.remove(&email));
    call!(outcome, resend.suppressions.batch_add(BatchAddSuppressionOptions::new().add_email(&email)));
    call!(outcome, resend.suppressions.batch_remove(BatchRemoveSuppressionOptions::new().add_emails([email])));
}

async fn webhooks(resend: &Resend, outcome: &mut Outcome) {
    let endpoint = format!("{}/healthz", std::env::var("RESEND_BASE_URL").expect("RESEND_BASE_URL is set"));
    let fields = CreateWebhookOptions::new(endpoint, [ContactEventType::ContactCreated]);
    let webhook = id(call!(outcome, resend.webhooks.create(fields)).map(|made| made.id));
    call!(outcome, resend.webhooks.list(ListOptions::default()));
    call!(outcome, resend.webhooks.get(&webhook));
    let change = UpdateWebhookOptions::default().with_events([ContactEventType::ContactDeleted]);
    call!(outcome, resend.contacts.create(CreateContactOptions::new(&somebody())));
    call!(outcome, resend.webhooks.update(&webhook, change));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let events = call!(outcome, resend.webhooks.list_events(&webhook, ListOptions::default()));
    let event = id(events.and_then(|list| list.data.into_iter().next()).map(|event| event.id));
    call!(outcome, resend.webhooks.get_event(&webhook, &event));
    call!(outcome, resend.webhooks.list_event_attempts(&webhook, &event, ListOptions::default()));
    call!(outcome, resend.webhooks.replay_event(&webhook, &event));
    call!(outcome, resend.webhooks.rotate_signing_secret(&webhook));
    call!(outcome, resend.webhooks.delete(&webhook));
}

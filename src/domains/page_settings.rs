//! The settings of a domain in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::Domains;
use super::domain::DomainChange;
use super::pages::find;
use super::routes::change;
use super::store::Stored;
use crate::accounts::{Manage, Member};
use crate::config::TransportKind;
use crate::error::Error;
use crate::id::DomainId;
use crate::web::{self, Field, Form, Layout, PageResult, PathId, Shell};

pub fn router() -> Router<Domains> {
    Router::new().route("/domains/{id}/settings", get(ask).post(save))
}

#[derive(Template)]
#[template(path = "domains/settings.html")]
struct SettingsPage {
    layout: Layout,
    shell: Shell,
    name: String,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    return_path: String,
    open_tracking: bool,
    click_tracking: bool,
    sending: bool,
    receiving: bool,
    tls: Field,
    tls_options: Vec<(String, String)>,
    tracking_subdomain: Field,
    transport: Field,
    transport_options: Vec<(String, String)>,
    relays: Field,
    warm_up: Field,
}

fn field(value: impl Into<String>) -> Field {
    Field { value: value.into(), error: None }
}

fn options(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(value, word)| ((*value).to_owned(), (*word).to_owned())).collect()
}

fn purpose(id: DomainId) -> String {
    format!("settings of {id}")
}

fn page(member: &Member<Manage>, domain: &Stored) -> SettingsPage {
    let back = member.address(&format!("/domains/{}", domain.id));
    SettingsPage {
        layout: member.layout(),
        shell: member.shell("/domains"),
        name: domain.name.clone(),
        action: format!("{back}/settings"),
        back,
        hidden: member.hidden(&purpose(domain.id)),
        problem: None,
        return_path: format!("{}.{}", domain.return_path, domain.name),
        open_tracking: domain.open_tracking,
        click_tracking: domain.click_tracking,
        sending: domain.sending,
        receiving: domain.receiving,
        tls: field(&domain.tls),
        tls_options: options(&[
            ("opportunistic", "Encrypted where the other server can"),
            ("enforced", "Encrypted with a right certificate, or not sent"),
        ]),
        tracking_subdomain: field(domain.tracking_subdomain.as_deref().unwrap_or_default()),
        transport: field(domain.transport.map(TransportKind::as_str).unwrap_or_default()),
        transport_options: options(&[
            ("", "As the server sends all mail"),
            ("direct", "Straight to the servers of recipients"),
            ("relay", "Through relays of its own"),
            ("capture", "Not at all: kept here to be looked at"),
        ]),
        // What relays are reached with is secret: it can be replaced, and is not shown.
        relays: Field::default(),
        warm_up: field(domain.warm_up.map(|mails| mails.to_string()).unwrap_or_default()),
    }
}

async fn ask(member: Member<Manage>, id: Result<PathId<DomainId>, Error>) -> PageResult {
    let domain = find(&member, id).await?;
    Ok(web::page(StatusCode::OK, &page(&member, &domain)))
}

/// What was changed, as a request would say it.
fn wish(form: &Form, domain: &Stored) -> Map<String, Value> {
    let mut fields = Map::new();
    let is_ticked = |name: &str| form.text(name) == "on";
    let capability = |name: &str| if is_ticked(name) { "enabled" } else { "disabled" };
    fields.insert("open_tracking".into(), is_ticked("open_tracking").into());
    fields.insert("click_tracking".into(), is_ticked("click_tracking").into());
    fields.insert("tls".into(), form.text("tls").into());
    let capabilities = json!({"sending": capability("sending"), "receiving": capability("receiving")});
    fields.insert("capabilities".into(), capabilities);
    let or_null = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map_or(Value::Null, Value::from);
    fields.insert("tracking_subdomain".into(), or_null(&form.text("tracking_subdomain")));
    let (before, now) = (domain.transport.map(TransportKind::as_str).unwrap_or_default(), form.text("transport"));
    let relays = form.text("relays");
    if now == "relay" && (before != "relay" || !relays.trim().is_empty()) {
        fields.insert("transport".into(), relays.trim().into());
    } else if now != before {
        fields.insert("transport".into(), or_null(&now));
    }
    let warm_up = form.text("warm_up");
    // The same number again would begin a warm-up anew.
    if warm_up.trim() != domain.warm_up.map(|mails| mails.to_string()).unwrap_or_default() {
        let number = warm_up.trim().parse::<u32>().map_or_else(|_| or_null(&warm_up), Value::from);
        fields.insert("warm_up".into(), number);
    }
    fields
}

async fn save(
    State(domains): State<Domains>,
    member: Member<Manage>,
    id: Result<PathId<DomainId>, Error>,
    form: Form,
) -> PageResult {
    let domain = find(&member, id).await?;
    let accepted = member.accept(&purpose(domain.id), &form)?;
    let saving = async {
        let wish: DomainChange = web::read_fields(wish(&form, &domain))?;
        change(&domains, &accepted, domain.id, &wish).await
    };
    let refusal = match saving.await {
        Ok(()) => return Ok(member.see_other(&format!("/domains/{}?saved", domain.id))),
        Err(refusal) if refusal.status().is_client_error() => refusal,
        Err(error) => return Err(error.into()),
    };
    let is_ticked = |name: &str| form.text(name) == "on";
    let mut page = SettingsPage {
        open_tracking: is_ticked("open_tracking"),
        click_tracking: is_ticked("click_tracking"),
        sending: is_ticked("sending"),
        receiving: is_ticked("receiving"),
        tls: field(form.text("tls")),
        tracking_subdomain: field(form.text("tracking_subdomain")),
        transport: field(form.text("transport")),
        relays: field(form.text("relays")),
        warm_up: field(form.text("warm_up")),
        ..page(&member, &domain)
    };
    let fields = [
        ("tls", &mut page.tls),
        ("tracking_subdomain", &mut page.tracking_subdomain),
        ("transport", &mut page.relays),
        ("warm_up", &mut page.warm_up),
    ];
    page.problem = web::beside_field(&refusal, fields);
    Ok(web::page(refusal.status(), &page))
}

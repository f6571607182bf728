//! Domains in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Map, Value};

use super::domain::NewDomain;
use super::page_settings::{SettingsForm, or_null};
use super::records::{DMARC_VALUE, Expected, dmarc_name};
use super::routes::{add, unpublished};
use super::status::{Finding, RecordStatus, Status};
use super::store::{self, Stored};
use super::verification::{DMARC, NAME};
use super::{Domains, page_settings};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::DomainId;
use crate::web::{self, ConfirmPage, Field, Form, Layout, Leaf, Page, PageResult, PathId, RECENT, Shell, Stamp};
use crate::work::Claimable;

pub fn router() -> Router<Domains> {
    Router::new()
        .route("/domains", get(list).post(create))
        .route("/domains/{id}", get(show))
        .route("/domains/{id}/verify", post(verify))
        .route("/domains/{id}/dkim-keys", post(rotate))
        .route("/domains/{id}/delete", get(ask).post(delete))
        .merge(page_settings::router())
}

/// How a status is shown.
struct Badge {
    look: &'static str,
    word: &'static str,
}

impl From<Status> for Badge {
    fn from(status: Status) -> Badge {
        let (look, word) = match status {
            Status::NotStarted => ("bare", "Not looked at yet"),
            Status::Pending => ("off", "Pending"),
            Status::Verified => ("good", "Verified"),
            Status::Failed => ("bad", "Failed"),
            Status::PartiallyVerified => ("good", "Can send; records are missing"),
            Status::PartiallyFailed => ("off", "Can send; records are missing"),
        };
        Badge { look, word }
    }
}

impl From<RecordStatus> for Badge {
    fn from(status: RecordStatus) -> Badge {
        Badge::from(match status {
            RecordStatus::NotStarted => Status::NotStarted,
            RecordStatus::Pending => Status::Pending,
            RecordStatus::Verified => Status::Verified,
            RecordStatus::Failed => Status::Failed,
        })
    }
}

#[derive(Template)]
#[template(path = "domains/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    action: String,
    hidden: Vec<(String, String)>,
    new: NewForm,
    domains: Vec<DomainRow>,
    newer: Option<String>,
    older: Option<String>,
}

/// The domain to come, as it was typed.
#[derive(Default)]
struct NewForm {
    /// What is wrong that belongs to no field.
    problem: Option<String>,
    name: Field,
    custom_return_path: Field,
    settings: SettingsForm,
    /// What is wrong is not the name: the rest is shown at once.
    is_open: bool,
}

impl NewForm {
    fn sent(form: &Form) -> NewForm {
        NewForm {
            name: form.field("name"),
            custom_return_path: form.field("custom_return_path"),
            settings: SettingsForm::sent(form),
            ..NewForm::default()
        }
    }

    /// As a request would say it.
    fn fields(&self) -> Map<String, Value> {
        let mut fields = self.settings.fields(None);
        fields.insert("name".into(), self.name.value.trim().into());
        fields.insert("custom_return_path".into(), or_null(&self.custom_return_path.value));
        fields
    }

    fn refused(mut self, refusal: &Error) -> NewForm {
        if matches!(refusal, Error::DomainRefused { .. }) {
            self.name.error = Some(refusal.message().into_owned());
            return self;
        }
        let own = [("name", &mut self.name), ("custom_return_path", &mut self.custom_return_path)];
        self.problem = self.settings.refuse(refusal, own);
        self.is_open = self.name.error.is_none();
        self
    }
}

struct DomainRow {
    href: String,
    name: String,
    status: Badge,
    created: Stamp,
    checked: Option<Stamp>,
}

#[derive(Template)]
#[template(path = "domains/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    back: String,
    id: DomainId,
    name: String,
    status: Badge,
    /// What keeps the whole name from being verified.
    trouble: Option<String>,
    checked: Option<Stamp>,
    created: Stamp,
    tls: String,
    records: Vec<RecordRow>,
    dmarc: RecordRow,
    acts: Option<Acts>,
}

/// What an owner or admin can do.
struct Acts {
    verify: Act,
    rotate: Act,
    settings: String,
    delete: String,
}

struct Act {
    action: String,
    hidden: Vec<(String, String)>,
}

struct RecordRow {
    record: &'static str,
    kind: &'static str,
    name: String,
    /// What to enter where the provider adds the domain by itself.
    typed: String,
    value: String,
    priority: Option<u16>,
    status: Badge,
    is_right: bool,
    found: Option<String>,
    advice: Option<String>,
}

async fn list(member: Member<Look>) -> PageResult {
    Ok(list_page(&member, StatusCode::OK, &member.page()?, NewForm::default()).await?)
}

async fn list_page<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    page: &Page,
    new: NewForm,
) -> Result<Response, Error> {
    let rows = member.read(store::page(member.workspace_id(), page)).await?;
    let stored: Result<Vec<Stored>, DbError> = rows.iter().map(Stored::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &member.address("/domains"), |domain| domain.id);
    let now = member.app.clock.now();
    let row = |domain: Stored| DomainRow {
        href: member.address(&format!("/domains/{}", domain.id)),
        status: domain.status.into(),
        created: Stamp::ago(domain.created_at, now),
        checked: domain.checked_at.map(|at| Stamp::ago(at, now)),
        name: domain.name,
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/domains"),
        notice: member.notice("deleted", "The domain is deleted."),
        may_manage: member.may_manage(),
        action: member.address("/domains"),
        hidden: member.hidden("create a domain"),
        new,
        domains: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(status, &content))
}

async fn create(State(domains): State<Domains>, member: Member<Manage>, form: Form) -> PageResult {
    let accepted = member.accept("create a domain", &form)?;
    let typed = NewForm::sent(&form);
    let adding = async {
        let new: NewDomain = web::read_fields(typed.fields())?;
        add(&domains, &accepted, &new).await
    };
    // Boxed: making keys holds much that other pages need not have room for.
    match Box::pin(adding).await {
        Ok(id) => Ok(member.see_other(&format!("/domains/{id}?added"))),
        Err(refusal) if refusal.status().is_client_error() => {
            let (status, page) = (StatusCode::UNPROCESSABLE_ENTITY, Page::parse("", RECENT)?);
            Ok(list_page(&member, status, &page, typed.refused(&refusal)).await?)
        }
        Err(error) => Err(error.into()),
    }
}

fn gone() -> Error {
    Error::not_found("There is no such domain here. It may have been deleted already.")
}

pub async fn find<D: Duty>(member: &Member<D>, id: Result<PathId<DomainId>, Error>) -> Result<Stored, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    let rows = member.read(store::by_id(member.workspace_id(), id)).await?;
    Ok(Stored::read(rows.first().ok_or_else(gone)?)?)
}

async fn show(State(domains): State<Domains>, member: Member<Look>, id: Result<PathId<DomainId>, Error>) -> PageResult {
    let domain = find(&member, id).await?;
    let (expected, _) = domains.expected(&domain).await?;
    Ok(web::page(StatusCode::OK, &one(&member, &domain, &expected)))
}

fn one(member: &Member<Look>, domain: &Stored, expected: &[Expected]) -> OnePage {
    let now = member.app.clock.now();
    let act = |path: &str| Act {
        action: member.address(&format!("/domains/{}/{path}", domain.id)),
        hidden: member.hidden(&purpose(path, domain.id)),
    };
    let added = "The domain is added. Set the records below where its DNS is kept, then look whether they are there.";
    OnePage {
        layout: member.layout(),
        shell: member.shell("/domains"),
        notice: member
            .notice("saved", "The settings are changed.")
            .or(member.notice("added", added))
            .or(member.notice("looked", "DNS was looked at."))
            .or(member.notice(
                "rotated",
                "The new keys are made. Set their records; the old keys sign until these are seen.",
            )),
        back: member.address("/domains"),
        id: domain.id,
        name: domain.name.clone(),
        status: domain.status.into(),
        trouble: domain.findings.get(NAME).and_then(|finding| finding.advice.clone()),
        checked: domain.checked_at.map(|at| Stamp::ago(at, now)),
        created: Stamp::ago(domain.created_at, now),
        tls: domain.tls.clone(),
        records: expected.iter().map(|record| record_row(domain, record)).collect(),
        dmarc: dmarc_row(domain),
        acts: member.may_manage().then(|| Acts {
            verify: act("verify"),
            rotate: act("dkim-keys"),
            settings: member.address(&format!("/domains/{}/settings", domain.id)),
            delete: member.address(&format!("/domains/{}/delete", domain.id)),
        }),
    }
}

fn record_row(domain: &Stored, record: &Expected) -> RecordRow {
    RecordRow {
        record: record.purpose.record(),
        kind: record.purpose.kind(),
        value: record.value.clone(),
        priority: record.purpose.priority(),
        ..row(domain, record.name.clone(), &record.key)
    }
}

fn dmarc_row(domain: &Stored) -> RecordRow {
    row(domain, dmarc_name(&domain.name), DMARC)
}

fn row(domain: &Stored, name: String, key: &str) -> RecordRow {
    let finding = domain.findings.get(key);
    let status = finding.map_or(RecordStatus::NotStarted, |finding: &Finding| finding.status);
    let typed = name.strip_suffix(&format!(".{}", domain.name)).unwrap_or("@").to_owned();
    RecordRow {
        record: "DMARC",
        kind: "TXT",
        typed,
        name,
        value: DMARC_VALUE.into(),
        priority: None,
        // What is missing may still come; what says something else has to be changed.
        status: match finding {
            Some(Finding { status: RecordStatus::Pending, found: Some(_), .. }) => Badge { look: "bad", word: "Wrong" },
            _ => status.into(),
        },
        is_right: status == RecordStatus::Verified && finding.is_some_and(|finding| finding.advice.is_none()),
        found: finding.and_then(|finding| finding.found.clone()),
        advice: finding.and_then(|finding| finding.advice.clone()),
    }
}

fn purpose(act: &str, id: DomainId) -> String {
    format!("{act} {id}")
}

async fn verify(
    State(domains): State<Domains>,
    member: Member<Manage>,
    id: Result<PathId<DomainId>, Error>,
    form: Form,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose("verify", id), &form)?;
    let now = domains.app.clock.steady();
    let begin = store::begin(member.workspace_id(), id, now + Stored::LEASE, now);
    let effects = accepted.commit(begin.into()).await?.or_missing(gone)?;
    let begun = effects.first().and_then(|effect| effect.rows.first()).ok_or(Error::Internal)?;
    Box::pin(domains.check_begun(Stored::read(begun)?)).await?;
    Ok(member.see_other(&format!("/domains/{id}?looked")))
}

async fn rotate(
    State(domains): State<Domains>,
    member: Member<Manage>,
    id: Result<PathId<DomainId>, Error>,
    form: Form,
) -> PageResult {
    let domain = find(&member, id).await?;
    let accepted = member.accept(&purpose("dkim-keys", domain.id), &form)?;
    let _turn = domains.turn(member.workspace_id()).await;
    let batch = Box::pin(domains.prepare_rotation(member.workspace_id(), domain.id)).await?.ok_or_else(unpublished)?;
    match accepted.commit(batch).await? {
        Err(DbError::Duplicate(_)) => return Err(unpublished().into()),
        settled => settled.or_missing(gone)?,
    };
    Ok(member.see_other(&format!("/domains/{}?rotated", domain.id)))
}

async fn ask(member: Member<Manage>, id: Result<PathId<DomainId>, Error>) -> PageResult {
    let domain = find(&member, id).await?;
    let path = format!("/domains/{}", domain.id);
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/domains"),
        title: "Delete this domain?".into(),
        subject: domain.name.clone(),
        sentence: "Its keys sign nothing more, API keys that are held to it end with it, and anybody can add \
                   the name anew. This cannot be undone."
            .into(),
        action: member.address(&format!("{path}/delete")),
        hidden: member.hidden(&purpose("delete", domain.id)),
        button: "Delete".into(),
        cancel: member.address(&path),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(
    State(domains): State<Domains>,
    member: Member<Manage>,
    id: Result<PathId<DomainId>, Error>,
    form: Form,
) -> PageResult {
    let domain = find(&member, id).await?;
    let accepted = member.accept(&purpose("delete", domain.id), &form)?;
    accepted.commit(domains.deletion(&domain)).await?.or_missing(gone)?;
    Ok(member.see_other("/domains?deleted"))
}

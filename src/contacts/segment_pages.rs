//! Segments in the dashboard. Who is in one is a matter of contacts, so its pages are here.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;

use super::page_one::declared;
use super::pages::{people, whole_name};
use super::rule_page;
use super::rule_rows::Editor;
use super::shapes::Item;
use super::store;
use crate::accounts::{Duty, Look, Manage, Member};
use crate::db::DbError;
use crate::error::Error;
use crate::id::SegmentId;
use crate::occurrences::Occurrences;
use crate::segments::{self, SegmentChange, SegmentName};
use crate::text::grouped;
use crate::web::{
    self, Change, ConfirmPage, Field, Form, Layout, Leaf, Page, PageResult, PathId, RECENT, Shell, Stamp,
};

pub fn router() -> Router<Occurrences> {
    Router::new()
        .route("/segments", get(list).post(create))
        .route("/segments/new", get(rule_page::blank).post(rule_page::create))
        .route("/segments/{id}", get(show))
        .route("/segments/{id}/rename", post(rename))
        .route("/segments/{id}/rules", get(rule_page::edit).post(rule_page::save))
        .route("/segments/{id}/rules/clear", get(rule_page::ask_to_clear))
        .route("/segments/{id}/delete", get(ask).post(delete))
}

const CREATE: &str = "create segment";

#[derive(Template)]
#[template(path = "segments/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    hidden: Vec<(String, String)>,
    segment_name: Field,
    segments: Vec<SegmentRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct SegmentRow {
    href: String,
    name: String,
    fills_itself: bool,
    count: String,
}

#[derive(Template)]
#[template(path = "segments/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    address: String,
    id: SegmentId,
    name: String,
    count: String,
    fills_itself: bool,
    is_filling: bool,
    /// The rules as rows, and as JSON where rows cannot say them.
    editor: Option<Editor>,
    rename_hidden: Vec<(String, String)>,
    new_name: Field,
    members: Vec<MemberRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct MemberRow {
    href: String,
    email: String,
    name: String,
    unsubscribed: bool,
    created: Stamp,
}

pub fn gone() -> Error {
    Error::not_found("There is no such segment here. It may have been deleted already.")
}

async fn list(member: Member<Look>) -> PageResult {
    Ok(list_page(&member, StatusCode::OK, &member.page()?, Field::default()).await?)
}

async fn list_page<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    page: &Page,
    segment_name: Field,
) -> Result<Response, Error> {
    let rows = member.read(segments::page(member.workspace_id(), page)).await?;
    let ids: Vec<SegmentId> = rows.iter().map(|row| row.id(0)).collect::<Result<_, DbError>>()?;
    let Leaf { items, newer, older } = page.leaf(ids, &member.address("/segments"), |id| *id);
    let mut shown = Vec::new();
    for id in items {
        let detail = segments::detail(member, id).await?;
        shown.push(SegmentRow {
            href: member.address(&format!("/segments/{id}")),
            fills_itself: detail.filter.is_some(),
            count: grouped(detail.contacts_count),
            name: detail.item.name,
        });
    }
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/segments"),
        notice: member.notice("deleted", "The segment is deleted. Its contacts stay."),
        may_manage: member.may_manage(),
        hidden: member.hidden_making(CREATE, member.app.clock.ordered_id::<SegmentId>()),
        segment_name,
        segments: shown,
        newer,
        older,
    };
    Ok(web::page(status, &content))
}

async fn create(State(app): State<Occurrences>, member: Member<Manage>, form: Form) -> PageResult {
    let (id, accepted) = member.accept_making(CREATE, &form)?;
    let given = form.text("name");
    match SegmentName::try_from(given.trim().to_owned()) {
        Ok(name) => {
            segments::create(&accepted, &app, (id, &name), None).await?;
            Ok(member.see_other(&format!("/segments/{id}?created")))
        }
        Err(wrong) => {
            let name = Field { value: given, error: Some(format!("The `name` field {wrong}.")) };
            Ok(list_page(&member, StatusCode::UNPROCESSABLE_ENTITY, &Page::parse("", RECENT)?, name).await?)
        }
    }
}

async fn show(member: Member<Look>, id: Result<PathId<SegmentId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    Ok(one(&member, StatusCode::OK, &member.page()?, id, None).await?)
}

async fn one<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    page: &Page,
    id: SegmentId,
    new_name: Option<Field>,
) -> Result<Response, Error> {
    let detail = segments::detail(member, id).await?;
    let address = member.address(&format!("/segments/{id}"));
    let rows = member.read(store::page_in_segment(member.workspace_id(), id, page)).await?;
    let contacts: Result<Vec<Item>, DbError> = rows.iter().map(Item::read).collect();
    let Leaf { items, newer, older } = page.leaf(contacts?, &address, |contact| contact.id);
    let now = member.app.clock.now();
    let row = |contact: Item| MemberRow {
        href: member.address(&format!("/contacts/{}", contact.id)),
        name: whole_name(contact.first_name, contact.last_name),
        unsubscribed: contact.unsubscribed,
        created: Stamp::ago(contact.created_at.0, now),
        email: contact.email,
    };
    let editor = match &detail.filter {
        Some(filter) => Some(Editor::of(member, filter, &declared(member).await?).await?),
        None => None,
    };
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/segments"),
        notice: member
            .notice("created", "The segment is made.")
            .or(member.notice("renamed", "The segment has its new name."))
            .or(member.notice("saved", "The rules are saved. The segment follows them in a moment."))
            .filter(|_| status == StatusCode::OK),
        may_manage: member.may_manage(),
        address,
        id,
        count: grouped(detail.contacts_count),
        fills_itself: detail.filter.is_some(),
        is_filling: detail.filling,
        editor,
        rename_hidden: member.hidden(&format!("rename segment {id}")),
        new_name: new_name.unwrap_or_else(|| Field::of(detail.item.name.clone())),
        name: detail.item.name,
        members: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(status, &content))
}

async fn rename(
    State(app): State<Occurrences>,
    member: Member<Manage>,
    id: Result<PathId<SegmentId>, Error>,
    form: Form,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&format!("rename segment {id}"), &form)?;
    let given = form.text("name");
    match SegmentName::try_from(given.trim().to_owned()) {
        Ok(name) => {
            let change = SegmentChange { name: Some(name), filter: Change(None) };
            segments::change(&accepted, &app, id, change).await?;
            Ok(member.see_other(&format!("/segments/{id}?renamed")))
        }
        Err(wrong) => {
            let name = Field { value: given, error: Some(format!("The `name` field {wrong}.")) };
            let page = Page::parse("", RECENT)?;
            Ok(one(&member, StatusCode::UNPROCESSABLE_ENTITY, &page, id, Some(name)).await?)
        }
    }
}

async fn ask(member: Member<Manage>, id: Result<PathId<SegmentId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let detail = segments::detail(&member, id).await?;
    let address = member.address(&format!("/segments/{id}"));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/segments"),
        title: "Delete this segment?".into(),
        subject: detail.item.name,
        sentence: format!(
            "{} in it. Contacts stay, and stay in their other segments. Broadcasts that are still to go to it \
             have nobody to go to. This cannot be undone.",
            people(detail.contacts_count)
        ),
        action: format!("{address}/delete"),
        hidden: member.hidden(&format!("delete segment {id}")),
        button: "Delete".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Result<PathId<SegmentId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&format!("delete segment {id}"), &form)?;
    segments::delete(&accepted, id).await?;
    Ok(member.see_other("/segments?deleted"))
}

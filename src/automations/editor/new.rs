//! The page on which a new automation begins.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::ready_made::ReadyMade;
use super::store::{self, Edit};
use crate::accounts::{Manage, Member};
use crate::app::App;
use crate::db::DbError;
use crate::id::AutomationId;
use crate::mime::Mailbox;
use crate::web::{self, Field, Form, Layout, PageResult, Shell};

pub fn router() -> Router<App> {
    Router::new().route("/automations/new", get(show).post(create))
}

#[derive(Template)]
#[template(path = "automations/new.html")]
struct NewPage {
    layout: Layout,
    shell: Shell,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    start: String,
    from: Field,
}

const MAKE: &str = "create automation";

async fn show(member: Member<Manage>) -> PageResult {
    let id = member.app.clock.ordered_id();
    let from = Field::of(member.session.email.clone());
    let start = member.asked("start").unwrap_or_else(|| "empty".into());
    Ok(new_page(&member, StatusCode::OK, id, (start, from)))
}

fn new_page(member: &Member<Manage>, status: StatusCode, id: AutomationId, (start, from): (String, Field)) -> Response {
    let content = NewPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        back: member.address("/automations"),
        action: member.address("/automations/new"),
        hidden: member.hidden_making(MAKE, id),
        start,
        from,
    };
    web::page(status, &content)
}

async fn create(member: Member<Manage>, form: Form) -> PageResult {
    let (id, accepted): (AutomationId, _) = member.accept_making(MAKE, &form)?;
    let (start, mut from) = (form.text("start"), form.field("from"));
    from.error = from.value.parse::<Mailbox>().err().map(|flaw| format!("The address {flaw}."));
    let Some(chosen) = ReadyMade::named(&start).filter(|_| from.error.is_none()) else {
        return Ok(new_page(&member, StatusCode::UNPROCESSABLE_ENTITY, id, (start, from)));
    };
    let (workspace_id, author_id) = (member.workspace_id(), member.session.user_id);
    let edit = Edit { workspace_id, id, author_id, now: member.app.clock.now() };
    match accepted.commit(store::begin(edit, &chosen.contents(&from.value))).await? {
        Ok(_) | Err(DbError::Duplicate(_)) => Ok(member.see_other(&format!("/automations/{id}/edit?new"))),
        Err(error) => Err(error.into()),
    }
}

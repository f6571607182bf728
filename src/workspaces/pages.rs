//! What a workspace has settled, in the dashboard.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::settings::{BulkCap, Workspace, WorkspaceChange};
use super::store;
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::error::Error;
use crate::web::{self, Change, Field, Form, Layout, PageResult, Shell};
use crate::windows::Zone;

const PURPOSE: &str = "change the settings";

pub fn router() -> Router<App> {
    Router::new().route("/settings", get(show).post(update))
}

#[derive(Template)]
#[template(path = "workspaces/settings.html")]
struct SettingsPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    action: String,
    hidden: Vec<(String, String)>,
    fields: Fields,
}

struct Fields {
    timezone: Field,
    mails: Field,
    hours: Field,
}

impl Fields {
    /// As they were typed.
    fn of(form: &Form) -> Fields {
        Fields { timezone: form.field("timezone"), mails: form.field("mails"), hours: form.field("hours") }
    }

    /// What they ask for; `None` where something is wrong, which is then said beside it.
    fn read(&mut self) -> Option<WorkspaceChange> {
        let zone = Zone::named(&self.timezone.value);
        if zone.is_none() {
            self.timezone.error = Some("This is not the name of a time zone, such as Europe/Berlin.".into());
        }
        let number = |field: &Field| field.value.trim().parse::<i64>().unwrap_or(-1);
        let cap = match (number(&self.mails), number(&self.hours)) {
            (0, _) => Some(None),
            (mails, hours) => BulkCap::new(mails, hours).ok().map(Some),
        };
        if cap.is_none() {
            self.mails.error = Some("Allowed are 1 to 1000 mails in 1 to 720 hours, or 0 mails for no limit.".into());
        }
        Some(WorkspaceChange { timezone: Some(zone?), bulk_cap: Change(Some(cap?)) })
    }
}

async fn show(member: Member<Look>) -> PageResult {
    let gone = || Error::not_found("There is no such workspace any more.");
    let rows = member.read(store::by_id(member.workspace_id())).await?;
    let Workspace { timezone, bulk_cap, .. } = Workspace::read(rows.first().ok_or_else(gone)?)?;
    let fields = Fields {
        timezone: Field::of(timezone.name().to_owned()),
        mails: Field::of(bulk_cap.map_or(0, |cap| cap.mails).to_string()),
        hours: Field::of(bulk_cap.map_or(24, |cap| cap.hours).to_string()),
    };
    Ok(settings_page(&member, StatusCode::OK, fields))
}

fn settings_page<D: Duty>(member: &Member<D>, status: StatusCode, fields: Fields) -> Response {
    let content = SettingsPage {
        layout: member.layout(),
        shell: member.shell("/settings"),
        notice: member.notice("saved", "The settings are saved."),
        may_manage: member.may_manage(),
        action: member.address("/settings"),
        hidden: member.hidden(PURPOSE),
        fields,
    };
    web::page(status, &content)
}

async fn update(member: Member<Manage>, form: Form) -> PageResult {
    let accepted = member.accept(PURPOSE, &form)?;
    let mut fields = Fields::of(&form);
    let Some(changes) = fields.read() else {
        return Ok(settings_page(&member, StatusCode::UNPROCESSABLE_ENTITY, fields));
    };
    let steady = member.app.clock.steady();
    accepted.commit(store::change(member.workspace_id(), &changes, steady)).await??;
    Ok(member.see_other("/settings?saved"))
}

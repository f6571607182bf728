//! How a workspace shows itself to the people it writes to, in the dashboard.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value};

use super::branding::{self, Branding, BrandingChange};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::error::Error;
use crate::web::{self, Field, Form, Layout, PageResult, Shell, field_of};

const PURPOSE: &str = "change the branding";

pub fn router() -> Router<App> {
    Router::new().route("/branding", get(show).post(change))
}

#[derive(Template)]
#[template(path = "subscriptions/branding.html")]
struct BrandingPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    action: String,
    hidden: Vec<(String, String)>,
    shown_name: Field,
    shown_color: Field,
}

async fn show(member: Member<Look>) -> PageResult {
    let Branding { name, color, .. } = branding::find(&member).await?;
    Ok(page(&member, StatusCode::OK, Field::of(name), Field::of(color.unwrap_or_default())))
}

fn page<D: Duty>(member: &Member<D>, status: StatusCode, name: Field, color: Field) -> Response {
    let content = BrandingPage {
        layout: member.layout(),
        shell: member.shell("/settings"),
        notice: member.notice("saved", "The pages look like this from now on."),
        may_manage: member.may_manage(),
        action: member.address("/branding"),
        hidden: member.hidden(PURPOSE),
        shown_name: name,
        shown_color: color,
    };
    web::page(status, &content)
}

async fn change(member: Member<Manage>, form: Form) -> PageResult {
    let accepted = member.accept(PURPOSE, &form)?;
    let given = |field: &str| Some(form.text(field).trim().to_owned()).filter(|text| !text.is_empty());
    let changes = ["name", "color"].map(|field| (field.to_owned(), given(field).map_or(Value::Null, Value::from)));
    let saved = async {
        let changes: BrandingChange = web::read_fields(Map::from_iter(changes))?;
        branding::save(&accepted, &changes).await
    };
    let Err(error) = saved.await else { return Ok(member.see_other("/branding?saved")) };
    let Error::Invalid { .. } = error else { return Err(error.into()) };
    let wrong = field_of(&error);
    let field = |name: &str| {
        let error = (wrong.as_deref() == Some(name)).then(|| error.message().into_owned());
        Field { value: form.text(name), error }
    };
    Ok(page(&member, StatusCode::UNPROCESSABLE_ENTITY, field("name"), field("color")))
}

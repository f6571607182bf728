//! What strangers see of a form: itself, that they are asked, and where they confirm. GET changes
//! nothing.

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};

use super::form::{Form, TRAP};
use super::{Forms, signup};
use crate::contacts::Email;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::subscriptions::{Frame, problem};
use crate::web::{self, Field, Params, Sender};

/// No form of ours is larger.
const LIMIT: usize = 64 << 10;

pub fn router() -> Router<Forms> {
    Router::new()
        .route("/subscribe/{form}", get(show).post(take))
        .route("/subscribe/confirm/{token}", get(ask).post(confirm))
}

#[derive(Template)]
#[template(path = "forms/form.html")]
struct FormPage {
    frame: Frame,
    heading: String,
    text: Option<String>,
    email: Field,
    trap: &'static str,
}

/// What happened, in a few words.
#[derive(Template)]
#[template(path = "forms/done.html")]
struct DonePage {
    frame: Frame,
    title: &'static str,
    sentence: String,
}

#[derive(Template)]
#[template(path = "forms/confirm.html")]
struct ConfirmPage {
    frame: Frame,
}

async fn show(State(forms): State<Forms>, Path(id): Path<String>) -> Response {
    let shown = async {
        let (workspace_id, form) = open(&forms, &id).await?;
        let frame = Frame::of(&forms, workspace_id).await?;
        Ok(web::page(StatusCode::OK, &form_page(frame, form, Field::default())))
    };
    shown.await.unwrap_or_else(|error| problem(&forms, &error))
}

/// The answer is the same whether the address is known or not, and whether it is asked or was.
async fn take(
    State(forms): State<Forms>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let taken = async {
        forms.limits.by_address.check(sender)?;
        let body = web::read_body(&headers, body, LIMIT).await?;
        let (workspace_id, form) = open(&forms, &id).await?;
        let frame = Frame::of(&forms, workspace_id).await?;
        let params = Params::parse(&body);
        let given = params.text("email").map(|text| text.trim().to_owned()).unwrap_or_default();
        let Some(email) = Email::read(&given) else {
            let error = Some("This is not an e-mail address. Write it as name@example.com.".into());
            let field = Field { value: given.chars().take(254).collect(), error };
            return Ok(web::page(StatusCode::UNPROCESSABLE_ENTITY, &form_page(frame, form, field)));
        };
        if params.text(TRAP).is_err() {
            ask_by_mail(&forms, (workspace_id, &form), &frame.name, email).await?;
        }
        let sentence = "We have sent you a link. Open it and confirm: only then do you get e-mail.".into();
        Ok(web::page(StatusCode::OK, &DonePage { frame, title: "Look into your mail", sentence }))
    };
    taken.await.unwrap_or_else(|error| problem(&forms, &error))
}

/// What is wrong with the workspace's sender is nothing that a stranger could mend.
async fn ask_by_mail(forms: &Forms, form: (WorkspaceId, &Form), name: &str, email: Email) -> Result<(), Error> {
    match signup::ask(forms, form, (name, email)).await {
        Err(error) if error.status() == StatusCode::FORBIDDEN => {
            tracing::warn!(form = %form.1.id, error = %error.message(), "a form cannot send its mail");
            Err(Error::Unavailable)
        }
        asked => asked,
    }
}

async fn ask(State(forms): State<Forms>, Path(token): Path<String>) -> Response {
    let shown = async {
        let (signup, _) = signup::asked(&forms, &token).await?.ok_or_else(ended)?;
        let frame = Frame::of(&forms, signup.workspace_id).await?;
        Ok(match signup.is_confirmed {
            true => web::page(StatusCode::OK, &subscribed(frame)),
            false => web::page_leading_away(StatusCode::OK, &ConfirmPage { frame }),
        })
    };
    shown.await.unwrap_or_else(|error| problem(&forms, &error))
}

async fn confirm(State(forms): State<Forms>, Path(token): Path<String>) -> Response {
    let confirmed = async {
        let (signup, form) = signup::asked(&forms, &token).await?.ok_or_else(ended)?;
        signup::confirm(&forms, &signup, &form).await?;
        if let Some(url) = form.redirect_url {
            return Ok((StatusCode::SEE_OTHER, [(LOCATION, url)]).into_response());
        }
        Ok(web::page(StatusCode::OK, &subscribed(Frame::of(&forms, signup.workspace_id).await?)))
    };
    confirmed.await.unwrap_or_else(|error| problem(&forms, &error))
}

fn form_page(frame: Frame, form: Form, email: Field) -> FormPage {
    let heading = form.heading.unwrap_or_else(|| format!("E-mail from {}", frame.name));
    FormPage { frame, heading, text: form.text, email, trap: TRAP }
}

fn subscribed(frame: Frame) -> DonePage {
    let sentence = "Every e-mail has a link with which you end it.".into();
    DonePage { frame, title: "You are subscribed", sentence }
}

/// A form that strangers can use. One that is off is not there for them.
async fn open(forms: &Forms, id: &str) -> Result<(WorkspaceId, Form), Error> {
    let gone = || Error::not_found("There is no form at this address, or it is not in use.");
    let found = signup::find(forms, id.parse().map_err(|_| gone())?).await?;
    found.filter(|(_, form)| form.enabled).ok_or_else(gone)
}

fn ended() -> Error {
    Error::not_found("It has ended, or was not copied whole. Fill in the form once more to get another.")
}

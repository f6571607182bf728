//! What belongs to a person: the browsers that are signed in, and the ways to prove who one is.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;

use super::member::{Look, Member};
use super::{Accounts, second_factor};
use crate::audit;
use crate::auth::{self, ListedSession};
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::web::{self, ConfirmPage, Form, Layout, PageResult, Shell, Stamp};

const END_OTHERS: &str = "end other sessions";

pub fn router() -> Router<Accounts> {
    Router::new()
        .route("/account", get(show))
        .route("/account/sessions/end", post(end))
        .route("/account/sessions/end-others", get(ask_to_end_others).post(end_others))
}

#[derive(Template)]
#[template(path = "accounts/account.html")]
struct AccountPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    password_url: String,
    has_second_factor: bool,
    second_factor_url: String,
    sessions: Vec<SessionRow>,
    end: String,
    end_others_url: String,
}

struct SessionRow {
    is_this: bool,
    browser: String,
    address: String,
    began: Stamp,
    seen: Stamp,
    hidden: Vec<(String, String)>,
}

async fn show(member: Member<Look>) -> PageResult {
    let sessions = auth::sessions_of(&member.app.db, member.session.user_id).await?;
    let notices = [
        ("ended", "That browser is signed out."),
        ("ended-others", "Every other browser is signed out."),
        ("second-factor-removed", "The second factor is turned off. Your password alone logs you in."),
    ];
    let notice = notices.into_iter().find_map(|(done, sentence)| member.notice(done, sentence));
    let content = AccountPage {
        layout: member.layout(),
        shell: member.shell("/account"),
        notice,
        password_url: member.address("/password"),
        has_second_factor: second_factor::in_force(&member.app.db, member.session.user_id).await?.is_some(),
        second_factor_url: member.address("/account/second-factor"),
        sessions: sessions.into_iter().map(|session| row(&member, session)).collect(),
        end: member.address("/account/sessions/end"),
        end_others_url: member.address("/account/sessions/end-others"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn row(member: &Member<Look>, listed: ListedSession) -> SessionRow {
    let now = member.app.clock.now();
    let name = URL_SAFE_NO_PAD.encode(&listed.hash);
    let mut hidden = member.hidden(&purpose(&name));
    hidden.push(("session".into(), name));
    SessionRow {
        is_this: listed.hash == member.session.hash,
        browser: listed.agent.as_deref().map_or("not known".into(), browser),
        address: listed.address.unwrap_or_else(|| "not known".into()),
        began: Stamp::ago(listed.created_at, now),
        seen: Stamp::ago(listed.seen_at, now),
        hidden,
    }
}

fn purpose(name: &str) -> String {
    format!("end session {name}")
}

/// What a browser is, from what it says of itself.
fn browser(agent: &str) -> String {
    let find =
        |known: &[(&str, &'static str)]| known.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name);
    let program = find(&[
        ("Firefox/", "Firefox"),
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("Chrom", "Chrome"),
        ("Safari/", "Safari"),
    ]);
    let system = find(&[
        ("Windows", "Windows"),
        ("Android", "Android"),
        ("iPhone", "iOS"),
        ("iPad", "iOS"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (program, system) {
        (Some(program), Some(system)) => format!("{program} on {system}"),
        (Some(program), None) => program.into(),
        _ => agent.split([' ', '/']).next().filter(|word| !word.is_empty()).unwrap_or("not known").to_owned(),
    }
}

async fn end(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let name = form.text("session");
    let gone = || Error::not_found("That browser is signed out already.");
    let hash = URL_SAFE_NO_PAD.decode(&name).map_err(|_| gone())?;
    if hash == member.session.hash {
        let message = "This is the browser that you are in. Use “Sign out”.".into();
        return Err(Error::Conflict { message }.into());
    }
    let user_id = member.session.user_id;
    let note = audit::note_of_user(user_id, &app.clock, &member.entry("session.ended", None, &member.session.email));
    let batch = Batch::from(auth::delete_session_of(user_id, hash)).and(note);
    match member.commit_own(&purpose(&name), &form, batch).await? {
        Ok(_) => Ok(member.see_other("/account?ended")),
        Err(DbError::Unexpected { .. }) => Err(gone().into()),
        Err(error) => Err(error.into()),
    }
}

async fn ask_to_end_others(member: Member<Look>) -> PageResult {
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/account"),
        title: "Sign out everywhere else?".into(),
        subject: member.session.email.clone(),
        sentence:
            "Every browser but this one has to log in again; what was typed there and not sent is lost. API keys \
                   and connected apps go on."
                .into(),
        action: member.address("/account/sessions/end-others"),
        hidden: member.hidden(END_OTHERS),
        button: "Sign out".into(),
        cancel: member.address("/account"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn end_others(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let user_id = member.session.user_id;
    let entry = member.entry("session.others_ended", None, &member.session.email);
    let batch = Batch::from(auth::delete_other_sessions(user_id, &member.session.hash))
        .and(audit::note_of_user(user_id, &app.clock, &entry));
    member.commit_own(END_OTHERS, &form, batch).await??;
    Ok(member.see_other("/account?ended-others"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_told_in_two_words() {
        for (agent, words) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36",
                "Chrome on Windows",
            ),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari on iOS"),
            ("curl/8.9.1", "curl"),
            ("", "not known"),
        ] {
            assert_eq!(browser(agent), words);
        }
    }
}

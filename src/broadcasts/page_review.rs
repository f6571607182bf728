//! What is looked at before a broadcast is sent: whom it goes to, what they get, and what keeps it from being sent.

use askama::Template;
use axum::Router;
use axum::extract::State as Shared;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::Map;

use super::actions::send_by_form;
use super::broadcast::{Broadcast, Content};
use super::content::{self, Prepared};
use super::count::{Counted, Reach};
use super::page_edit::{draft, window_words};
use super::pages::{find, gone};
use super::{Broadcasts, store};
use crate::accounts::{Look, Manage, Member};
use crate::emails::{self, MailForm, NewEmail, Origin};
use crate::error::Error;
use crate::id::{BroadcastId, EmailId};
use crate::mime::Mailbox;
use crate::segments;
use crate::topics;
use crate::web::{self, Field, Form, Layout, PageResult, PathId, Shell};

pub fn router() -> Router<Broadcasts> {
    Router::new()
        .route("/broadcasts/{id}/review", get(review))
        .route("/broadcasts/{id}/send", post(send))
        .route("/broadcasts/{id}/test", post(test))
        .route("/broadcasts/{id}/html", get(html))
}

type Id = Result<PathId<BroadcastId>, Error>;

#[derive(Template)]
#[template(path = "broadcasts/review.html")]
struct ReviewPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    /// What keeps it from being sent.
    problem: Option<String>,
    name: String,
    back: String,
    edit: String,
    facts: Vec<(&'static str, String)>,
    count: String,
    is_counting: bool,
    left_out: Vec<(&'static str, i64)>,
    subject: Option<String>,
    width: &'static str,
    widths: Vec<(&'static str, String, &'static str)>,
    frame: Option<String>,
    text: Option<String>,
    send_action: String,
    send_hidden: Vec<(String, String)>,
    scheduled_at: Field,
    test_action: String,
    test_hidden: Vec<(String, String)>,
    to: Field,
}

/// What was typed on the page.
struct Typed {
    scheduled_at: Field,
    to: Field,
}

fn purpose(act: &str, id: BroadcastId) -> String {
    format!("{act} broadcast {id}")
}

fn testing(id: BroadcastId) -> String {
    format!("test broadcast {id} with")
}

async fn review(member: Member<Manage>, Shared(broadcasts): Shared<Broadcasts>, id: Id) -> PageResult {
    let (broadcast, version) = draft(&member, id).await?;
    let to = Field::of(member.session.email.clone());
    let typed = Typed { scheduled_at: Field::default(), to };
    page(&member, &broadcasts, (&broadcast, version), typed, StatusCode::OK).await
}

async fn page(
    member: &Member<Manage>,
    broadcasts: &Broadcasts,
    (broadcast, version): (&Broadcast, i64),
    typed: Typed,
    status: StatusCode,
) -> PageResult {
    let (id, content) = (broadcast.id, &broadcast.content);
    let counted = broadcasts.count_audience(broadcast, version).await?;
    let workspace_id = member.workspace_id();
    let prepared = match content::prepare(broadcasts, workspace_id, content).await {
        Ok(prepared) => Ok(prepared),
        Err(refusal) if refusal.status().is_client_error() => Err(refusal),
        Err(error) => return Err(error.into()),
    };
    let problem = match &prepared {
        Err(refusal) => Some(refusal.message().into_owned()),
        Ok(_) => match content::check_sendable(broadcasts, workspace_id, None, content).await {
            Ok(()) => None,
            Err(refusal) if refusal.status().is_client_error() => Some(refusal.message().into_owned()),
            Err(error) => return Err(error.into()),
        },
    };
    let (subject, has_html, text) = match prepared {
        Ok(Prepared { sample: (subject, html, text), .. }) => (Some(subject), html.is_some(), text),
        Err(_) => (None, false, None),
    };
    let here = member.address(&format!("/broadcasts/{id}"));
    let mail: EmailId = member.app.clock.ordered_id();
    let content = ReviewPage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        notice: member.notice("saved", "The draft is saved.").or(member.notice("tested", "The test is on its way.")),
        problem,
        name: content.name.clone(),
        edit: format!("{here}/edit"),
        facts: facts(member, content).await?,
        count: sentence(member, broadcast, &counted).await?,
        is_counting: counted.progress == Reach::Going,
        left_out: left_out(&counted),
        subject,
        width: match member.asked("width").as_deref() {
            Some("phone") => "phone",
            Some("desktop") => "desktop",
            _ => "fit",
        },
        widths: [("As wide as here", "fit"), ("Phone, 390 px", "phone"), ("Desktop, 1280 px", "desktop")]
            .map(|(word, key)| (word, format!("{here}/review?width={key}#shown"), key))
            .into(),
        frame: has_html.then(|| format!("{here}/html")),
        text: text.filter(|_| !has_html),
        send_action: format!("{here}/send"),
        send_hidden: member.hidden(&purpose("send", id)),
        scheduled_at: typed.scheduled_at,
        test_action: format!("{here}/test"),
        test_hidden: member.hidden_making(&testing(id), mail),
        to: typed.to,
        back: here,
    };
    Ok(web::page_framing(status, &content))
}

async fn facts(member: &Member<Manage>, content: &Content) -> Result<Vec<(&'static str, String)>, Error> {
    let name = |all: Vec<(uuid::Uuid, String)>, id: &str| {
        all.into_iter().find(|(one, _)| one.to_string() == id).map(|(_, name)| name)
    };
    let workspace_id = member.workspace_id();
    let segments = member.query(segments::names(workspace_id)).await?;
    let topic = match content.topic_id {
        Some(id) => name(member.query(topics::choices(workspace_id)).await?, &id.to_string()),
        None => None,
    };
    let template = content.template.as_ref().map(|used| used.id.clone());
    let within = content.timing.send_within_hours.map(|hours| format!("within {} hours", hours.0));
    let all = [
        ("From", Some(content.sender.clone())),
        ("Reply to", Some(content.reply_to.join(", "))),
        ("Segment", name(segments, &content.segment_id.to_string())),
        ("Topic", topic),
        ("Template", template),
        ("Hours", window_words(content.timing.send_window.as_ref())),
        ("Ends", within),
    ];
    let known = all.into_iter().filter_map(|(label, value)| Some((label, value?)));
    Ok(known.filter(|(_, value)| !value.is_empty()).collect())
}

async fn sentence(member: &Member<Manage>, broadcast: &Broadcast, counted: &Counted) -> Result<String, Error> {
    let mails = match counted.recipients {
        1 => "1 mail".to_owned(),
        count => format!("{count} mails"),
    };
    if counted.progress == Reach::Complete {
        return Ok(format!("{mails} would be sent now."));
    }
    let segment_id = broadcast.content.segment_id;
    let members: Option<i64> = member.query(segments::count(member.workspace_id(), segment_id)).await?;
    let members = members.unwrap_or_default();
    Ok(match counted.progress {
        Reach::Going => format!("{mails} so far: {members} contacts of the segment are being counted."),
        _ => format!("More than {mails}: the segment has {members} contacts."),
    })
}

fn left_out(counted: &Counted) -> Vec<(&'static str, i64)> {
    let word = |reason: &str| match reason {
        "unsubscribed" => "want no mail at all",
        "opted_out" => "want no mail about this topic",
        "suppressed" => "are on the suppression list",
        "duplicate" => "have the address of another",
        _ => "have no address that mail can be sent to",
    };
    counted.left_out.iter().map(|(reason, count)| (word(reason), *count)).collect()
}

/// What somebody gets of whom only the address is known, where it can do nothing.
async fn html(member: Member<Look>, Shared(broadcasts): Shared<Broadcasts>, id: Id) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let broadcast = find(&member, id).await?;
    let Prepared { sample: (_, html, _), .. } =
        content::prepare(&broadcasts, member.workspace_id(), &broadcast.content).await?;
    Ok(web::sandboxed(html.unwrap_or_default().into()))
}

async fn send(member: Member<Manage>, Shared(broadcasts): Shared<Broadcasts>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose("send", id), &form)?;
    let typed = form.text("scheduled_at");
    let scheduled_at = Some(typed.trim()).filter(|text| !text.is_empty());
    match send_by_form(&broadcasts, &accepted, id, scheduled_at).await {
        Ok(()) if scheduled_at.is_some() => Ok(member.see_other(&format!("/broadcasts/{id}?scheduled"))),
        Ok(()) => Ok(member.see_other(&format!("/broadcasts/{id}?sending"))),
        Err(refusal) if refusal.status() == StatusCode::UNPROCESSABLE_ENTITY => {
            let found = draft(&member, Ok(PathId(id))).await?;
            let error = web::field_of(&refusal).filter(|field| field == "scheduled_at");
            let error = error.map(|_| refusal.message().into_owned());
            let to = Field::of(member.session.email.clone());
            let typed = Typed { scheduled_at: Field { value: typed, error }, to };
            page(&member, &broadcasts, (&found.0, found.1), typed, refusal.status()).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn test(member: Member<Manage>, Shared(broadcasts): Shared<Broadcasts>, id: Id, form: Form) -> PageResult {
    let (broadcast, version) = draft(&member, id).await?;
    let id = broadcast.id;
    let (mail, accepted) = member.accept_making(&testing(id), &form)?;
    let to = form.text("to");
    let sending = async {
        let address: Mailbox = to.trim().parse().map_err(|flaw| Error::invalid(format!("The `to` field {flaw}.")))?;
        let Prepared { email, sample: (subject, html, text), .. } =
            content::prepare(&broadcasts, member.workspace_id(), &broadcast.content).await?;
        let email = NewEmail {
            reply_to: email.reply_to,
            subject: format!("[Test] {subject}"),
            template_id: email.template_id,
            html: html.map(emails::Content::Here),
            text: text.map(emails::Content::Here),
            when_uncertain: email.when_uncertain,
            ..NewEmail::new(member.workspace_id(), Origin::Command, email.from, vec![address])
        };
        let typed = Map::from_iter([("to".to_owned(), to.as_str().into()), ("version".to_owned(), version.into())]);
        let mail = MailForm::new(mail, &typed);
        emails::send_by_form((&broadcasts.occurrences, &broadcasts.domains), &accepted, &mail, email).await
    };
    match sending.await {
        Ok(()) => Ok(member.see_other(&format!("/broadcasts/{id}/review?tested"))),
        Err(refusal) if refusal.status().is_client_error() => {
            let to = Field { value: to, error: Some(refusal.message().into_owned()) };
            let typed = Typed { scheduled_at: Field::default(), to };
            page(&member, &broadcasts, (&broadcast, version), typed, refusal.status()).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether there is such a broadcast, for those who only copy it.
pub async fn content_of(member: &Member<Manage>, id: BroadcastId) -> Result<Content, Error> {
    let rows = member.read(store::by_id(member.workspace_id(), id)).await?;
    Ok(Broadcast::read(rows.first().ok_or_else(gone)?)?.content)
}

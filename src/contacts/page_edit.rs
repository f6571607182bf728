//! What people change of contacts in the dashboard.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::change::{self, Ties};
use super::contact::{Changes, Contact};
use super::membership_routes as membership;
use super::page_one::{self, declared, purpose};
use super::path::{Named, PathSegment};
use super::person_form::{self, Choice, PersonForm, Typed, choices};
use super::shapes::NewContact;
use super::subscription;
use super::write::UnsubscribedBy;
use crate::accounts::{Manage, Member};
use crate::error::Error;
use crate::id::{SegmentId, TopicId};
use crate::occurrences::Occurrences;
use crate::segments;
use crate::topics::{self, Subscription};
use crate::web::{self, ConfirmPage, Form, Layout, PageResult, Shell};

const ADD: &str = "add a contact";

#[derive(Template)]
#[template(path = "contacts/new.html")]
struct NewPage {
    layout: Layout,
    shell: Shell,
    hidden: Vec<(String, String)>,
    form: PersonForm,
    segments: Vec<Choice<SegmentId>>,
}

pub async fn blank(member: Member<Manage>) -> PageResult {
    let form = person_form::blank(&declared(&member).await?);
    Ok(new_page(&member, StatusCode::OK, form, &[]).await?)
}

async fn new_page(
    member: &Member<Manage>,
    status: StatusCode,
    form: PersonForm,
    chosen: &[SegmentId],
) -> Result<Response, Error> {
    let all: Vec<(SegmentId, String, bool)> = member.query(segments::choices(member.workspace_id())).await?;
    let open = all.into_iter().filter(|(.., fills_itself)| !fills_itself).map(|(id, name, _)| (id, name));
    let content = NewPage {
        layout: member.layout(),
        shell: member.shell("/contacts"),
        hidden: member.hidden(ADD),
        form,
        segments: choices(open, chosen),
    };
    Ok(web::page(status, &content))
}

pub async fn create(State(app): State<Occurrences>, member: Member<Manage>, form: Form) -> PageResult {
    let accepted = member.accept(ADD, &form)?;
    let declared = declared(&member).await?;
    let typed = Typed::of(&form);
    let segment_ids: Vec<SegmentId> = form.all("segment").iter().filter_map(|id| id.parse().ok()).collect();
    let made = async {
        let new: NewContact = web::read_fields(typed.fields(None, &declared))?;
        let (email, changes, _) = new.split();
        let ties = Ties { segment_ids: segment_ids.clone(), choices: Vec::new() };
        change::add(&accepted, &app, &email, (&changes, &ties)).await
    };
    match made.await {
        Ok(contact) => Ok(member.see_other(&format!("/contacts/{}?added", contact.id))),
        Err(error) => {
            let form = typed.refused(error, None, &declared)?;
            Ok(new_page(&member, StatusCode::UNPROCESSABLE_ENTITY, form, &segment_ids).await?)
        }
    }
}

pub async fn edit(State(app): State<Occurrences>, member: Member<Manage>, named: Named, form: Form) -> PageResult {
    let contact = named.find(&member).await?;
    let accepted = member.accept(&purpose("edit", &contact), &form)?;
    let declared = declared(&member).await?;
    let typed = Typed::of(&form);
    let changed = async {
        let changes: Changes = web::read_fields(typed.fields(Some(&contact), &declared))?;
        change::update(&accepted, &app, &(&contact).into(), &changes, UnsubscribedBy::Dashboard).await
    };
    match changed.await {
        Ok(_) => Ok(back(&member, &contact, "saved")),
        Err(error) => {
            let form = typed.refused(error, Some(&contact), &declared)?;
            Ok(page_one::page(&app, &member, StatusCode::UNPROCESSABLE_ENTITY, contact, form).await?)
        }
    }
}

fn back(member: &Member<Manage>, contact: &Contact, done: &str) -> Response {
    member.see_other(&format!("/contacts/{}?{done}", contact.id))
}

pub async fn choose(State(app): State<Occurrences>, member: Member<Manage>, named: Named, form: Form) -> PageResult {
    let contact = named.find(&member).await?;
    let accepted = member.accept(&purpose("topics of", &contact), &form)?;
    let (shown, wanted) = (form.all("shown"), form.all("topic"));
    let choice = |id: &String| -> Option<topics::Choice> {
        let topic_id: TopicId = id.parse().ok()?;
        let subscription = if wanted.contains(id) { Subscription::OptIn } else { Subscription::OptOut };
        Some(topics::Choice { topic_id, subscription })
    };
    // What was not changed on the page is not chosen either: the topic's default goes on to hold.
    let standing = subscription::Subscriptions::find(&app, member.workspace_id(), contact.id).await?;
    let is_news = |choice: &topics::Choice| {
        let known = standing.as_ref().and_then(|standing| standing.of_topic(choice.topic_id));
        known.is_none_or(|known| known.subscription != choice.subscription)
    };
    let chosen: Vec<topics::Choice> = shown.iter().filter_map(choice).filter(is_news).collect();
    let by = UnsubscribedBy::Dashboard;
    subscription::choose_topics(&accepted, &app, &(&contact).into(), || Ok(chosen), by).await?;
    Ok(back(&member, &contact, "topics"))
}

pub async fn join(State(app): State<Occurrences>, member: Member<Manage>, named: Named, form: Form) -> PageResult {
    let contact = named.find(&member).await?;
    let accepted = member.accept(&purpose("segments of", &contact), &form)?;
    let segment_id = form.text("segment").parse().map_err(|_| segments::not_found())?;
    membership::join(&accepted, &contact, segment_id, app.clock.now()).await?;
    Ok(back(&member, &contact, "joined"))
}

pub async fn leave(
    member: Member<Manage>,
    named: Named,
    segment: Result<PathSegment, Error>,
    form: Form,
) -> PageResult {
    let contact = named.find(&member).await?;
    let PathSegment(segment_id) = segment.map_err(|_| segments::not_found())?;
    let accepted = member.accept(&purpose("segments of", &contact), &form)?;
    membership::leave(&accepted, &contact, segment_id).await?;
    Ok(back(&member, &contact, "left"))
}

pub async fn ask(member: Member<Manage>, named: Named) -> PageResult {
    let contact = named.find(&member).await?;
    let address = member.address(&format!("/contacts/{}", contact.id));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/contacts"),
        title: "Delete this contact?".into(),
        sentence:
            "The contact leaves its segments, and what it chose of topics is forgotten. Mail that was sent to it, \
                   and its runs, stay as they are. To remove everything that is known of the person, erase it instead."
                .into(),
        action: format!("{address}/delete"),
        hidden: member.hidden(&purpose("delete", &contact)),
        button: "Delete".into(),
        cancel: address,
        subject: contact.email,
    };
    Ok(web::page(StatusCode::OK, &content))
}

pub async fn delete(State(app): State<Occurrences>, member: Member<Manage>, named: Named, form: Form) -> PageResult {
    let contact = named.find(&member).await?;
    let accepted = member.accept(&purpose("delete", &contact), &form)?;
    change::delete(&accepted, &app, &contact).await?;
    Ok(member.see_other("/contacts?deleted"))
}

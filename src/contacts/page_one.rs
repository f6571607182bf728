//! One contact in the dashboard.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::contact::{Contact, email_key};
use super::pages::whole_name;
use super::path::Named;
use super::person_form::{Choice, PersonForm, choices, filled};
use super::properties::Declared;
use super::subscription::Subscriptions;
use super::timeline::Timeline;
use super::{properties_store, store};
use crate::accounts::{Duty, Look, Member};
use crate::docs::Call;
use crate::error::Error;
use crate::id::{ContactId, SegmentId, TopicId};
use crate::occurrences::Occurrences;
use crate::segments;
use crate::topics::Subscription;
use crate::web::{self, Layout, PageResult, Shell, Stamp};

#[derive(Template)]
#[template(path = "contacts/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    /// Where this page is.
    address: String,
    id: ContactId,
    email: String,
    name: String,
    verdict: Verdict,
    created: Stamp,
    updated: Option<Stamp>,
    form: PersonForm,
    edit_hidden: Vec<(String, String)>,
    segments: Vec<SegmentRow>,
    segments_hidden: Vec<(String, String)>,
    /// The segments that the contact can be put into.
    choices: Vec<Choice<SegmentId>>,
    topics: Vec<TopicRow>,
    topics_hidden: Vec<(String, String)>,
    timeline: Timeline,
    code: Call,
}

/// Whether mail reaches the contact.
struct Verdict {
    look: &'static str,
    word: &'static str,
    /// Since when the address is suppressed, and why.
    suppressed: Option<(&'static str, Stamp)>,
    sentence: &'static str,
}

struct SegmentRow {
    href: String,
    name: String,
    fills_itself: bool,
    remove: String,
}

struct TopicRow {
    id: TopicId,
    name: String,
    is_wanted: bool,
    is_chosen: bool,
}

/// What a form of a contact is good for.
pub fn purpose(what: &str, contact: &Contact) -> String {
    format!("{what} contact {}", contact.id)
}

pub async fn declared<D: Duty>(member: &Member<D>) -> Result<Vec<Declared>, Error> {
    Ok(Declared::read_all(&member.read(properties_store::all(member.workspace_id())).await?)?)
}

pub async fn show(State(app): State<Occurrences>, member: Member<Look>, named: Named) -> PageResult {
    let contact = named.find(&member).await?;
    let form = filled(&contact, &declared(&member).await?);
    Ok(page(&app, &member, StatusCode::OK, contact, form).await?)
}

/// The page of a contact, with a form as it is to be shown.
pub async fn page<D: Duty>(
    app: &Occurrences,
    member: &Member<D>,
    status: StatusCode,
    contact: Contact,
    form: PersonForm,
) -> Result<Response, Error> {
    let (workspace, now) = (member.workspace_id(), member.app.clock.now());
    let address = member.address(&format!("/contacts/{}", contact.id));
    let joined: Vec<(SegmentId, String, bool)> =
        member.query(segments::newest_of_contact(workspace, contact.id)).await?;
    let all: Vec<(SegmentId, String, bool)> = member.query(segments::choices(workspace)).await?;
    let is_open = |(id, _, fills_itself): &(SegmentId, String, bool)| {
        !fills_itself && joined.iter().all(|(known, ..)| known != id)
    };
    let open: Vec<(SegmentId, String)> = all.into_iter().filter(is_open).map(|(id, name, _)| (id, name)).collect();
    let standings = Subscriptions::find(app, workspace, contact.id).await?;
    let topics = standings.map(|standings| standings.topics).unwrap_or_default();
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/contacts"),
        notice: member
            .notice("saved", "The contact is saved.")
            .or(member.notice("added", "The contact is added."))
            .or(member.notice("topics", "The topics are saved."))
            .or(member.notice("joined", "The contact is in the segment."))
            .or(member.notice("left", "The contact is not in the segment any more."))
            .filter(|_| status == StatusCode::OK),
        may_manage: member.may_manage(),
        verdict: verdict(member, &contact).await?,
        created: Stamp::ago(contact.created_at, now),
        updated: contact.updated_at.map(|at| Stamp::ago(at, now)),
        edit_hidden: member.hidden(&purpose("edit", &contact)),
        segments: joined
            .iter()
            .map(|(id, name, fills_itself)| SegmentRow {
                href: member.address(&format!("/segments/{id}")),
                name: name.clone(),
                fills_itself: *fills_itself,
                remove: format!("{address}/segments/{id}/remove"),
            })
            .collect(),
        segments_hidden: member.hidden(&purpose("segments of", &contact)),
        choices: choices(open, &[]),
        topics: topics
            .into_iter()
            .map(|topic| TopicRow {
                id: topic.topic_id,
                name: topic.name,
                is_wanted: topic.subscription == Subscription::OptIn,
                is_chosen: topic.is_chosen,
            })
            .collect(),
        topics_hidden: member.hidden(&purpose("topics of", &contact)),
        timeline: Timeline::of(member, &contact).await?,
        code: Call::to(&member.app, "GET", &format!("/contacts/{}", contact.id), None),
        form,
        address,
        id: contact.id,
        name: whole_name(contact.first_name, contact.last_name),
        email: contact.email,
    };
    Ok(web::page(status, &content))
}

async fn verdict<D: Duty>(member: &Member<D>, contact: &Contact) -> Result<Verdict, Error> {
    let key = email_key(&contact.email);
    let suppressed: Option<(String, i64)> = member.query(store::suppression(member.workspace_id(), &key)).await?;
    let verdict = |look, word, sentence| Verdict { look, word, suppressed: None, sentence };
    Ok(match suppressed {
        Some((origin, at)) => {
            let why = match origin.as_str() {
                "bounce" => "Mail to this address bounced",
                "complaint" => "The person complained about mail",
                _ => "Somebody put this address on the list",
            };
            let suppressed = Some((why, Stamp::new(at)));
            Verdict { suppressed, ..verdict("bad", "Suppressed", "It gets no mail at all.") }
        }
        None if contact.unsubscribed => {
            verdict("off", "Unsubscribed", "No broadcasts and no mail about topics. Transactional mail still arrives.")
        }
        None => verdict("good", "Yes", "Topics that the contact opted out of are left out."),
    })
}

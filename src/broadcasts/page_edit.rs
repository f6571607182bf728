//! Writing a broadcast in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State as Shared;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::body::NewBroadcast;
use super::broadcast::{Broadcast, Content, State};
use super::pages::{find, gone};
use super::routes::new_id;
use super::store::{self, Launch};
use super::{Broadcasts, content};
use crate::accounts::{Manage, Member};
use crate::db::DbError;
use crate::error::Error;
use crate::id::{BroadcastId, SegmentId, TopicId, shared_id};
use crate::segments;
use crate::topics;
use crate::web::{self, Field, Form, Layout, Link, LongForm, PageResult, PathId, Shell};
use crate::windows::{Day, Window};

pub fn router() -> Router<Broadcasts> {
    Router::new()
        .route("/broadcasts/new", get(ask_new).post(create))
        .route("/broadcasts/{id}/edit", get(ask_change).post(change))
}

#[derive(Template)]
#[template(path = "broadcasts/edit.html")]
struct EditPage {
    layout: Layout,
    shell: Shell,
    title: String,
    back: Link,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    segments: Vec<(String, String)>,
    topics: Vec<(String, String)>,
    days: Vec<(&'static str, bool)>,
    typed: Typed,
}

/// What is in the form.
#[derive(Default)]
struct Typed {
    name: Field,
    segment: Field,
    topic: Field,
    from: Field,
    subject: Field,
    preview_text: Field,
    reply_to: Field,
    html: Field,
    text: Field,
    template: Field,
    variables: Field,
    window_from: Field,
    window_until: Field,
    window_days: Vec<String>,
    priority: Field,
    within: Field,
}

impl Typed {
    fn of(content: &Content) -> Typed {
        let window = content.timing.send_window.as_ref().and_then(|window| serde_json::to_value(window).ok());
        let part = |name: &str| window.as_ref().and_then(|window| window[name].as_str()).unwrap_or_default().to_owned();
        let days = window.as_ref().and_then(|window| window["days"].as_array().cloned()).unwrap_or_default();
        let used = content.template.as_ref();
        let variables = used.filter(|used| !used.variables.is_empty()).map(|used| &used.variables);
        Typed {
            name: Field::of(&content.name),
            segment: Field::of(content.segment_id.to_string()),
            topic: Field::of(content.topic_id.map(|id| id.to_string()).unwrap_or_default()),
            from: Field::of(&content.sender),
            subject: Field::of(&content.subject),
            preview_text: Field::of(content.preview_text.as_deref().unwrap_or_default()),
            reply_to: Field::of(content.reply_to.join("\n")),
            html: Field::of(web::in_box(content.html.as_deref().unwrap_or_default())),
            text: Field::of(web::in_box(content.text.as_deref().unwrap_or_default())),
            template: Field::of(used.map(|used| used.id.clone()).unwrap_or_default()),
            variables: Field::of(variables.and_then(|all| serde_json::to_string_pretty(all).ok()).unwrap_or_default()),
            window_from: Field::of(part("from")),
            window_until: Field::of(part("until")),
            window_days: days.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            priority: Field::of(content.timing.priority.0.to_string()),
            within: Field::of(content.timing.send_within_hours.map(|hours| hours.0.to_string()).unwrap_or_default()),
        }
    }

    fn read(form: &Form) -> Typed {
        Typed {
            name: form.field("name"),
            segment: form.field("segment_id"),
            topic: form.field("topic_id"),
            from: form.field("from"),
            subject: form.field("subject"),
            preview_text: form.field("preview_text"),
            reply_to: Field::of(form.lines("reply_to")),
            html: Field::of(form.lines("html")),
            text: Field::of(form.lines("text")),
            template: form.field("template"),
            variables: Field::of(form.lines("variables")),
            window_from: form.field("window_from"),
            window_until: form.field("window_until"),
            window_days: form.all("day"),
            priority: form.field("priority"),
            within: form.field("send_within_hours"),
        }
    }

    /// As a request would say it. Bodies that were not changed are as they were.
    fn content(&self, before: Option<&Content>) -> Result<Content, Error> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        let body = |typed: &Field, before: Option<&Option<String>>| {
            let before = before.and_then(Option::as_deref).unwrap_or_default();
            web::from_box(&typed.value, before)
        };
        let (html, text) =
            (body(&self.html, before.map(|before| &before.html)), body(&self.text, before.map(|before| &before.text)));
        let texts = [
            ("name", self.name.value.as_str()),
            ("segment_id", &self.segment.value),
            ("topic_id", &self.topic.value),
            ("from", &self.from.value),
            ("subject", &self.subject.value),
            ("preview_text", &self.preview_text.value),
            ("html", &html),
            ("text", &text),
        ];
        texts.into_iter().filter(|(_, text)| !text.is_empty()).for_each(|(name, text)| put(name, text.into()));
        let lines = self.reply_to.value.lines().map(str::trim).filter(|line| !line.is_empty());
        put("reply_to", lines.map(Value::from).collect::<Vec<_>>().into());
        if !self.template.value.trim().is_empty() {
            let variables: Map<String, Value> = match self.variables.value.trim() {
                "" => Map::new(),
                text => serde_json::from_str(text)
                    .map_err(|error| Error::invalid(format!("The `variables` are an object of JSON: {error}.")))?,
            };
            put("template", json!({"id": self.template.value.trim(), "variables": variables}));
        }
        if !(self.window_from.value.is_empty() && self.window_until.value.is_empty()) {
            let days = (!self.window_days.is_empty()).then(|| self.window_days.clone());
            put("send_window", json!({"days": days, "from": self.window_from.value, "until": self.window_until.value}));
        }
        for (name, number) in [("priority", &self.priority), ("send_within_hours", &self.within)] {
            let text = number.value.trim();
            if !text.is_empty() {
                put(name, text.parse::<i64>().map_or_else(|_| text.into(), Value::from));
            }
        }
        web::read_fields::<NewBroadcast>(fields)?.content()
    }

    /// Puts an error beside the field it is about; what is about none comes back.
    fn refuse(&mut self, error: &Error) -> Option<String> {
        let fields = [
            ("name", &mut self.name),
            ("segment_id", &mut self.segment),
            ("topic_id", &mut self.topic),
            ("from", &mut self.from),
            ("subject", &mut self.subject),
            ("preview_text", &mut self.preview_text),
            ("reply_to", &mut self.reply_to),
            ("html", &mut self.html),
            ("text", &mut self.text),
            ("template", &mut self.template),
            ("variables", &mut self.variables),
            ("send_window", &mut self.window_from),
            ("priority", &mut self.priority),
            ("send_within_hours", &mut self.within),
        ];
        web::beside_field(error, fields)
    }
}

/// Where a broadcast that is written here goes, and who may.
enum Subject<'a> {
    New(BroadcastId),
    Draft(&'a Broadcast, i64),
}

async fn page(member: &Member<Manage>, subject: Subject<'_>, typed: Typed) -> Result<EditPage, Error> {
    let list = member.address("/broadcasts");
    let (title, back, action, hidden) = match subject {
        Subject::New(id) => {
            let back = Link { href: list.clone(), label: "Broadcasts".into() };
            ("New broadcast".to_owned(), back, format!("{list}/new"), member.hidden_making(CREATE, id))
        }
        Subject::Draft(broadcast, version) => {
            let (href, label) = (format!("{list}/{}", broadcast.id), broadcast.content.name.clone());
            let (title, action) = (format!("Edit {label}"), format!("{href}/edit"));
            let mut hidden = member.hidden(&purpose(broadcast.id));
            hidden.push(("version".to_owned(), version.to_string()));
            (title, Link { href, label }, action, hidden)
        }
    };
    let segments: Vec<(SegmentId, String)> = member.query(segments::names(member.workspace_id())).await?;
    let topics: Vec<(TopicId, String)> = member.query(topics::choices(member.workspace_id())).await?;
    let segments = segments.into_iter().map(|(id, name)| (id.to_string(), name));
    let topics = topics.into_iter().map(|(id, name)| (id.to_string(), name));
    let none = |word: &str| std::iter::once((String::new(), word.to_owned()));
    Ok(EditPage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        title,
        back,
        action,
        hidden,
        problem: None,
        segments: none("Choose a segment").chain(segments).collect(),
        topics: none("None: everybody who wants mail at all").chain(topics).collect(),
        days: Day::ALL.map(|day| (day.as_str(), typed.window_days.iter().any(|one| one == day.as_str()))).into(),
        typed,
    })
}

const CREATE: &str = "create broadcast";

fn purpose(id: BroadcastId) -> String {
    format!("change broadcast {id}")
}

fn refused(mut page: EditPage, refusal: &Error) -> PageResult {
    page.problem = page.typed.refuse(refusal);
    Ok(web::page(refusal.status(), &page))
}

async fn ask_new(member: Member<Manage>) -> PageResult {
    let id = shared_id(member.app.clock.ordered_id::<BroadcastId>());
    let typed = Typed { priority: Field::of("5"), ..Typed::default() };
    Ok(web::page(StatusCode::OK, &page(&member, Subject::New(id), typed).await?))
}

async fn create(member: Member<Manage>, Shared(broadcasts): Shared<Broadcasts>, form: LongForm) -> PageResult {
    let (id, accepted) = member.accept_making(CREATE, &form)?;
    let id: BroadcastId = shared_id(id);
    let typed = Typed::read(&form);
    let making = async {
        let content = typed.content(None)?;
        content::check_ties(&broadcasts, &accepted, &content).await?;
        let (_, lane) = new_id(&broadcasts.clock);
        let (whose, now) = ((member.workspace_id(), id, lane), broadcasts.clock.now());
        match accepted.try_commit(|| store::insert(whose, &content, &Launch::NONE, now).into()).await? {
            // The same form again.
            Err(DbError::Duplicate(_)) => Ok(()),
            settled => Ok(settled.map(drop)?),
        }
    };
    let made: Result<(), Error> = making.await;
    match made {
        Ok(()) => Ok(member.see_other(&format!("/broadcasts/{id}/review?saved"))),
        Err(refusal) if refusal.status().is_client_error() => {
            refused(page(&member, Subject::New(id), typed).await?, &refusal)
        }
        Err(error) => Err(error.into()),
    }
}

/// A draft, and the number that tells whether it was changed since.
pub async fn draft(member: &Member<Manage>, id: Result<PathId<BroadcastId>, Error>) -> Result<(Broadcast, i64), Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    let version = member.read(store::version(member.workspace_id(), id)).await?;
    let version = version.first().ok_or_else(gone)?.int(0)?;
    let broadcast = find(member, id).await?;
    match broadcast.state {
        State::Draft => Ok((broadcast, version)),
        _ => Err(broadcast.refusal("Only a draft can be changed")),
    }
}

async fn ask_change(member: Member<Manage>, id: Result<PathId<BroadcastId>, Error>) -> PageResult {
    let (broadcast, version) = draft(&member, id).await?;
    let typed = Typed::of(&broadcast.content);
    Ok(web::page(StatusCode::OK, &page(&member, Subject::Draft(&broadcast, version), typed).await?))
}

async fn change(
    member: Member<Manage>,
    Shared(broadcasts): Shared<Broadcasts>,
    id: Result<PathId<BroadcastId>, Error>,
    form: LongForm,
) -> PageResult {
    let (broadcast, version) = draft(&member, id).await?;
    let id = broadcast.id;
    let accepted = member.accept(&purpose(id), &form)?;
    let typed = Typed::read(&form);
    let changing = async {
        let content = typed.content(Some(&broadcast.content))?;
        content::check_ties(&broadcasts, &accepted, &content).await?;
        if form.text("version") != version.to_string() {
            return Ok(false);
        }
        match accepted.try_commit(|| store::replace(member.workspace_id(), id, &content, version).into()).await? {
            Err(DbError::Unexpected { .. }) => Ok(false),
            settled => Ok(settled.map(|_| true)?),
        }
    };
    let changed: Result<bool, Error> = changing.await;
    match changed {
        Ok(true) => Ok(member.see_other(&format!("/broadcasts/{id}/review?saved"))),
        Ok(false) => {
            let (broadcast, version) = draft(&member, Ok(PathId(id))).await?;
            let mut page = page(&member, Subject::Draft(&broadcast, version), typed).await?;
            page.problem = Some(
                "Somebody changed this broadcast after you opened it. Below stands what you typed; save again to \
                 replace theirs."
                    .into(),
            );
            Ok(web::page(StatusCode::CONFLICT, &page))
        }
        Err(refusal) if refusal.status().is_client_error() => {
            refused(page(&member, Subject::Draft(&broadcast, version), typed).await?, &refusal)
        }
        Err(error) => Err(error.into()),
    }
}

/// A window in words.
pub fn window_words(window: Option<&Window>) -> Option<String> {
    window.map(|window| format!("{window}, where each contact is"))
}

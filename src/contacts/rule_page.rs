//! The page on which the rules of a segment that fills itself are written and tried.

use std::collections::HashMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::judging::{self, Preview};
use super::page_one::declared;
use super::properties::Declared;
use super::rule_editor::{Refused, Rules, filter_of};
use super::rule_rows::Editor;
use super::segment_pages::gone;
use crate::accounts::{Manage, Member};
use crate::auth::Actor;
use crate::error::Error;
use crate::id::SegmentId;
use crate::occurrences::Occurrences;
use crate::segments::{self, GivenFilter, SegmentChange, SegmentName};
use crate::text::grouped;
use crate::web::{self, Change, ConfirmPage, Field, Form, Layout, PageResult, PathId, Shell};

/// How many blank rows a group ends with.
const BLANK: usize = 2;

const CREATE: &str = "create segment";

#[derive(Template)]
#[template(path = "segments/rules.html")]
struct RulesPage {
    layout: Layout,
    shell: Shell,
    title: &'static str,
    action: String,
    back: String,
    hidden: Vec<(String, String)>,
    /// The name of a segment to be made; `None`: it is there.
    segment_name: Option<Field>,
    /// Whether taking the rules away is offered.
    may_clear: bool,
    editor: Editor,
    tried: Option<Tried>,
}

/// Who would be in the segment.
struct Tried {
    sentence: String,
    emails: Vec<String>,
}

/// What the page is about: a segment to be made, or one that is there.
struct Subject {
    id: SegmentId,
    /// Of one to be made.
    name: Option<Field>,
    may_clear: bool,
}

fn page(
    member: &Member<Manage>,
    status: StatusCode,
    subject: Subject,
    editor: Editor,
    tried: Option<Tried>,
) -> Response {
    let Subject { id, name, may_clear } = subject;
    let (title, path, back, hidden) = match name {
        Some(_) => {
            let hidden = member.hidden_making(CREATE, id);
            ("A segment that fills itself", "/segments/new".to_owned(), "/segments".to_owned(), hidden)
        }
        None => {
            let back = format!("/segments/{id}");
            ("Who belongs into it", format!("{back}/rules"), back, member.hidden(&purpose(id)))
        }
    };
    let content = RulesPage {
        layout: member.layout(),
        shell: member.shell("/segments"),
        title,
        action: member.address(&path),
        back: member.address(&back),
        hidden,
        segment_name: name,
        may_clear,
        editor,
        tried,
    };
    web::page(status, &content)
}

fn purpose(id: SegmentId) -> String {
    format!("rules of segment {id}")
}

pub async fn blank(member: Member<Manage>) -> PageResult {
    let declared = declared(&member).await?;
    let editor = Editor::shown(&member, Rules::default(), &declared, BLANK + 1).await?;
    let id = member.app.clock.ordered_id();
    let subject = Subject { id, name: Some(Field::default()), may_clear: false };
    Ok(page(&member, StatusCode::OK, subject, editor, None))
}

pub async fn edit(member: Member<Manage>, id: Result<PathId<SegmentId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let detail = segments::detail(&member, id).await?;
    let declared = declared(&member).await?;
    let rules = detail.filter.as_ref().map_or_else(|| Some(Rules::default()), Rules::of);
    let is_json = rules.is_none();
    let mut editor = Editor::shown(&member, rules.unwrap_or_default(), &declared, BLANK).await?;
    editor.is_json = is_json;
    editor.json.value = detail
        .filter
        .as_ref()
        .map(|filter| serde_json::to_string_pretty(filter).unwrap_or_default())
        .unwrap_or_default();
    let subject = Subject { id, name: None, may_clear: detail.filter.is_some() };
    Ok(page(&member, StatusCode::OK, subject, editor, None))
}

/// Asks before the rules are taken away, which the form of the rules does.
pub async fn ask_to_clear(member: Member<Manage>, id: Result<PathId<SegmentId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let detail = segments::detail(&member, id).await?;
    let address = member.address(&format!("/segments/{id}/rules"));
    let mut hidden = member.hidden(&purpose(id));
    hidden.push(("act".into(), "clear".into()));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/segments"),
        title: "Take the rules away?".into(),
        subject: detail.item.name,
        sentence: "Whoever is in the segment stays, and from then on you put contacts into it by hand. The rules are \
                   gone: this cannot be undone."
            .into(),
        action: address.clone(),
        hidden,
        button: "Take them away".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

pub async fn create(State(app): State<Occurrences>, member: Member<Manage>, form: Form) -> PageResult {
    Ok(take(&app, &member, None, &form).await?)
}

pub async fn save(
    State(app): State<Occurrences>,
    member: Member<Manage>,
    id: Result<PathId<SegmentId>, Error>,
    form: Form,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    Ok(take(&app, &member, Some(id), &form).await?)
}

/// Tries rules, or saves them: which, says the button that was pressed.
async fn take(
    app: &Occurrences,
    member: &Member<Manage>,
    id: Option<SegmentId>,
    form: &Form,
) -> Result<Response, Error> {
    let (own_id, accepted) = match id {
        Some(id) => (id, member.accept(&purpose(id), form)?),
        None => member.accept_making(CREATE, form)?,
    };
    let declared = declared(member).await?;
    let (act, given) = (form.text("act"), form.text("name"));
    let name = SegmentName::try_from(given.trim().to_owned());
    let wrong_name = match (&name, id) {
        (Err(wrong), None) if act == "save" => Some(format!("The `name` field {wrong}.")),
        _ => None,
    };
    let filter = filter_of(form, &declared);
    let is_used = ["save", "preview"].contains(&act.as_str());
    let saved = async {
        let filter = match filter {
            Ok(filter) => filter,
            Err(_) if !is_used => None,
            Err(refused) => return Ok(Outcome::Refused(refused)),
        };
        match (act.as_str(), id) {
            ("clear", Some(id)) => {
                let change = SegmentChange { name: None, filter: Change(Some(None)) };
                segments::change(&accepted, app, id, change).await.map(|()| Outcome::Saved(id))
            }
            ("save", _) if wrong_name.is_some() => Ok(Outcome::Shown),
            ("save", Some(id)) => {
                let filter = filter.ok_or_else(none)?;
                let change = SegmentChange { name: None, filter: Change(Some(Some(GivenFilter(Some(filter))))) };
                segments::change(&accepted, app, id, change).await.map(|()| Outcome::Saved(id))
            }
            ("save", None) => {
                let (filter, name) = (filter.ok_or_else(none)?, name.map_err(|_| none())?);
                segments::create(&accepted, app, (own_id, &name), Some(&filter)).await.map(|()| Outcome::Saved(own_id))
            }
            ("preview", _) => {
                let filter = filter.ok_or_else(none)?;
                judging::preview_filter(&accepted, app, &filter).await.map(Outcome::Tried)
            }
            _ => Ok(Outcome::Shown),
        }
    };
    let (status, refused, tried) = match saved.await {
        Ok(Outcome::Saved(id)) => return Ok(member.see_other(&format!("/segments/{id}?saved"))),
        Ok(Outcome::Tried(preview)) => (StatusCode::OK, None, Some(tried(preview))),
        Ok(Outcome::Shown) if wrong_name.is_none() => (StatusCode::OK, None, None),
        Ok(Outcome::Shown) => (StatusCode::UNPROCESSABLE_ENTITY, None, None),
        Ok(Outcome::Refused(refused)) => (StatusCode::UNPROCESSABLE_ENTITY, Some(refused), None),
        Err(error @ (Error::Invalid { .. } | Error::Missing { .. })) => {
            (StatusCode::UNPROCESSABLE_ENTITY, Some(placed(&accepted, form, &declared, &error).await?), None)
        }
        Err(error) => return Err(error),
    };
    let more = if act == "more" { 2 * BLANK } else { BLANK };
    let mut editor = Editor::shown(member, Rules::sent(form), &declared, more).await?;
    editor.is_json = form.text("mode") == "json";
    editor.json.value = form.text("json");
    if let Some(refused) = refused {
        editor.mark(refused);
    }
    let subject = Subject {
        name: id.is_none().then_some(Field { value: given, error: wrong_name }),
        may_clear: id.is_some(),
        id: own_id,
    };
    Ok(page(member, status, subject, editor, tried))
}

enum Outcome {
    Saved(SegmentId),
    Tried(Preview),
    Refused(Refused),
    Shown,
}

/// What the workspace does not have is told beside the rows that name it, where there are such rows.
async fn placed(actor: &dyn Actor, form: &Form, declared: &[Declared], error: &Error) -> Result<Refused, Error> {
    let mut wrong = HashMap::new();
    if form.text("mode") != "json" {
        for (place, rule) in Rules::sent(form).each(declared) {
            let Ok(filter) = rule else { continue };
            match segments::check_filter(actor, &filter).await {
                Err(error @ Error::Invalid { .. }) => wrong.insert(place, error.message().into_owned()),
                checked => checked.map(|()| None)?,
            };
        }
    }
    Ok(match wrong.is_empty() {
        true => Refused::whole(error.message().into_owned()),
        false => Refused::by_rows(wrong),
    })
}

fn none() -> Error {
    Error::invalid("There is no rule yet. Choose a field in at least one row.")
}

fn tried(preview: Preview) -> Tried {
    let count = grouped(preview.contacts_count);
    let sentence = match (preview.exact, preview.contacts_count) {
        (true, 0) => "Nobody fits these rules.".into(),
        (true, 1) => "1 contact fits these rules.".into(),
        (true, _) => format!("{count} contacts fit these rules."),
        (false, _) => format!("About {count} contacts fit these rules, estimated by the newest contacts."),
    };
    Tried { sentence, emails: preview.contacts.into_iter().map(|contact| contact.email).collect() }
}

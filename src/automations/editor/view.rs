//! The page on which an automation is edited.

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use serde_json::Value;

use super::contents::{Contents, DraftStep, KINDS};
use super::fields::{Choice, Fields, Look as InputLook, WindowFields, choices};
use super::outline::{self, Line, Outline, Piece};
use super::typed::{Flaws, Typed};
use super::work::{Work, gone};
use crate::accounts::{Manage, Member};
use crate::app::App;
use crate::automations::graph::Exit;
use crate::automations::names::{self, Offers};
use crate::automations::picture::{self, Names, Picture};
use crate::error::Error;
use crate::id::AutomationId;
use crate::web::{self, Field, Form, Layout, PageResult, PathId, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new().route("/automations/{id}/edit", get(show))
}

/// What stands beside the steps.
pub enum ShownPanel {
    Settings(Option<Box<SettingsFields>>),
    Step(String, Option<TypedStep>),
    /// After which step, by which of its ways, and the type that was chosen.
    Add(String, Exit, String),
}

/// What somebody typed into the form of a step that was not saved.
pub struct TypedStep {
    pub key: String,
    pub key_error: Option<String>,
    pub typed: Typed,
    pub flaws: Flaws,
    /// As JSON, and what is wrong with it, where that was sent.
    pub json: Option<(String, Option<String>)>,
}

pub struct SettingsFields {
    pub name: Field,
    pub re_entry: String,
    pub re_entries: Vec<Choice>,
    pub exit_on: Field,
    pub window: WindowFields,
}

impl SettingsFields {
    pub fn of(contents: &Contents) -> SettingsFields {
        SettingsFields {
            name: Field::of(&contents.name),
            re_entry: contents.re_entry.clone(),
            re_entries: choices(&RE_ENTRIES, &contents.re_entry),
            exit_on: Field::of(contents.exit_on.as_deref().unwrap_or_default()),
            window: WindowFields::of_window(contents.send_window.as_ref()),
        }
    }

    pub fn of_form(form: &Form) -> SettingsFields {
        SettingsFields {
            name: form.field("name"),
            re_entry: form.text("re_entry"),
            re_entries: choices(&RE_ENTRIES, &form.text("re_entry")),
            exit_on: form.field("exit_on"),
            window: WindowFields::of(&Typed::of_form(form), None),
        }
    }
}

/// What to say above the page, and how it is answered.
pub struct Said {
    pub status: StatusCode,
    pub trouble: Option<String>,
}

impl Said {
    pub const NOTHING: Said = Said { status: StatusCode::OK, trouble: None };

    pub fn refused(sentence: impl Into<String>) -> Said {
        Said { status: StatusCode::UNPROCESSABLE_ENTITY, trouble: Some(sentence.into()) }
    }

    pub fn conflict(work: &Work) -> Said {
        let sentence = match &work.draft {
            Some(draft) => format!(
                "{} has changed this draft since you loaded the page, so nothing was saved. Below is what you typed, \
                 beside the draft as it is now. Save again to put yours in its place.",
                draft.author
            ),
            None => "Another version was published, or the draft discarded, since you loaded the page, so nothing was \
                     saved. Below is what you typed, beside the automation as it is now."
                .to_owned(),
        };
        Said { status: StatusCode::CONFLICT, trouble: Some(sentence) }
    }
}

#[derive(Template)]
#[template(path = "automations/edit.html")]
struct EditPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    trouble: Option<String>,
    /// What was typed for a step that is gone.
    lost: Option<String>,
    /// Address of the automation, if there is one already.
    back: String,
    /// Address of this page.
    address: String,
    name: String,
    /// The version in force; 0: none.
    live: i64,
    is_behind: bool,
    /// Who edited it last, and when; none, where there is no draft.
    edited: Option<(String, Stamp)>,
    /// The edits that can be taken back and brought back.
    undo: Option<String>,
    redo: Option<String>,
    hidden: Vec<(String, String)>,
    findings: usize,
    /// What is wrong with the whole.
    whole: Vec<String>,
    picture: Picture,
    box_names: Vec<String>,
    outline: Vec<Piece>,
    loose: Vec<Line>,
    events: Vec<String>,
    panel: Panel,
}

impl EditPage {
    /// Where a step, or a place for one, is chosen. The picture stays as large as it is.
    fn step_href(&self, key: &str) -> String {
        format!("{}?step={}{}#panel", self.address, encoded(key), self.size())
    }

    fn plus_href(&self, after: &str, way: &str) -> String {
        format!("{}?after={}&way={way}{}#panel", self.address, encoded(after), self.size())
    }

    fn size(&self) -> String {
        self.picture.zoom.name().map(|name| format!("&zoom={name}")).unwrap_or_default()
    }

    /// Where the size of the picture is chosen, up to its name. What stands beside the steps stays.
    fn sizes_href(&self) -> String {
        match &self.panel {
            Panel::Settings(_) => format!("{}?", self.address),
            Panel::Step(step) => format!("{}?step={}&", self.address, encoded(&step.saved_key)),
            Panel::Add(add) => format!("{}?after={}&way={}&", self.address, encoded(&add.after), add.way),
        }
    }

    fn place(&self, key: &str, exit: &Exit) -> String {
        outline::place(key, *exit)
    }
}

/// A key within an address.
pub fn encoded(key: &str) -> String {
    percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC).to_string()
}

enum Panel {
    Settings(Box<SettingsFields>),
    Step(Box<StepPanel>),
    Add(AddPanel),
}

struct StepPanel {
    /// The step as it is saved.
    saved_key: String,
    label: &'static str,
    icon: &'static str,
    sentence: String,
    key: Field,
    findings: Vec<String>,
    fields: Fields,
    json: Field,
    /// The configuration that is saved, where somebody else has changed it.
    saved: Option<String>,
    previous: Vec<String>,
    ways: Vec<WayForm>,
    can_up: bool,
    can_down: bool,
    is_trigger: bool,
    /// What is kept when it is removed, and the words on the button.
    removals: Vec<(&'static str, String)>,
}

/// Where a way out leads, and could lead.
struct WayForm {
    way: &'static str,
    label: &'static str,
    next: Option<String>,
    options: Vec<Choice>,
}

struct AddPanel {
    after: String,
    way: &'static str,
    place: String,
    /// Word, label, what it does, and whether it was chosen.
    kinds: Vec<(&'static str, &'static str, &'static str, bool)>,
}

async fn show(member: Member<Manage>, id: Result<PathId<AutomationId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let work = Work::find(&member, id).await?;
    let shown = match (member.asked("step"), member.asked("after"), member.asked("way")) {
        (Some(key), _, _) => ShownPanel::Step(key, None),
        (_, Some(after), way) => {
            let exit = way.and_then(|way| Exit::parse(&way)).unwrap_or(Exit::Default);
            ShownPanel::Add(after, exit, String::new())
        }
        _ => ShownPanel::Settings(None),
    };
    edit_page(&member, &work, shown, Said::NOTHING).await
}

pub async fn edit_page(member: &Member<Manage>, work: &Work, shown: ShownPanel, said: Said) -> PageResult {
    let names = names::load(&member.app.db, member.workspace_id(), work.contents.configs()).await?;
    let offers = match shown {
        ShownPanel::Step(..) => names::offers(&member.app.db, member.workspace_id()).await?,
        _ => Offers::default(),
    };
    let findings = work.findings(member).await?;
    let current = match &shown {
        ShownPanel::Step(key, _) => key.clone(),
        _ => String::new(),
    };
    let lost = match &shown {
        ShownPanel::Step(key, Some(typed)) if work.contents.step(key).is_none() => {
            Some(typed.json.as_ref().map_or_else(|| typed.typed.told(), |(text, _)| text.clone()))
        }
        _ => None,
    };
    let outline = Outline::new(&work.contents, &names, &findings, &current);
    let described = outline.picture();
    let draft = work.draft.as_ref();
    let now = member.app.clock.now();
    let back = match &work.live {
        Some(_) => member.address(&format!("/automations/{}", work.id)),
        None => member.address("/automations"),
    };
    let content = EditPage {
        layout: member.layout(),
        shell: member.shell("/automations"),
        notice: notice(member),
        trouble: said.trouble,
        lost,
        back,
        address: member.address(&format!("/automations/{}/edit", work.id)),
        name: work.contents.name.clone(),
        live: work.live_version(),
        is_behind: work.is_behind(),
        edited: draft.map(|draft| (draft.author.clone(), Stamp::ago(draft.updated_at, now))),
        undo: draft.filter(|draft| Some(draft.position) > draft.oldest).map(|draft| draft.what.clone()),
        redo: draft.and_then(|draft| draft.ahead.clone()),
        hidden: work.hidden(member),
        findings: findings.len(),
        whole: findings.iter().filter(|finding| finding.step.is_none()).map(|one| one.sentence()).collect(),
        picture: described.picture.zoomed(member.asked("zoom").as_deref()),
        box_names: described.names,
        outline: outline.pieces(),
        loose: outline.loose(),
        events: names::event_names(&member.app.db, member.workspace_id()).await?,
        panel: panel(work, (&names, &offers), &outline, shown, said.status == StatusCode::CONFLICT),
    };
    Ok(web::page(said.status, &content))
}

fn notice(member: &Member<Manage>) -> Option<String> {
    member
        .notice("saved", "Saved in the draft. Runs go by it once it is published.")
        .or(member.notice("added", "The step is added. Say here what it does."))
        .or(member.notice("removed", "The step is removed, and its neighbours are joined."))
        .or(member.notice("moved", "The step is moved."))
        .or(member.notice("connected", "The way leads there now."))
        .or(member.notice("undone", "The last edit is taken back."))
        .or(member.notice("redone", "The edit is back."))
        .or(member.notice("new", "This is a draft: nothing happens before you publish it."))
}

fn panel(work: &Work, known: (&Names, &Offers), outline: &Outline<'_>, shown: ShownPanel, is_conflict: bool) -> Panel {
    let contents = &work.contents;
    match shown {
        ShownPanel::Settings(typed) => Panel::Settings(typed.unwrap_or_else(|| Box::new(SettingsFields::of(contents)))),
        ShownPanel::Add(after, exit, chosen) => match contents.step(&after).filter(|step| step.exits().contains(&exit))
        {
            Some(step) => {
                let is_open = contents.next(&step.key, exit).is_none();
                let fits = |word: &str| is_open || !crate::automations::graph::exits_of(word).is_empty();
                let kinds = KINDS.iter().filter(|kind| fits(kind.word));
                Panel::Add(AddPanel {
                    place: outline::place(&step.key, exit),
                    after,
                    way: exit.as_str(),
                    kinds: kinds.map(|kind| (kind.word, kind.label, kind.does, kind.word == chosen)).collect(),
                })
            }
            None => Panel::Settings(Box::new(SettingsFields::of(contents))),
        },
        ShownPanel::Step(key, typed) => match step_panel(contents, known, outline, &key, typed, is_conflict) {
            Some(panel) => Panel::Step(Box::new(panel)),
            None => Panel::Settings(Box::new(SettingsFields::of(contents))),
        },
    }
}

fn step_panel(
    contents: &Contents,
    (names, offers): (&Names, &Offers),
    outline: &Outline<'_>,
    key: &str,
    typed: Option<TypedStep>,
    is_conflict: bool,
) -> Option<StepPanel> {
    let step = contents.step(key)?;
    let (icon, label, _) = picture::described(&step.kind, &step.config, names);
    let saved = is_conflict.then(|| pretty(&step.config));
    let typed = typed.unwrap_or_else(|| TypedStep {
        key: key.to_owned(),
        key_error: None,
        typed: Typed::of_config(&step.kind, &step.config),
        flaws: Flaws::new(),
        json: None,
    });
    let (json, json_error) = typed.json.unwrap_or_else(|| (pretty(&step.config), None));
    let is_trigger = step.kind == "trigger";
    let way = |exit: &Exit| {
        let next = contents.next(key, *exit);
        let target = |to: &&DraftStep| Choice {
            value: to.key.clone(),
            label: format!("{} ({})", to.sentence(names), to.key),
            is_chosen: next == Some(to.key.as_str()),
        };
        let options = contents.targets(key).iter().map(target).collect();
        WayForm { way: exit.as_str(), label: picture::label(*exit), next: next.map(str::to_owned), options }
    };
    Some(StepPanel {
        saved_key: key.to_owned(),
        label,
        icon,
        sentence: step.sentence(names),
        key: Field { value: typed.key, error: typed.key_error },
        findings: outline.findings(key),
        fields: Fields::new((step.kind.as_str(), &step.config), &typed.typed, &typed.flaws, (names, offers)),
        json: Field { value: json, error: json_error },
        saved,
        previous: contents.leading_to(key).map(|link| link.from.clone()).collect(),
        ways: step.exits().iter().map(way).collect(),
        can_up: contents.above(key).is_some(),
        can_down: contents.below(key).is_some(),
        is_trigger,
        removals: if is_trigger { Vec::new() } else { removals(contents, key, step.exits()) },
    })
}

/// Of a step with two ways on, one has to be chosen.
fn removals(contents: &Contents, key: &str, exits: &'static [Exit]) -> Vec<(&'static str, String)> {
    let led: Vec<&Exit> = exits.iter().filter(|exit| contents.next(key, **exit).is_some()).collect();
    match led.as_slice() {
        [] => vec![("", "Remove".into())],
        [only] => vec![(only.as_str(), "Remove".into())],
        several => {
            let button =
                |exit: &&Exit| (exit.as_str(), format!("Remove, keep what follows “{}”", picture::label(**exit)));
            several.iter().map(button).collect()
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// What happens when the trigger occurs again, in words.
const RE_ENTRIES: [(&str, &str); 3] = [
    ("always", "every time the event happens"),
    ("once_per_contact", "once for each contact"),
    ("one_at_a_time", "one at a time for each contact"),
];

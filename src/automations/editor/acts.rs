//! The edits of a draft. Each is one form; whoever has not seen the draft as it is edits nothing.

use axum::Router;
use axum::routing::post;
use serde_json::Value;

use super::contents::{Contents, KINDS};
use super::store;
use super::typed::{Flaws, Typed};
use super::values;
use super::view::{Said, SettingsFields, ShownPanel, TypedStep, edit_page, encoded};
use super::work::{Work, gone};
use crate::accounts::{Manage, Member};
use crate::app::App;
use crate::automations::automation::{AutomationName, ExitEvent, ReEntry};
use crate::automations::graph::Exit;
use crate::db::DbError;
use crate::error::Error;
use crate::id::AutomationId;
use crate::web::{BODY_LIMIT, Form, LongForm, PageResult, PathId};

type Id = Result<PathId<AutomationId>, Error>;

pub fn router() -> Router<App> {
    Router::new()
        .route("/automations/{id}/edit/settings", post(settings))
        .route("/automations/{id}/edit/step", post(step))
        .route("/automations/{id}/edit/json", post(json))
        .route("/automations/{id}/edit/add", post(add))
        .route("/automations/{id}/edit/connect", post(connect))
        .route("/automations/{id}/edit/move", post(move_step))
        .route("/automations/{id}/edit/remove", post(remove))
        .route("/automations/{id}/edit/undo", post(undo))
        .route("/automations/{id}/edit/redo", post(redo))
}

/// An edit that can be made: what it is called, what comes of it, and the page that follows.
struct Made {
    what: String,
    contents: Contents,
    next: String,
}

/// One that cannot: what to show instead.
struct Refused(Box<(ShownPanel, Said)>);

fn refused(shown: ShownPanel, said: Said) -> Refused {
    Refused(Box::new((shown, said)))
}

/// The one way in which a draft is edited. `typed` keeps what was typed, for the page that says why nothing was saved.
async fn edit(
    member: &Member<Manage>,
    id: Id,
    form: &Form,
    typed: impl Fn(&Work) -> ShownPanel,
    make: impl FnOnce(&Work) -> Result<Made, Refused>,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let work = Work::find(member, id).await?;
    let accepted = work.accept(member, form)?;
    if !work.is_seen(form) {
        return edit_page(member, &work, typed(&work), Said::conflict(&work)).await;
    }
    let made = match make(&work) {
        Ok(made) => made,
        Err(Refused(instead)) => {
            let (shown, said) = *instead;
            return edit_page(member, &work, shown, said).await;
        }
    };
    if made.contents != work.contents {
        // Each edit keeps all of it: what no program could send does not become a draft either.
        let size = |contents: &Contents| serde_json::to_string(contents).map_or(0, |text| text.len());
        if size(&made.contents) > BODY_LIMIT.max(size(&work.contents)) {
            let said = Said::refused("The automation would be larger than 1 MiB, so nothing was saved.");
            return edit_page(member, &work, typed(&work), said).await;
        }
        match accepted.commit(work.save(member, &made.what, &made.contents)).await? {
            Ok(_) => {}
            Err(DbError::Unexpected { .. } | DbError::Duplicate(_)) => {
                let newer = Work::find(member, id).await?;
                return edit_page(member, &newer, typed(&newer), Said::conflict(&newer)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(member.see_other(&format!("/automations/{id}/edit?{}", made.next)))
}

fn step_page(done: &str, key: &str) -> String {
    format!("{done}&step={}", encoded(key))
}

/// The step that a form is about.
fn named(form: &Form) -> String {
    form.text("step")
}

fn way(form: &Form) -> Option<Exit> {
    Exit::parse(&form.text("way"))
}

async fn settings(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let typed = |_: &Work| ShownPanel::Settings(Some(Box::new(SettingsFields::of_form(&form))));
    let make = |work: &Work| {
        let mut fields = SettingsFields::of_form(&form);
        let name = AutomationName::try_from(fields.name.value.clone());
        let exit_on = Some(fields.exit_on.value.trim().to_owned()).filter(|name| !name.is_empty());
        let exit = exit_on.clone().map(ExitEvent::try_from).transpose();
        let window = Typed::of_form(&form).window();
        let re_entry = ReEntry::parse(&fields.re_entry);
        match (name, exit, window, re_entry) {
            (Ok(name), Ok(_), Ok(send_window), Some(re_entry)) => {
                let contents = Contents {
                    name: name.as_str().to_owned(),
                    re_entry: re_entry.as_str().to_owned(),
                    exit_on,
                    send_window,
                    ..work.contents.clone()
                };
                Ok(Made { what: "changing the settings".into(), contents, next: "saved".into() })
            }
            (name, exit, window, _) => {
                fields.name.error = name.err().map(|flaw| format!("The name {flaw}."));
                fields.exit_on.error = exit.err().map(|flaw| format!("This {flaw}."));
                fields.window.error = window.err();
                Err(refused(
                    ShownPanel::Settings(Some(Box::new(fields))),
                    Said::refused("The settings are not saved yet."),
                ))
            }
        }
    };
    edit(&member, id, &form, typed, make).await
}

fn typed_step(form: &Form) -> TypedStep {
    TypedStep { key: form.text("key"), key_error: None, typed: Typed::of_form(form), flaws: Flaws::new(), json: None }
}

/// `typed` is what was typed for the step, which the page shows.
fn lost_step(form: &Form, typed: ShownPanel) -> Refused {
    refused(typed, Said::refused(format!("The step `{}` is gone: somebody has removed it.", named(form))))
}

async fn step(member: Member<Manage>, id: Id, form: LongForm) -> PageResult {
    let typed = |_: &Work| ShownPanel::Step(named(&form), Some(typed_step(&form)));
    let make = |work: &Work| {
        let Some(step) = work.contents.step(&named(&form)) else { return Err(lost_step(&form, typed(work))) };
        let mut typed = typed_step(&form);
        let mut contents = work.contents.clone();
        let flaws = match typed.typed.config(&step.kind, &step.config) {
            Ok(config) => match contents.change(&step.key, typed.key.trim(), config) {
                Ok(()) => {
                    let next = step_page("saved", typed.key.trim());
                    return Ok(Made { what: format!("changing {}", step.key), contents, next });
                }
                Err(flaw) => {
                    typed.key_error = Some(flaw);
                    Flaws::new()
                }
            },
            Err(flaws) => flaws,
        };
        typed.flaws = flaws;
        Err(refused(ShownPanel::Step(step.key.clone(), Some(typed)), Said::refused("The step is not saved yet.")))
    };
    edit(&member, id, &form, typed, make).await
}

/// The configuration of a step as JSON, for what its form cannot say.
async fn json(member: Member<Manage>, id: Id, form: LongForm) -> PageResult {
    let text = values::lines(&form.text("config"));
    let shown = |work: &Work, error: Option<String>| {
        let key = named(&form);
        let config = work.contents.step(&key).map(|step| Typed::of_config(&step.kind, &step.config));
        let typed = TypedStep {
            key: key.clone(),
            key_error: None,
            typed: config.unwrap_or_default(),
            flaws: Flaws::new(),
            json: Some((text.clone(), error)),
        };
        ShownPanel::Step(key, Some(typed))
    };
    let make = |work: &Work| {
        let Some(step) = work.contents.step(&named(&form)) else { return Err(lost_step(&form, shown(work, None))) };
        let config = match serde_json::from_str::<Value>(&text) {
            Ok(config @ Value::Object(_)) => config,
            Ok(_) => {
                return Err(refused(
                    shown(work, Some("This must be an object.".into())),
                    Said::refused("It is not saved yet."),
                ));
            }
            Err(flaw) => {
                let error = format!("This is not JSON: {flaw}.");
                return Err(refused(shown(work, Some(error)), Said::refused("It is not saved yet.")));
            }
        };
        let mut contents = work.contents.clone();
        let changed = contents.change(&step.key, &step.key, config);
        changed.map_err(|flaw| refused(shown(work, Some(flaw)), Said::refused("It is not saved yet.")))?;
        Ok(Made { what: format!("changing {}", step.key), contents, next: step_page("saved", &step.key) })
    };
    edit(&member, id, &form, |work| shown(work, None), make).await
}

async fn add(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let (after, exit) = (form.text("after"), way(&form).unwrap_or(Exit::Default));
    let chosen = form.text("type");
    let here = |_: &Work| ShownPanel::Add(after.clone(), exit, chosen.clone());
    let make = |work: &Work| {
        let Some(kind) = KINDS.iter().find(|kind| kind.word == chosen) else {
            return Err(refused(here(work), Said::refused("Choose what the new step does.")));
        };
        let mut contents = work.contents.clone();
        let key = contents.add(&after, exit, kind).map_err(|flaw| refused(here(work), Said::refused(flaw)))?;
        Ok(Made { what: format!("adding {key}"), next: step_page("added", &key), contents })
    };
    edit(&member, id, &form, here, make).await
}

/// An edit of how steps lead to one another.
async fn rearrange(
    member: &Member<Manage>,
    id: Id,
    form: &Form,
    (what, next): (String, String),
    change: impl FnOnce(&mut Contents) -> Result<(), String>,
) -> PageResult {
    let here = |_: &Work| ShownPanel::Step(named(form), None);
    let make = |work: &Work| {
        let mut contents = work.contents.clone();
        change(&mut contents).map_err(|flaw| refused(here(work), Said::refused(flaw)))?;
        Ok(Made { what, contents, next })
    };
    edit(member, id, form, here, make).await
}

async fn connect(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let (key, exit, to) = (named(&form), way(&form).unwrap_or(Exit::Default), form.text("to"));
    let to = Some(to).filter(|to| !to.is_empty());
    let told = (format!("connecting {key}"), step_page("connected", &key));
    rearrange(&member, id, &form, told, |contents| contents.connect(&key, exit, to.as_deref())).await
}

async fn move_step(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let key = named(&form);
    let told = (format!("moving {key}"), step_page("moved", &key));
    let is_up = form.text("direction") == "up";
    let change = |contents: &mut Contents| if is_up { contents.move_up(&key) } else { contents.move_down(&key) };
    rearrange(&member, id, &form, told, change).await
}

async fn remove(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let (key, keep) = (named(&form), Exit::parse(&form.text("keep")));
    let told = (format!("removing {key}"), "removed".to_owned());
    rearrange(&member, id, &form, told, |contents| contents.remove(&key, keep)).await
}

async fn undo(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    travel(&member, id, &form, -1, "undone").await
}

async fn redo(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    travel(&member, id, &form, 1, "redone").await
}

/// Goes to the snapshot before or behind.
async fn travel(member: &Member<Manage>, id: Id, form: &Form, steps: i64, done: &str) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let work = Work::find(member, id).await?;
    let accepted = work.accept(member, form)?;
    let batch = work.draft.as_ref().filter(|_| work.is_seen(form)).and_then(|draft| {
        let is_there = if steps < 0 { Some(draft.position) > draft.oldest } else { draft.ahead.is_some() };
        is_there.then(|| store::go_to(work.edit(member), draft, draft.position + steps))
    });
    let Some(batch) = batch else {
        return edit_page(member, &work, ShownPanel::Settings(None), Said::conflict(&work)).await;
    };
    let settled = accepted.commit(batch).await?;
    match settled {
        Ok(_) => Ok(member.see_other(&format!("/automations/{id}/edit?{done}"))),
        Err(DbError::Unexpected { .. }) => {
            let newer = Work::find(member, id).await?;
            edit_page(member, &newer, ShownPanel::Settings(None), Said::conflict(&newer)).await
        }
        Err(error) => Err(error.into()),
    }
}

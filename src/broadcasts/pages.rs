//! Broadcasts in the dashboard: how far they are, what came of them, and what stops them.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State as Shared};
use axum::routing::get;
use http::StatusCode;

use super::actions::Act;
use super::broadcast::{Broadcast, State};
use super::progress::{Progress, ProgressByNow};
use super::shapes::state_word;
use super::{Broadcasts, page_acts, page_edit, page_recipients, page_review, store};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::db::DbError;
use crate::error::Error;
use crate::id::BroadcastId;
use crate::web::{self, ConfirmPage, Form, Layout, Leaf, PageResult, PathId, Shell, Stamp};

pub fn router() -> Router<Broadcasts> {
    Router::new()
        .route("/broadcasts", get(list))
        .route("/broadcasts/{id}", get(show))
        .route("/broadcasts/{id}/{act}", get(ask).post(decide))
        .merge(page_edit::router())
        .merge(page_review::router())
        .merge(page_acts::router())
        .merge(page_recipients::router())
}

/// How a state is shown.
struct Badge {
    look: &'static str,
    word: &'static str,
}

impl From<&Broadcast> for Badge {
    fn from(broadcast: &Broadcast) -> Badge {
        let look = match broadcast.state {
            State::Draft | State::Scheduled | State::Canceled => "off",
            State::Sending | State::Paused => "busy",
            State::Sent => "good",
        };
        let word = match state_word(broadcast) {
            "draft" => "Draft",
            "scheduled" => "Scheduled",
            "preparing" => "Preparing",
            "sending" => "Sending",
            "paused" => "Paused",
            "canceled" => "Canceled",
            _ => "Sent",
        };
        Badge { look, word }
    }
}

#[derive(Template)]
#[template(path = "broadcasts/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    /// Where a new one is written, for those who may.
    new: Option<String>,
    broadcasts: Vec<Row>,
    newer: Option<String>,
    older: Option<String>,
}

struct Row {
    href: String,
    name: String,
    state: Badge,
    progress: String,
    created: Stamp,
}

async fn list(member: Member<Look>, Shared(broadcasts): Shared<Broadcasts>) -> PageResult {
    let page = member.page()?;
    let rows = member.read(store::page(member.workspace_id(), &page)).await?;
    let stored: Result<Vec<Broadcast>, DbError> = rows.iter().map(Broadcast::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &member.address("/broadcasts"), |one| one.id);
    let now = member.app.clock.now();
    let mut rows = Vec::with_capacity(items.len());
    for one in items {
        // Only what moves is counted: others have their own page for it.
        let progress = match one.state {
            State::Sending | State::Paused => broadcasts.progress_by_now(&one).await?.progress,
            _ => None,
        };
        rows.push(Row {
            href: member.address(&format!("/broadcasts/{}", one.id)),
            state: (&one).into(),
            progress: progress.map_or_else(|| recipients(one.recipients), |progress| share(&progress)),
            created: Stamp::ago(one.created_at, now),
            name: one.content.name,
        });
    }
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        notice: member.notice("deleted", "The draft is deleted."),
        new: member.may_manage().then(|| member.address("/broadcasts/new")),
        broadcasts: rows,
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn recipients(count: i64) -> String {
    match count {
        0 => String::new(),
        1 => "1 recipient".into(),
        count => format!("{count} recipients"),
    }
}

/// A length of time, as exactly as a guess can be.
fn duration(seconds: i64) -> String {
    match seconds {
        ..=1 => "a second is".into(),
        2..120 => format!("{seconds} seconds are"),
        120..7_200 => format!("{} minutes are", seconds / 60),
        7_200..172_800 => format!("{} hours are", seconds / 3_600),
        _ => format!("{} days are", seconds / 86_400),
    }
}

fn share(progress: &Progress) -> String {
    format!("{} of {}", progress.recipients - progress.counts.waiting(), progress.recipients)
}

#[derive(Template)]
#[template(path = "broadcasts/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    reason: Option<String>,
    back: String,
    id: BroadcastId,
    name: String,
    state: Badge,
    from: String,
    subject: String,
    scheduled: Option<Stamp>,
    started: Option<Stamp>,
    ended: Option<Stamp>,
    progress: Option<ProgressShown>,
    /// Whether so many are being counted that nothing is known of them yet, and how many they are.
    is_being_counted: bool,
    recipients: String,
    /// Where those are listed of whom somebody has to decide.
    uncertain: Option<String>,
    acts: Vec<Button>,
    /// Links to what can be done with it.
    links: Vec<(&'static str, &'static str, String)>,
    /// Whether it is about to change by itself.
    is_moving: bool,
}

struct ProgressShown {
    recipients: i64,
    ended: i64,
    sentence: String,
    /// How many are put off, and the first of them until when.
    put_off: Option<(i64, Stamp)>,
    /// What is said behind that.
    more: String,
    counts: Vec<(&'static str, i64)>,
    /// Links that were clicked, and how often, by people.
    links: Vec<(String, i64)>,
}

/// A form with nothing but a button.
struct Button {
    label: &'static str,
    look: &'static str,
    action: String,
    hidden: Vec<(String, String)>,
}

impl From<Progress> for ProgressShown {
    fn from(progress: Progress) -> ProgressShown {
        let counts = &progress.counts;
        let all = [
            ("Queued", counts.queued),
            ("Delayed", counts.delivery_delayed),
            ("Uncertain", counts.uncertain),
            ("Sent", counts.sent),
            ("Delivered", counts.delivered),
            ("Opened", counts.opened),
            ("Clicked", counts.clicked),
            ("Suppressed", counts.suppressed),
            ("Failed", counts.failed),
            ("Bounced", counts.bounced),
            ("Complained", counts.complained),
            ("Canceled", counts.canceled),
            ("Left out", progress.left_out.values().sum()),
        ];
        let done = &progress.engagement;
        let mut sentence = format!("{} recipients.", share(&progress));
        if progress.rate > 0.0 {
            sentence += &format!(" {} a second.", progress.rate);
        }
        if let Some(seconds) = progress.seconds_left {
            sentence += &format!(" About {} left.", duration(seconds));
        }
        let mut more = String::new();
        if let Some(why) = &progress.waits_for {
            more += &format!(" Some wait: {why}.");
        }
        if done.opens + done.clicks > 0 {
            more += &format!(
                " People opened it {} times and clicked {} times; machines opened it {} times and clicked {} times.",
                done.opens - done.machine_opens,
                done.clicks - done.machine_clicks,
                done.machine_opens,
                done.machine_clicks
            );
        }
        ProgressShown {
            recipients: progress.recipients,
            ended: progress.recipients - counts.waiting(),
            sentence,
            put_off: progress.next_at.map(|at| (progress.put_off, Stamp::exact(at.0).with_zone())),
            more,
            counts: all.into_iter().filter(|(_, count)| *count > 0).collect(),
            links: progress
                .engagement
                .links
                .iter()
                .map(|link| (link.url.clone(), link.clicks - link.machine_clicks))
                .collect(),
        }
    }
}

pub fn gone() -> Error {
    Error::not_found("There is no such broadcast here.")
}

pub async fn find<D: Duty>(member: &Member<D>, id: BroadcastId) -> Result<Broadcast, Error> {
    let rows = member.read(store::by_id(member.workspace_id(), id)).await?;
    Ok(Broadcast::read(rows.first().ok_or_else(gone)?)?)
}

fn purpose(act: Act, id: BroadcastId) -> String {
    format!("{act} broadcast {id}")
}

async fn show(
    member: Member<Look>,
    Shared(broadcasts): Shared<Broadcasts>,
    id: Result<PathId<BroadcastId>, Error>,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let broadcast = find(&member, id).await?;
    let ProgressByNow { progress, is_being_counted } = broadcasts.progress_by_now(&broadcast).await?;
    let is_uncertain = progress.as_ref().is_some_and(|progress| progress.counts.uncertain > 0);
    let button = |(act, label, look)| Button {
        label,
        look,
        action: member.address(&format!("/broadcasts/{id}/{act}")),
        hidden: member.hidden(&purpose(act, id)),
    };
    let at_once = [(Act::Pause, "Pause", ""), (Act::Resume, "Resume", "primary")];
    let is_open = |act: Act| member.may_manage() && act.is_open(broadcast.state);
    let done = |act: Act| {
        let sentence = match act {
            Act::Pause => "It rests.",
            Act::Resume => "It goes on.",
            Act::Cancel => "The rest is not sent.",
        };
        member.notice(act.as_str(), sentence)
    };
    let here = member.address(&format!("/broadcasts/{id}"));
    let copy = member.may_manage().then(|| Button {
        label: "Duplicate",
        look: "",
        action: format!("{here}/duplicate"),
        hidden: page_acts::copying(&member, id),
    });
    let mut links = match broadcast.state {
        State::Draft if member.may_manage() => vec![
            ("Review and send…", "primary", format!("{here}/review")),
            ("Edit", "", format!("{here}/edit")),
            ("Delete…", "danger", format!("{here}/delete")),
        ],
        State::Draft | State::Scheduled => Vec::new(),
        _ => vec![("Recipients", "", format!("{here}/recipients"))],
    };
    if is_open(Act::Cancel) {
        links.push(("Cancel…", "danger", format!("{here}/{}", Act::Cancel)));
    }
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        notice: Act::ALL
            .into_iter()
            .find_map(done)
            .or(member.notice("sending", "It is being sent."))
            .or(member.notice("scheduled", "It is scheduled."))
            .or(member.notice("copied", "This is the copy. It is a draft.")),
        reason: broadcast.reason.clone(),
        back: member.address("/broadcasts"),
        id,
        state: (&broadcast).into(),
        name: broadcast.content.name.clone(),
        from: broadcast.content.sender.clone(),
        subject: broadcast.content.subject.clone(),
        scheduled: broadcast.scheduled_at.map(Stamp::exact),
        started: broadcast.started_at.map(Stamp::exact),
        ended: broadcast.ended_at.map(Stamp::exact),
        progress: progress.map(Into::into),
        is_being_counted,
        recipients: recipients(broadcast.recipients),
        uncertain: is_uncertain.then(|| member.address(&format!("/emails/{}", broadcast.email_id()))),
        acts: at_once.into_iter().filter(|(act, ..)| is_open(*act)).map(button).chain(copy).collect(),
        links,
        is_moving: matches!(broadcast.state, State::Scheduled | State::Sending),
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// Only what cannot be taken back is asked for.
async fn ask(member: Member<Manage>, Path((id, act)): Path<(String, String)>) -> PageResult {
    let act = Act::parse(&act).filter(|act| *act == Act::Cancel).ok_or_else(gone)?;
    let id = id.parse().map_err(|_| gone())?;
    let broadcast = find(&member, id).await?;
    if !act.is_open(broadcast.state) {
        return Err(act.refusal(&broadcast).into());
    }
    let sentence = match broadcast.state {
        State::Scheduled => "It is not sent at its time, and is a draft again.",
        _ => {
            "Whoever has not got it yet does not get it. What has left is not called back. This cannot be undone; Pause \
             only holds it."
        }
    };
    let address = member.address(&format!("/broadcasts/{id}"));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        title: "Cancel this broadcast?".into(),
        subject: broadcast.content.name,
        sentence: sentence.into(),
        action: format!("{address}/{act}"),
        hidden: member.hidden(&purpose(act, id)),
        button: "Cancel the broadcast".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn decide(
    member: Member<Manage>,
    Shared(broadcasts): Shared<Broadcasts>,
    Path((id, act)): Path<(String, String)>,
    form: Form,
) -> PageResult {
    let (id, act) = (id.parse().map_err(|_| gone())?, Act::parse(&act).ok_or_else(gone)?);
    let accepted = member.accept(&purpose(act, id), &form)?;
    let broadcast = find(&member, id).await?;
    if !act.is_open(broadcast.state) {
        return Err(act.refusal(&broadcast).into());
    }
    match accepted.commit(act.batch(&broadcasts, member.workspace_id(), &broadcast)).await? {
        Err(DbError::Unexpected { .. }) => return Err(act.refusal(&find(&member, id).await?).into()),
        settled => drop(settled?),
    }
    broadcasts.stirred();
    Ok(member.see_other(&format!("/broadcasts/{id}?{act}")))
}

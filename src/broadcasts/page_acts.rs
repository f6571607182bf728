//! Copies of broadcasts, and their end.

use axum::Router;
use axum::extract::State as Shared;
use axum::routing::{get, post};
use http::StatusCode;

use super::Broadcasts;
use super::actions::copy_of;
use super::page_edit::draft;
use super::page_review::content_of;
use super::pages::gone;
use super::routes::new_id;
use super::store::{self, Launch};
use crate::accounts::{Duty, Manage, Member};
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::{BroadcastId, shared_id};
use crate::web::{self, ConfirmPage, Form, PageResult, PathId};

pub fn router() -> Router<Broadcasts> {
    Router::new()
        .route("/broadcasts/{id}/duplicate", post(duplicate))
        .route("/broadcasts/{id}/delete", get(ask_delete).post(delete))
}

type Id = Result<PathId<BroadcastId>, Error>;

fn purpose(act: &str, id: BroadcastId) -> String {
    format!("{act} broadcast {id}")
}

fn duplicating(id: BroadcastId) -> String {
    format!("duplicate broadcast {id} as")
}

/// The fields of the form that copies a broadcast.
pub fn copying<D: Duty>(member: &Member<D>, id: BroadcastId) -> Vec<(String, String)> {
    let copy: BroadcastId = shared_id(member.app.clock.ordered_id());
    member.hidden_making(&duplicating(id), copy)
}

async fn duplicate(member: Member<Manage>, Shared(broadcasts): Shared<Broadcasts>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let (copy, accepted) = member.accept_making(&duplicating(id), &form)?;
    let copy: BroadcastId = shared_id(copy);
    let content = copy_of(content_of(&member, id).await?);
    let (_, lane) = new_id(&broadcasts.clock);
    let (whose, now) = ((member.workspace_id(), copy, lane), broadcasts.clock.now());
    match accepted.try_commit(|| store::insert(whose, &content, &Launch::NONE, now).into()).await? {
        Err(DbError::Duplicate(_)) => {}
        settled => drop(settled?),
    }
    Ok(member.see_other(&format!("/broadcasts/{copy}?copied")))
}

async fn ask_delete(member: Member<Manage>, id: Id) -> PageResult {
    let (broadcast, _) = draft(&member, id).await?;
    let address = member.address(&format!("/broadcasts/{}", broadcast.id));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/broadcasts"),
        title: "Delete this draft?".into(),
        subject: broadcast.content.name,
        sentence: "Nobody has got it. What it says is gone with it. This cannot be undone.".into(),
        action: format!("{address}/delete"),
        hidden: member.hidden(&purpose("delete", broadcast.id)),
        button: "Delete".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose("delete", id), &form)?;
    draft(&member, Ok(PathId(id))).await?;
    let gone_by_now = accepted.try_commit(|| store::delete(member.workspace_id(), id).into()).await?;
    gone_by_now.or_missing(gone)?;
    Ok(member.see_other("/broadcasts?deleted"))
}

//! Connected apps: what people of a workspace have approved, and taking it back.

use std::str::FromStr;

use axum::Router;
use axum::routing::get;
use http::StatusCode;

use super::pages::{AppsPage, GrantRow, RevokePage};
use super::store::{self, DELETED_CLIENT, Listed};
use crate::accounts::{Look, Manage, Member};
use crate::error::{Error, OrMissing};
use crate::grants::{self, Kept, Reason};
use crate::id::GrantId;
use crate::oauth::OAuth;
use crate::web::{self, Form, Leaf, PageResult, PathId, Stamp};

pub fn router() -> Router<OAuth> {
    Router::new().route("/apps", get(list)).route("/apps/{id}/revoke", get(ask).post(revoke))
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let listed: Vec<Listed> = member.query(store::page(member.workspace_id(), &page)).await?;
    let Leaf { items, newer, older } = page.leaf(listed, &member.address("/apps"), |grant| grant.id);
    let content = AppsPage {
        layout: member.layout(),
        shell: member.shell("/apps"),
        notice: member.notice("revoked", "The app’s access is revoked."),
        may_manage: member.may_manage(),
        grants: items.into_iter().map(|grant| row(&member, grant)).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

fn row(member: &Member<Look>, grant: Listed) -> GrantRow {
    let now = member.app.clock.now();
    let revoked = grant.revoked_at.is_some();
    let (active, status) = match (revoked, &grant.client_name) {
        (true, _) => (false, "Revoked"),
        // Its tokens are refused, though nobody took this back: it was deleted before that ended grants.
        (false, None) => (false, "OAuth deleted"),
        (false, Some(_)) => (true, "Active"),
    };
    GrantRow {
        verified: grant.is_verified(),
        scopes: grant.scopes.iter().map(|scope| scope.as_str()).collect(),
        approved_at: Stamp::ago(grant.created_at, now),
        last_used: grant.last_used_at.map(|at| Stamp::ago(at, now)),
        active,
        status,
        reason: grant.revoked_reason.as_deref().and_then(in_words),
        revoke_url: (!revoked && member.may_manage()).then(|| member.address(&format!("/apps/{}/revoke", grant.id))),
        client: grant.client_name.unwrap_or_else(|| DELETED_CLIENT.into()),
        approved_by: approver(grant.approved_by),
    }
}

fn approver(email: Option<String>) -> String {
    email.unwrap_or_else(|| "somebody who is gone".into())
}

/// Why a grant ended, for whoever wonders.
fn in_words(reason: &str) -> Option<&'static str> {
    let words = |reason: Reason| match reason {
        Reason::CodeReuse => "its code was used twice: somebody may have copied it",
        Reason::RefreshReuse => "its refresh token was used twice: somebody may have copied it",
        Reason::Client => "given back by the app",
        Reason::Api => "through the API",
        Reason::Dashboard => "in the dashboard",
        Reason::UserDisabled => "whoever approved it was shut out",
        Reason::UserRemoved => "whoever approved it left the workspace",
        Reason::ClientDeleted => "the app was deleted",
    };
    Reason::ALL.into_iter().find(|known| known.as_str() == reason).map(words)
}

fn gone() -> Error {
    Error::not_found("This app has no access here. It may have been revoked already.")
}

fn purpose(id: GrantId) -> String {
    format!("revoke grant {id}")
}

async fn ask(member: Member<Manage>, id: Result<PathId<GrantId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let grant: Option<Listed> = member.query(store::by_id(member.workspace_id(), id)).await?;
    let grant = grant.filter(|grant| grant.revoked_at.is_none()).ok_or_else(gone)?;
    let content = RevokePage {
        layout: member.layout(),
        shell: member.shell("/apps"),
        client: grant.client_name.unwrap_or_else(|| DELETED_CLIENT.into()),
        client_id: grant.client_id,
        scopes: grant.scopes.iter().map(|scope| scope.as_str()).collect(),
        approved_by: approver(grant.approved_by),
        automations: member.query(grants::automations_of(member.workspace_id(), id)).await?,
        webhooks: member.query(grants::webhooks_of(member.workspace_id(), id)).await?,
        action: member.address(&format!("/apps/{id}/revoke")),
        hidden: member.hidden(&purpose(id)),
        cancel: member.address("/apps"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn revoke(member: Member<Manage>, id: Result<PathId<GrantId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose(id), &form)?;
    let kept = Kept { automations: chosen(&form, "keep"), webhooks: chosen(&form, "keep_webhook") };
    let at = (&member.app.clock, member.app.clock.now());
    let batch = grants::revoke_in(member.workspace_id(), id, Reason::Dashboard, &kept, at);
    accepted.commit(batch).await?.or_missing(gone)?;
    Ok(member.see_other("/apps?revoked"))
}

/// The ids of the boxes that are checked.
fn chosen<Id: FromStr>(form: &Form, field: &str) -> Vec<Id> {
    form.all(field).iter().filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_that_the_store_keeps_has_words() {
        assert!(Reason::ALL.into_iter().all(|reason| in_words(reason.as_str()).is_some()));
        assert_eq!(in_words("something else"), None);
    }
}

//! Forms, and who was asked, in the store.

use uuid::Uuid;

use super::confirmation::LIFETIME;
use super::form::Form;
use crate::app::App;
use crate::contacts::Email;
use crate::db::{DbError, Row, Sql, Stmt, statements};
use crate::id::{FormId, WorkspaceId};
use crate::web::Page;

statements! {
    lists {
        OLDER, NEWER, BY_ID =
            "SELECT id, name, sender, heading, text, redirect_url, segment_id, topic_ids, enabled, created_at
             FROM forms WHERE workspace_id = $1" by "id";
    }
    functions {
        pub fn insert(workspace_id: WorkspaceId, form: &Form)
            with [workspace_id, form.id, &form.name, &form.from, form.heading.as_deref(), form.text.as_deref(),
                form.redirect_url.as_deref(), form.segment_id, topics(form), form.enabled, form.created_at] = Sql::both(
            "INSERT INTO forms (workspace_id, id, name, sender, heading, text, redirect_url, segment_id, topic_ids,
                 enabled, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
        pub fn replace(workspace_id: WorkspaceId, form: &Form)
            with [workspace_id, form.id, &form.name, &form.from, form.heading.as_deref(), form.text.as_deref(),
                form.redirect_url.as_deref(), form.segment_id, topics(form), form.enabled] expects 1 = Sql::both(
            "UPDATE forms SET name = $3, sender = $4, heading = $5, text = $6, redirect_url = $7, segment_id = $8,
                 topic_ids = $9, enabled = $10
             WHERE workspace_id = $1 AND id = $2");
        pub fn delete(workspace_id: WorkspaceId, id: FormId) expects 1 = Sql::both(
            "DELETE FROM forms WHERE workspace_id = $1 AND id = $2");
        pub fn delete_signups(workspace_id: WorkspaceId, id: FormId) = Sql::both(
            "DELETE FROM form_signups WHERE workspace_id = $1 AND form_id = $2");
        /// Whosever form it is: strangers know nothing of workspaces.
        pub fn of_anybody(id: FormId) = Sql::both(
            "SELECT id, name, sender, heading, text, redirect_url, segment_id, topic_ids, enabled, created_at,
                 workspace_id
             FROM forms WHERE id = $1");
        /// An address is asked, unless the workspace has asked it a while ago.
        pub fn ask(signup: &Signup, now: i64, since: i64)
            with [signup.workspace_id, signup.form_id, signup.email.key(), signup.id, signup.email.as_str(), now, since]
            expects 1 = Sql::both(
            "INSERT INTO form_signups (workspace_id, form_id, email_key, id, email, asked_at)
             SELECT $1, $2, $3, $4, $5, CAST($6 AS BIGINT)
             WHERE NOT EXISTS (SELECT 1 FROM form_signups f
                 WHERE f.workspace_id = $1 AND f.email_key = $3 AND f.asked_at > $7)
             ON CONFLICT (workspace_id, email_key, form_id) DO UPDATE SET
                 id = excluded.id, email = excluded.email, asked_at = excluded.asked_at, confirmed_at = NULL");
        pub fn signup(id: Uuid) = Sql::both(
            "SELECT workspace_id, form_id, id, email, confirmed_at FROM form_signups WHERE id = $1");
        /// Once.
        pub fn confirm(id: Uuid, now: i64) expects 1 = Sql::both(
            "UPDATE form_signups SET confirmed_at = $2 WHERE id = $1 AND confirmed_at IS NULL");
        fn forget_asked_before(time: i64) = Sql::both("DELETE FROM form_signups WHERE asked_at < $1");
    }
}

fn topics(form: &Form) -> String {
    serde_json::to_string(&form.topics).unwrap_or_default()
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn by_id(workspace_id: WorkspaceId, id: FormId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

/// An address that is asked, or was.
pub struct Signup {
    pub workspace_id: WorkspaceId,
    pub form_id: FormId,
    pub id: Uuid,
    pub email: Email,
    pub is_confirmed: bool,
}

impl Signup {
    pub fn read(row: &Row) -> Result<Signup, DbError> {
        let email = Email::read(&row.text(3)?).ok_or_else(|| DbError::Broken("the address of a sign-up".into()))?;
        Ok(Signup {
            workspace_id: row.id(0)?,
            form_id: row.id(1)?,
            id: row.id(2)?,
            email,
            is_confirmed: row.maybe(4, Row::int)?.is_some(),
        })
    }
}

/// Forgets whom nobody can confirm any more.
pub async fn sweep(app: &App) -> Result<(), DbError> {
    app.db.commit(forget_asked_before(app.clock.now() - LIFETIME)).await.map(drop)
}

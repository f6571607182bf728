//! The mail of one recipient, for whoever wants to read it.

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::mailing::Mailing;
use crate::app::App;
use crate::db::{DbError, Row, Sql, statements};
use crate::emails::{self, OwnMails, Stored};
use crate::id::{ContactId, EmailId};

statements! {
    functions {
        fn recipient(email_id: EmailId, number: i64) = Sql::both(
            "SELECT address, contact_id FROM email_recipients WHERE email_id = $1 AND number = $2");
    }
}

/// Writes mails of broadcasts to be read. What a mail was made of is kept while it may be tried again; after that it is
/// made of what is known of its contact now.
pub struct MailsToRead;

impl OwnMails for MailsToRead {
    fn write<'a>(
        &'a self,
        app: &'a App,
        email_id: EmailId,
        number: i64,
    ) -> BoxFuture<'a, Result<Option<Stored>, DbError>> {
        Box::pin(write(app, email_id, number))
    }
}

async fn write(app: &App, email_id: EmailId, number: i64) -> Result<Option<Stored>, DbError> {
    let rows = app.db.read(recipient(email_id, number)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (address, contact_id) = (row.text(0)?, row.maybe(1, Row::id)?);
    let (Some(contact_id), Some(mailing)) = (contact_id, Mailing::load(app, email_id).await?) else { return Ok(None) };
    let Some(values) = values(app, &mailing, (email_id, number), contact_id).await? else { return Ok(None) };
    let write = move || mailing.write(number, &address, &values).ok();
    let written = app.admission.build(write).await;
    written.map_err(|error| DbError::Unavailable(error.message().into_owned()))
}

/// What the mail is made of.
async fn values(
    app: &App,
    mailing: &Mailing,
    (email_id, number): (EmailId, i64),
    contact_id: ContactId,
) -> Result<Option<Map<String, Value>>, DbError> {
    let kept = app.db.read(emails::kept_values(email_id, &[number])).await?;
    match kept.first() {
        Some(row) => Ok(serde_json::from_str(&row.text(1)?).ok()),
        None => mailing.setting().known_of(&app.db, (contact_id, number)).await,
    }
}

//! What a stranger asks for with a form, and what he confirms.

use uuid::Uuid;

use super::form::Form;
use super::store::{self, Signup};
use super::{Forms, confirmation};
use crate::clock::HOUR;
use crate::contacts::{self, Email};
use crate::emails::{self, Content, NewEmail, Origin};
use crate::error::Error;
use crate::id::{FormId, WorkspaceId};
use crate::mime::{Header, Mailbox};
use crate::topics::{Choice, Subscription};

/// An address is asked once in this while, however many forms it is typed into.
const ASKED_ONCE_IN: i64 = HOUR;

/// A form that is there, and whose it is.
pub async fn find(forms: &Forms, id: FormId) -> Result<Option<(WorkspaceId, Form)>, Error> {
    let rows = forms.db.read(store::of_anybody(id)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some((row.id(10)?, Form::read(row)?)))
}

/// Asks whoever has this address, unless that was done a while ago. Whether the address is a
/// contact's makes no difference.
pub async fn ask(
    forms: &Forms,
    (workspace_id, form): (WorkspaceId, &Form),
    (name, email): (&str, Email),
) -> Result<(), Error> {
    let within = forms.limits.by_form.begin(&form.id.to_string(), forms.clock.steady()).await?;
    let (id, now) = (forms.clock.ordered_id::<Uuid>(), forms.clock.now());
    let to: Mailbox = email.as_str().parse().map_err(|_| Error::invalid("Mail cannot go to this address."))?;
    let url = confirmation::url(forms, id).await?;
    let from: Mailbox = form.from.parse().map_err(|_| Error::Internal)?;
    let mail = NewEmail {
        subject: format!("Confirm your subscription to {name}"),
        text: Some(Content::Here(question(name, &url))),
        headers: Header::new("Auto-Submitted", "auto-generated").into_iter().collect(),
        ..NewEmail::new(workspace_id, Origin::Form, from, vec![to])
    };
    let signup = Signup { workspace_id, form_id: form.id, id, email, is_confirmed: false };
    let (mail, ask) = ((forms.clock.ordered_id(), mail), store::ask(&signup, now, now - ASKED_ONCE_IN));
    if emails::queue(&forms.emails, mail, Some(ask)).await?.is_some() {
        within.failed();
    }
    Ok(())
}

fn question(name: &str, url: &str) -> String {
    format!(
        "Somebody, probably you, asked for e-mail from {name} at this address.\n\n\
         Open this page and confirm it:\n{url}\n\n\
         If it was not you, do nothing: you get no more e-mail.\nThe link is good for 7 days.\n"
    )
}

/// The sign-up behind a link, with its form.
pub async fn asked(forms: &Forms, token: &str) -> Result<Option<(Signup, Form)>, Error> {
    let Some(id) = confirmation::open(forms, token).await? else { return Ok(None) };
    let rows = forms.db.read(store::signup(id)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let signup = Signup::read(row)?;
    let form = find(forms, signup.form_id).await?;
    Ok(form.filter(|(workspace_id, _)| *workspace_id == signup.workspace_id).map(|(_, form)| (signup, form)))
}

/// Somebody says that the address is his. Again, it changes nothing.
pub async fn confirm(forms: &Forms, signup: &Signup, form: &Form) -> Result<(), Error> {
    let choices: Vec<Choice> =
        form.topics.0.iter().map(|id| Choice { topic_id: *id, subscription: Subscription::OptIn }).collect();
    let ties = (form.segment_id.as_slice(), choices.as_slice());
    let once = || store::confirm(signup.id, forms.clock.now());
    contacts::subscribe(forms, signup.workspace_id, &signup.email, ties, once).await.map(drop)
}

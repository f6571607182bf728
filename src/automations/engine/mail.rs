//! The mails of a turn. Whether they may be sent is asked before they are queued, and holds in the
//! commit that queues them.

use super::store::Claimed;
use super::{Engine, Plan};
use crate::automations::graph::{Mail, TemplatedMail};
use crate::automations::run::Effect;
use crate::db::DbError;
use crate::emails::{Content, FIRST_RECIPIENT, NewEmail, Origin, Ready};
use crate::error::Error;
use crate::id::{EmailId, RunId, WorkspaceId};
use crate::subscriptions::{Links, Subscriber, URL_KEYS};

/// A step whose mail may not be sent, and why.
pub(super) struct RefusedMail {
    pub step: String,
    pub reason: String,
}

impl Engine {
    /// The mails that a turn wants to queue, or the first that may not be sent.
    pub(super) async fn mails(
        &self,
        claimed: &Claimed,
        plan: &Plan,
        effects: &[Effect],
    ) -> Result<Result<Vec<Ready>, RefusedMail>, DbError> {
        let mut mails = Vec::new();
        for effect in effects {
            let id = self.app.clock.ordered_id();
            let (step, mail) = match effect {
                Effect::SendEmail { step, mail } => (step, (**mail).clone()),
                Effect::SendTemplate { step, templated } => {
                    match self.made_of_template((claimed.workspace_id, id), templated).await? {
                        Ok(mail) => (step, mail),
                        Err(reason) => return Ok(Err(RefusedMail { step: step.clone(), reason })),
                    }
                }
                _ => continue,
            };
            let domain = mail.from.address.ascii_domain();
            match self.domains.may_send(claimed.workspace_id, None, domain).await {
                Ok(sender) => {
                    let email = self.email(claimed, plan, (step, mail));
                    mails.push(Ready { id, email, sender });
                }
                Err(Error::DomainRefused { message }) => {
                    return Ok(Err(RefusedMail { step: step.clone(), reason: message }));
                }
                Err(other) => return Err(DbError::Unavailable(other.message().into_owned())),
            }
        }
        Ok(Ok(mails))
    }

    /// The mail that a template makes, or why there is none; `id` is the one that it will have.
    pub(super) async fn made_of_template(
        &self,
        (workspace_id, id): (WorkspaceId, EmailId),
        templated: &TemplatedMail,
    ) -> Result<Result<Mail, String>, DbError> {
        let rendering = match self.templates.published(workspace_id, templated.named()).await? {
            Ok(rendering) => rendering,
            Err(unsendable) => return Ok(Err(unsendable.about(templated.named()))),
        };
        let (mut templated, made) = (templated.clone(), rendering);
        if made.names_any(&URL_KEYS) {
            self.add_link((workspace_id, id), &mut templated).await?;
        }
        let make = move || made.render(&templated.values).and_then(|rendered| templated.mail(&made, rendered));
        let built = self.app.admission.build(make).await;
        built.map_err(|error| DbError::Unavailable(error.message().into_owned()))
    }

    /// Gives a template the link with which its recipient ends all mail.
    async fn add_link(
        &self,
        (workspace_id, id): (WorkspaceId, EmailId),
        templated: &mut TemplatedMail,
    ) -> Result<(), DbError> {
        let Some(contact_id) = templated.contact_id() else { return Ok(()) };
        let links = Links::of(&self.app).await;
        let links = links.map_err(|error| DbError::Unavailable(error.message().into_owned()))?;
        let (topic_id, mail) = (None, Some((id, FIRST_RECIPIENT)));
        let url = links.unsubscribe_url(&Subscriber { workspace_id, contact_id, topic_id, mail });
        for key in URL_KEYS {
            templated.values.entry(key).or_insert_with(|| url.clone().into());
        }
        Ok(())
    }

    fn email(&self, claimed: &Claimed, plan: &Plan, (step, mail): (&str, Mail)) -> NewEmail {
        let origin = if plan.is_reaction() { Origin::Reaction } else { Origin::Automation };
        self.email_of_step(claimed.workspace_id, (claimed.id, step), origin, mail)
    }

    pub(super) fn email_of_step(
        &self,
        workspace_id: WorkspaceId,
        (run_id, step): (RunId, &str),
        origin: Origin,
        mail: Mail,
    ) -> NewEmail {
        let Mail { from, to, reply_to, subject, html, text, template_id } = mail;
        NewEmail {
            when_uncertain: self.app.config.mail.when_uncertain(false),
            reply_to,
            subject,
            template_id,
            html: html.map(Content::Here),
            text: text.map(Content::Here),
            run: Some((run_id, step.to_owned())),
            ..NewEmail::new(workspace_id, origin, from, vec![to])
        }
    }

    /// What is known of those who send turned out to be old.
    pub(super) fn forget_senders(&self, mails: &[Ready]) {
        for Ready { email, .. } in mails {
            self.domains.forget_sender(email.workspace_id, email.from.address.ascii_domain());
        }
    }
}

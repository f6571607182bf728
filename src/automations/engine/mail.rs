//! The mails of a turn. Whether they may be sent is asked before they are queued, and holds in the
//! commit that queues them.

use super::store::Claimed;
use super::{Engine, Plan};
use crate::automations::graph::Mail;
use crate::automations::run::Effect;
use crate::db::DbError;
use crate::emails::{Content, NewEmail, Origin, Ready};
use crate::error::Error;

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
            let Effect::SendEmail { step, mail } = effect else { continue };
            let domain = mail.from.address.ascii_domain();
            match self.domains.may_send(claimed.workspace_id, None, domain).await {
                Ok(sender) => {
                    let email = self.email(claimed, plan, (step, mail));
                    mails.push(Ready { id: self.app.clock.ordered_id(), email, sender });
                }
                Err(Error::DomainRefused { message }) => {
                    return Ok(Err(RefusedMail { step: step.clone(), reason: message }));
                }
                Err(other) => return Err(DbError::Unavailable(other.message().into_owned())),
            }
        }
        Ok(Ok(mails))
    }

    fn email(&self, claimed: &Claimed, plan: &Plan, (step, mail): (&str, &Mail)) -> NewEmail {
        let Mail { from, to, reply_to, subject, html, text } = mail.clone();
        let origin = if plan.is_reaction() { Origin::Reaction } else { Origin::Automation };
        NewEmail {
            when_uncertain: self.app.config.mail.when_uncertain(false),
            reply_to: reply_to.into_iter().collect(),
            subject,
            html: html.map(Content::Here),
            text: text.map(Content::Here),
            run: Some((claimed.id, step.to_owned())),
            ..NewEmail::new(claimed.workspace_id, origin, from, vec![to])
        }
    }

    /// What is known of those who send turned out to be old.
    pub(super) fn forget_senders(&self, mails: &[Ready]) {
        for Ready { email, .. } in mails {
            self.domains.forget_sender(email.workspace_id, email.from.address.ascii_domain());
        }
    }
}

//! A mail's way, told as it happens.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clock::{SECOND, rfc3339};
use crate::db::DbError;
use crate::delivery::{Line, Way};
use crate::dns::Resolver;
use crate::emails::{self, Progress, State, Step};
use crate::hold::Hold;
use crate::id::EmailId;
use crate::product::Product;

/// How often the store is looked at.
const POLL: Duration = Duration::from_millis(100);

/// No claim reaches further than this: what is due later waits.
const LONGEST_CLAIM: i64 = 30 * SECOND;

pub struct Watch<'a> {
    product: &'a Product,
    id: EmailId,
    is_silent: bool,
    resolver: Resolver,
    recipients: Vec<Progress>,
    steps: Vec<Step>,
    /// What was told of each recipient, by its number.
    told: HashMap<i64, Told>,
}

#[derive(Default)]
struct Told {
    attempt: i64,
    is_ending: bool,
    wait: Option<(String, i64)>,
}

impl<'a> Watch<'a> {
    pub fn new(product: &'a Product, id: EmailId, is_silent: bool) -> Watch<'a> {
        let resolver = Resolver::new(&product.config.mail.dns_server);
        let (recipients, steps, told) = (Vec::new(), Vec::new(), HashMap::new());
        Watch { product, id, is_silent, resolver, recipients, steps, told }
    }

    pub fn say(&self, what: &str, more: &str) {
        if !self.is_silent {
            println!("{what:<17} {more}");
        }
    }

    /// Tells what happens until the mail is at its end, or nothing more will happen within this time.
    pub async fn follow(&mut self, patience: Duration) -> Result<(), DbError> {
        let until = Instant::now() + patience;
        loop {
            let (recipients, steps) = emails::progress(&self.product.db, self.id).await?;
            let before = self.steps.len().min(steps.len());
            (self.recipients, self.steps) = (recipients.clone(), steps.clone());
            for one in &recipients {
                self.tell_attempt(one).await;
            }
            steps[before..].iter().for_each(|step| self.say(&step.kind, &self.sentence(step)));
            recipients.iter().for_each(|one| self.tell_wait(one));
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || recipients.iter().all(|one| is_over(one) || self.waits_beyond(one, left)) {
                return Ok(());
            }
            tokio::time::sleep(POLL.min(left)).await;
        }
    }

    async fn tell_attempt(&mut self, one: &Progress) {
        let is_new = !self.told.contains_key(&one.number);
        let way = self.way(&one.line).await;
        if is_new {
            let way = way.as_deref().map_or("nothing leaves this machine".into(), |way| format!("by {way}"));
            self.say("queued", &format!("to {}, {way}", one.address));
        }
        let Told { attempt, is_ending, .. } = *self.told.entry(one.number).or_default();
        // The end of an attempt counts as one, too; of that its steps tell.
        let is_begun = one.attempt > attempt && (attempt == 0 || !is_over(one));
        if let Some(way) = way.filter(|_| is_begun) {
            self.say("connecting", &format!("to {way} (attempt {})", one.attempt));
        }
        if one.is_ending && !is_ending {
            self.say("handed over", "all of it was sent; the answer is awaited");
        }
        let told = self.told.entry(one.number).or_default();
        (told.attempt, told.is_ending) = (one.attempt, one.is_ending);
    }

    /// To which servers mail of a line goes; `None` where it goes to none.
    async fn way(&self, line: &str) -> Option<String> {
        let Line { domain_id, way } = Line::read(line)?;
        Some(match way {
            Way::Capture | Way::Test => return None,
            Way::Relay if domain_id.is_some() => "the relay of its domain".into(),
            Way::Relay => {
                let hosts: Vec<&str> = self.product.config.smtp_url.iter().map(|relay| relay.host.as_str()).collect();
                hosts.join(", or else ")
            }
            Way::Direct(domain) => {
                let helo = self.product.helo();
                match self.resolver.site(domain, helo).await {
                    Ok(site) => site.hosts.join(", or else "),
                    Err(_) => format!("the mail servers of {domain}"),
                }
            }
        })
    }

    /// What happened, in words.
    fn sentence(&self, step: &Step) -> String {
        let detail = |name: &str| step.detail[name].as_str();
        let to = detail("to").unwrap_or_default();
        let more = match (detail("host"), detail("reply"), detail("via")) {
            (Some(host), Some(reply), _) => format!("{host} answered {reply}"),
            (_, _, Some("capture")) => "captured; the dashboard shows it".into(),
            (_, _, Some("test")) => "a test recipient, which plays its part".into(),
            (_, _, Some("relay")) => "the relay has taken it, and passes it on".into(),
            _ => step.detail["bounce"]["message"].as_str().or(detail("reason")).unwrap_or_default().into(),
        };
        if to.is_empty() || more.is_empty() { format!("{to}{more}") } else { format!("{to}: {more}") }
    }

    fn tell_wait(&mut self, one: &Progress) {
        let (Some(reason), Some(due_at)) = (&one.reason, one.due_at) else { return };
        let wait = Some((reason.clone(), one.tries));
        if self.told.entry(one.number).or_default().wait != wait {
            self.say("waits", &self.wait(one, reason, due_at));
            self.told.entry(one.number).or_default().wait = wait;
        }
    }

    fn wait(&self, one: &Progress, reason: &str, due_at: i64) -> String {
        let at = rfc3339(self.product.clock.shown_at(due_at));
        format!("{}: {reason}; it is looked at again at {at}", one.address)
    }

    fn waits_beyond(&self, one: &Progress, left: Duration) -> bool {
        let left = i64::try_from(left.as_micros()).unwrap_or(i64::MAX);
        let soon = self.product.clock.steady().saturating_add(left.max(LONGEST_CLAIM));
        one.reason.is_some() && one.due_at.is_some_and(|due_at| due_at > soon)
    }

    /// Why those recipients have not got it who have not, in a sentence each.
    pub async fn undelivered(&self) -> Result<Vec<String>, DbError> {
        let hold = Hold::find(&self.product.db).await?;
        let why = |one: &Progress| match (&one.reason, one.due_at) {
            (Some(reason), Some(due_at)) => self.wait(one, reason, due_at),
            (None, Some(_)) if one.attempt == 0 => hold.as_ref().map_or_else(
                || {
                    format!(
                        "{}: no server has taken it up; is one with the role `worker` running on this store?",
                        one.address
                    )
                },
                Hold::sentence,
            ),
            (None, Some(_)) => format!("{}: it is still under way", one.address),
            (Some(reason), None) => format!("{}: {} ({reason})", one.address, one.state.as_str()),
            (None, None) if one.state == State::Sent => {
                format!("{}: the relay has taken it, and has not reported yet that it is delivered", one.address)
            }
            (None, None) => format!("{}: {}", one.address, one.state.as_str()),
        };
        Ok(self.recipients.iter().filter(|one| !has_arrived(one.state)).map(why).collect())
    }

    pub fn to_json(&self, is_delivered: bool) -> Value {
        let shown = |due_at: i64| rfc3339(self.product.clock.shown_at(due_at));
        let recipients = self.recipients.iter().map(|one| {
            json!({
                "to": one.address, "state": one.state.as_str(), "reason": one.reason,
                "due_at": one.due_at.map(shown), "attempts": one.attempt,
            })
        });
        let events = self
            .steps
            .iter()
            .map(|step| json!({ "type": step.kind, "created_at": rfc3339(step.at), "detail": step.detail }));
        json!({
            "id": self.id, "delivered": is_delivered,
            "recipients": recipients.collect::<Vec<_>>(), "events": events.collect::<Vec<_>>(),
        })
    }
}

/// Nothing more is done; of what is only sent, a relay is to report.
fn is_over(one: &Progress) -> bool {
    one.due_at.is_none() && one.state != State::Sent
}

/// Whatever else came of it.
fn has_arrived(state: State) -> bool {
    matches!(state, State::Delivered | State::Opened | State::Clicked | State::Complained)
}

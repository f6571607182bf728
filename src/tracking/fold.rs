//! Writes down what opens and clicks come to: how far a mail is, its history, what is counted and what is told, in one
//! commit for each recipient. However often something is opened, what is kept of it is bounded: only the first few times
//! are told one by one.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::join_all;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use uuid::Uuid;

use super::links::Place;
use super::machine::{is_one_of_many, is_too_soon};
use super::store::{self, Count, Hit, Recipient};
use crate::app::App;
use crate::clock::{Clock, HOUR, rfc3339};
use crate::contacts;
use crate::db::{Batch, DbError};
use crate::email_metrics::{Counted, MOST_KEPT, Tally};
use crate::emails::{self, NewEvent, Origin, State, Summary};
use crate::id::{BroadcastId, EmailId, Id, own_id};
use crate::occurrences::{OccurrenceBatch, Occurrences, SystemEvent};
use crate::segments::engagement_name;
use crate::work::{self, Next, Tasks, Worker, claim_due, unless_lost};

/// How many hits are claimed at once.
const BATCH: usize = 500;

/// Of how many events at once it is forgotten who it was.
const AT_ONCE: i64 = 500;

/// Works until told to stop.
pub async fn run(app: Occurrences, stopping: watch::Receiver<bool>) {
    let clock = app.clock.clone();
    work::run(Folding(app), clock, stopping).await;
}

struct Folding(Occurrences);

impl Worker for Folding {
    const NAME: &'static str = "tracking";

    async fn round(&mut self, _: &mut Tasks) -> Result<Next, DbError> {
        match round(&self.0).await? {
            0 => Ok(Next::Due(work::next_due::<Hit>(&self.0.db).await?)),
            _ => Ok(Next::AtOnce),
        }
    }
}

/// Writes down what is due, and tells how many hits that were.
pub async fn round(app: &Occurrences) -> Result<usize, DbError> {
    let mut hits: Vec<Hit> = claim_due(&app.db, &app.clock, BATCH).await?;
    hits.sort_by_key(|hit| (hit.place, hit.id));
    let of_recipients = hits.chunk_by(|one, next| one.place == next.place);
    for folded in join_all(of_recipients.map(|hits| fold(app, hits))).await {
        folded?;
    }
    Ok(hits.len())
}

/// Forgets who opened and clicked longer ago than contents are kept.
pub async fn sweep(app: &App) -> Result<(), DbError> {
    let since = app.clock.now() - i64::from(app.config.mail.mail_retention) * 24 * HOUR;
    loop {
        let effects = app.db.commit(store::forget_visitors(since, AT_ONCE)).await?;
        if effects.iter().map(|effect| effect.changed).sum::<u64>() < AT_ONCE as u64 {
            return Ok(());
        }
    }
}

/// An open or a click, and what it is taken for.
struct Visit<'a> {
    hit: &'a Hit,
    link: Uuid,
    is_machine: bool,
    /// Whether it is told and kept by itself.
    is_kept: bool,
}

impl Visit<'_> {
    fn state(&self) -> State {
        if self.hit.link.is_some() { State::Clicked } else { State::Opened }
    }
}

/// What is known of one recipient, before and by these visits.
struct Fold<'a> {
    place: Place,
    recipient: &'a Recipient,
    /// Webhooks are told of it.
    mail: Option<&'a Summary>,
    clock: &'a Clock,
    before: &'a HashMap<Uuid, Count>,
    visits: &'a [Visit<'a>],
}

/// One commit for hits of one recipient.
async fn fold(app: &Occurrences, hits: &[Hit]) -> Result<(), DbError> {
    let Some(place) = hits.first().map(|hit| hit.place) else { return Ok(()) };
    let Some(recipient) = store::recipient(&app.db, place).await? else {
        // Its mail is gone.
        return unless_lost(
            app.db.commit(hits.iter().fold(Batch::new(), |all, hit| all.and(store::forget(hit)))).await,
        );
    };
    let before = store::counted(&app.db, place).await?.into_iter().collect();
    let mail = emails::summary(&app.db, place.email_id).await?;
    let visits = judge(hits, &recipient, &before);
    let fold =
        Fold { place, recipient: &recipient, mail: mail.as_ref(), clock: &app.clock, before: &before, visits: &visits };
    match app.commit_uncalled(recipient.workspace_id, |occurrences| fold.fill(occurrences)).await {
        Ok(committed) => unless_lost(committed),
        Err(_) => Err(DbError::Busy),
    }
}

fn judge<'a>(hits: &'a [Hit], recipient: &Recipient, before: &HashMap<Uuid, Count>) -> Vec<Visit<'a>> {
    // What nobody has taken yet nobody can read.
    let is_under_way = recipient.arrived_at.is_none() && recipient.state <= State::Queued as i64;
    let earlier = before.iter().filter(|(link, _)| !link.is_nil()).map(|(link, count)| (count.last_at, *link));
    let these = hits.iter().filter_map(|hit| Some((hit.created_at, key_of(hit.link.as_deref()?))));
    let clicks: Vec<(i64, Uuid)> = earlier.chain(these).collect();
    // Machines take none of the places of people.
    let mut kept: HashMap<(Uuid, bool), i64> = HashMap::new();
    let by = |count: &Count, is_machine| if is_machine { count.machine_hits } else { count.hits - count.machine_hits };
    let visit = |hit: &'a Hit| {
        let link = hit.link.as_deref().map_or(Uuid::nil(), key_of);
        let is_hasty = is_under_way || is_too_soon(hit.created_at, recipient.arrived_at);
        let is_machine = hit.is_machine || is_hasty || (!link.is_nil() && is_one_of_many(hit.created_at, &clicks));
        let known = || before.get(&link).map_or(0, |count| by(count, is_machine));
        let count = kept.entry((link, is_machine)).or_insert_with(known);
        *count += 1;
        Visit { hit, link, is_machine, is_kept: *count <= MOST_KEPT }
    };
    hits.iter().map(visit).collect()
}

/// Stands for an address, which may be longer than an index can hold.
fn key_of(link: &str) -> Uuid {
    let digest: [u8; 32] = Sha256::digest(link).into();
    Uuid::from_bytes(std::array::from_fn(|at| digest[at]))
}

impl Fold<'_> {
    /// The id by which it is told of: of the mail, or of the recipient's own.
    fn told_as(&self) -> EmailId {
        match self.recipient.contact_id {
            Some(_) => own_id(self.place.email_id, self.place.number.into()),
            None => self.place.email_id,
        }
    }

    fn by_people(&self) -> impl Iterator<Item = &Visit<'_>> {
        self.visits.iter().filter(|visit| !visit.is_machine)
    }

    fn fill(&self, occurrences: &mut OccurrenceBatch<'_>) {
        for visit in self.by_people().filter(|visit| visit.is_kept) {
            self.tell(occurrences, visit);
            self.publish(occurrences, visit);
        }
        self.count_for_segments(occurrences);
        self.count_for_metrics().add_to(&mut occurrences.batch, self.recipient.workspace_id, self.clock);
        let (now, batch) = (occurrences.now(), &mut occurrences.batch);
        batch.lock(self.told_as());
        self.visits.iter().for_each(|visit| batch.push(store::forget(visit.hit)));
        if let Some(state) = self.by_people().map(Visit::state).max() {
            batch.push(store::raise(self.place, state));
            // What all recipients of a broadcast share is as far as the broadcast is.
            if self.recipient.contact_id.is_none() {
                batch.push(emails::raise(self.place.email_id, state, now));
            }
        }
        self.visits.iter().filter(|visit| visit.is_kept).for_each(|visit| self.add_event(batch, visit));
        self.count(batch);
    }

    /// Automations hear of what people do; where the mail was a reaction, only those that wait for it.
    fn tell(&self, occurrences: &mut OccurrenceBatch<'_>, visit: &Visit<'_>) {
        let name = match visit.state() {
            State::Clicked => SystemEvent::EMAIL_CLICKED,
            _ => SystemEvent::EMAIL_OPENED,
        };
        let key = contacts::email_key(&self.recipient.address);
        match self.recipient.origin == Origin::Reaction.as_str() {
            true if occurrences.is_waited_for(name) => {
                contacts::tell_waiting_by_email(occurrences, name, &key, &self.payload(visit));
            }
            false if occurrences.is_heard(name) => {
                contacts::tell_by_email(occurrences, name, &key, &self.payload(visit));
            }
            _ => {}
        }
    }

    fn payload(&self, visit: &Visit<'_>) -> Value {
        let mut payload = json!({
            "email_id": self.told_as(),
            "to": self.recipient.address,
            "timestamp": rfc3339(visit.hit.created_at),
            "machine": visit.is_machine,
        });
        if let Some(link) = &visit.hit.link {
            payload["link"] = json!(link);
        }
        if self.recipient.contact_id.is_some() {
            payload["broadcast_id"] = json!(self.place.email_id);
        }
        payload
    }

    /// What webhooks are told.
    fn publish(&self, occurrences: &mut OccurrenceBatch<'_>, visit: &Visit<'_>) {
        let Some(mail) = self.mail else { return };
        let mut detail = json!({
            "ipAddress": visit.hit.ip_address,
            "timestamp": rfc3339(visit.hit.created_at),
            "userAgent": visit.hit.user_agent,
        });
        if let Some(link) = &visit.hit.link {
            detail["link"] = json!(link);
        }
        emails::publish(occurrences, mail, (self.told_as(), &self.recipient.address), &[(visit.state(), detail)]);
    }

    /// The broadcast whose mail it is.
    fn broadcast_id(&self) -> Option<BroadcastId> {
        self.recipient.contact_id.map(|_| self.place.email_id.uuid().into())
    }

    /// Whether somebody did for the first time what these links tell of.
    fn is_new(&self, counts: fn(Uuid) -> bool) -> bool {
        let by_people = |(link, count): (&Uuid, &Count)| counts(*link) && count.hits > count.machine_hits;
        self.by_people().any(|visit| counts(visit.link)) && !self.before.iter().any(by_people)
    }

    /// What people did, and in how many mails they did it.
    fn count_for_metrics(&self) -> Tally {
        let each = self.by_people().map(|visit| match visit.state() {
            State::Clicked => Counted::Clicked,
            _ => Counted::Opened,
        });
        let first = [
            (Counted::UniqueOpened, self.is_new(|link| link.is_nil())),
            (Counted::UniqueClicked, self.is_new(|link| !link.is_nil())),
        ];
        let first = first.into_iter().filter(|(_, is_new)| *is_new).map(|(what, _)| what);
        let mut tally = Tally::default();
        each.chain(first).for_each(|what| tally.count(&self.recipient.sender_domain, self.broadcast_id(), what));
        tally
    }

    /// Segments count mails that somebody opened, and mails in which somebody clicked. Who clicks has opened.
    fn count_for_segments(&self, occurrences: &mut OccurrenceBatch<'_>) {
        let news = [("opened", self.is_new(|_| true)), ("clicked", self.is_new(|link| !link.is_nil()))];
        let broadcast = self.broadcast_id();
        let names: Vec<String> = news
            .iter()
            .filter(|(_, is_new)| *is_new)
            .flat_map(|(what, _)| std::iter::once(None).chain(broadcast.map(Some)).map(|id| engagement_name(what, id)))
            .collect();
        if !names.is_empty() {
            let key = contacts::email_key(&self.recipient.address);
            contacts::count_engagement(occurrences, &key, &names, self.told_as());
        }
    }

    fn add_event(&self, batch: &mut Batch, visit: &Visit<'_>) {
        let mut detail = json!({"to": self.recipient.address, "machine": visit.is_machine});
        if let Some(link) = &visit.hit.link {
            detail["link"] = json!(link);
        }
        let visitor = json!({"ipAddress": visit.hit.ip_address, "userAgent": visit.hit.user_agent}).to_string();
        let event = NewEvent {
            workspace_id: self.recipient.workspace_id,
            email_id: self.told_as(),
            id: visit.hit.id.into(),
            number: Some(self.place.number.into()),
            state: visit.state(),
            detail: &detail.to_string(),
            now: visit.hit.created_at,
        };
        batch.push(store::add_event(&event, &visitor));
    }

    /// Links in the order of their keys, and last: others who count the same ones wait in the same order.
    fn count(&self, batch: &mut Batch) {
        let mut news: BTreeMap<Uuid, (&str, Count)> = BTreeMap::new();
        for Visit { hit, link, is_machine, .. } in self.visits {
            let (_, count) = news.entry(*link).or_insert((hit.link.as_deref().unwrap_or_default(), Count::default()));
            count.hits += 1;
            count.machine_hits += i64::from(*is_machine);
            count.last_at = count.last_at.max(hit.created_at);
        }
        for (link, (_, count)) in &news {
            batch.push(store::count(self.place, *link, count));
        }
        for (link, (url, count)) in &news {
            batch.push(store::count_link(self.place.email_id, *link, url, count));
        }
    }
}

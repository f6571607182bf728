//! When recipients of a broadcast get its mail: within its window, where they are, and no more of it
//! than their workspace allows. Every bulk mail that counts has a place with its contact, of which
//! there are as many as the cap allows: the commit that lets it leave takes it, and no two take the
//! same one.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::settlement::Outcome;
use super::store::Claimed;
use crate::app::App;
use crate::broadcasts::Mailing;
use crate::clock::{DAY, rfc3339};
use crate::db::{DbError, Sql, Stmt, among, statements};
use crate::id::{ContactId, EmailId, json_array};
use crate::windows::Zone;
use crate::workspaces::{BulkCap, Workspace};

/// The longest that a mail counts.
const LONGEST_PERIOD: i64 = 30 * DAY;

statements! {
    functions {
        /// Forgets what counts for nobody any more.
        pub fn sweep(now: i64) with [now - LONGEST_PERIOD] = Sql::both("DELETE FROM bulk_places WHERE sent_at < $1");
    }
    /// The places of some contacts that were taken after a moment.
    TAKEN = among!(
        "SELECT contact_id, place, email_id, sent_at FROM bulk_places WHERE contact_id", ids "$1", " AND sent_at > $2");
    /// Changes nothing where another mail has the place.
    TAKE = Sql::both(
        "INSERT INTO bulk_places (contact_id, place, email_id, sent_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (contact_id, place) DO UPDATE SET email_id = excluded.email_id, sent_at = excluded.sent_at
         WHERE bulk_places.sent_at <= $5 OR bulk_places.email_id = excluded.email_id");
}

/// A place among the bulk mails that a contact may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    contact_id: ContactId,
    number: i64,
    /// Whatever left up to here does not count any more, in steady time.
    counts_from: i64,
}

impl Place {
    /// Takes it for a mail that leaves now; it changes one row, or none where another has it.
    pub fn take(&self, claimed: &Claimed, now: i64) -> Stmt {
        let (contact_id, email_id) = (self.contact_id.into(), claimed.email_id.into());
        TAKE.with([contact_id, self.number.into(), email_id, now.into(), self.counts_from.into()])
    }
}

/// A place that a mail has taken.
#[derive(Debug, Clone, Copy)]
struct Taken {
    number: i64,
    email_id: EmailId,
    sent_at: i64,
}

/// What decides when the recipients of one broadcast get it.
pub struct Times<'a> {
    mailing: &'a Mailing,
    zone: Zone,
    cap: Option<BulkCap>,
    taken: HashMap<ContactId, Vec<Taken>>,
    now: i64,
    steady: i64,
}

impl<'a> Times<'a> {
    /// For the recipients that these contacts are.
    pub async fn find(app: &App, mailing: &'a Mailing, ids: &[ContactId]) -> Result<Times<'a>, DbError> {
        let (now, steady) = (app.clock.now(), app.clock.steady());
        let workspace = Workspace::find(&app.db, mailing.workspace_id()).await?;
        let (zone, cap) = workspace.map_or((Zone::UTC, None), |found| (found.timezone, found.bulk_cap));
        let mut times = Times { mailing, zone, cap, taken: HashMap::new(), now, steady };
        if let Some(cap) = cap {
            let ids = json_array(ids.iter().copied());
            for row in app.db.read(TAKEN.with([ids.into(), (steady - cap.period()).into()])).await? {
                let taken = Taken { number: row.int(1)?, email_id: row.id(2)?, sent_at: row.int(3)? };
                times.taken.entry(row.id(0)?).or_default().push(taken);
            }
        }
        Ok(times)
    }

    /// The place of a mail that may leave now, where it needs one; or what becomes of one that may not. `values` are
    /// what it would be made of.
    pub fn of(
        &self,
        (email_id, contact_id): (EmailId, ContactId),
        values: &Map<String, Value>,
    ) -> Result<Option<Place>, Outcome> {
        if let Some(window) = &self.mailing.timing().send_window {
            let named = values.get("contact").and_then(|contact| contact["properties"][Zone::PROPERTY].as_str());
            let zone = self.zone.or_named(named);
            let opens = window.next_opening(self.now, &zone);
            if opens > self.now {
                let reason = format!("it waits until {}: the broadcast sends {window}", zone.shown(opens));
                return Err(self.put_off(self.steady + opens - self.now, reason));
            }
        }
        let Some(cap) = self.cap else { return Ok(None) };
        let number = self.free_place(cap, (email_id, contact_id)).map_err(|until| {
            let at = rfc3339(self.now + until - self.steady);
            self.put_off(until, format!("it waits until {at}: the contact has had {cap}, and more are not allowed"))
        })?;
        Ok(Some(Place { contact_id, number, counts_from: self.steady - cap.period() }))
    }

    /// The number of a place that nobody has; `Err` is when there will be one.
    fn free_place(&self, cap: BulkCap, (email_id, contact_id): (EmailId, ContactId)) -> Result<i64, i64> {
        let taken = self.taken.get(&contact_id).map_or(&[][..], Vec::as_slice);
        // It may have been tried before.
        if let Some(own) = taken.iter().find(|place| place.email_id == email_id) {
            return Ok(own.number);
        }
        let mut newest: Vec<i64> = taken.iter().map(|place| place.sent_at).collect();
        newest.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(first) = usize::try_from(cap.mails - 1).ok().and_then(|at| newest.get(at)) {
            return Err(first + cap.period());
        }
        let is_free = |number: &i64| taken.iter().all(|place| place.number != *number);
        Ok((0..cap.mails).find(is_free).unwrap_or_default())
    }

    /// It waits; or it is not sent at all, where the broadcast is over by then.
    fn put_off(&self, until: i64, reason: String) -> Outcome {
        let at = self.now + until - self.steady;
        match self.mailing.ends_at() {
            Some(end) if at >= end => Outcome::Unwanted(format!("{reason}; the broadcast is over before that").into()),
            _ => Outcome::PutOff { until, reason },
        }
    }
}

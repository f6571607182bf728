//! Whether mail that is claimed is still to be sent: asked when it is claimed, and again where it then had to wait for
//! its turn.

use std::collections::{HashMap, HashSet};

use super::Engine;
use super::settlement::Outcome;
use super::store::Claimed;
use crate::clock::SECOND;
use crate::db::DbError;
use crate::id::{EmailId, WorkspaceId};
use crate::suppressions;

/// How old an answer may be when the mail leaves: people who unsubscribe mean the next mail.
const GOOD_FOR: i64 = SECOND / 4;

/// What becomes of recipients to whom nothing is sent now, by mail and number.
pub(super) type NotSent = HashMap<(EmailId, i64), Outcome>;

/// What is known of recipients before anything is done for them.
pub(super) struct Judged {
    suppressed: HashSet<(WorkspaceId, String)>,
    not_sent: NotSent,
}

impl Judged {
    /// What becomes of one, where no mail is to be sent.
    pub fn outcome(&self, row: &Claimed) -> Option<Outcome> {
        if row.dot_attempt != 0 {
            let reason = "a process ended between the end of the message and the server's reply".into();
            return Some(Outcome::Unknown { reason, is_found: true, is_repeatable: false });
        }
        if !row.is_own && self.suppressed.contains(&(row.workspace_id, row.email_key())) {
            return Some(Outcome::Suppressed);
        }
        self.not_sent.get(&row.place_in_mail()).cloned()
    }
}

impl Engine {
    /// Looks up what mails are made of, and who is not to get one.
    pub(super) async fn judge(&self, mut rows: Vec<&mut Claimed>) -> Result<Judged, DbError> {
        let now = self.app.clock.steady();
        rows.iter_mut().for_each(|row| row.judged_at = now);
        let suppressed = self.suppressed(rows.iter().map(|row| &**row)).await?;
        let mut not_sent = self.look_up_people(rows.iter_mut().map(|row| &mut **row).collect()).await?;
        self.look_up_topics(rows.into_iter(), &mut not_sent).await?;
        Ok(Judged { suppressed, not_sent })
    }

    /// What becomes of a mail whose turn has come, where it is not to be sent: what was so at its claim may have changed.
    pub(super) async fn not_now(&self, claimed: &Claimed) -> Result<Option<Outcome>, DbError> {
        match self.stopped(claimed).await? {
            None => self.unwanted_since(claimed).await,
            stopped => Ok(stopped),
        }
    }

    /// What becomes of a mail that was in hand for a while, where it is not to be sent any more.
    async fn unwanted_since(&self, claimed: &Claimed) -> Result<Option<Outcome>, DbError> {
        if self.app.clock.steady() - claimed.judged_at < GOOD_FOR {
            return Ok(None);
        }
        let mut again = claimed.clone();
        let judged = self.judge(vec![&mut again]).await?;
        Ok(judged.outcome(&again))
    }

    /// Who of them gets no mail of the workspace any more.
    async fn suppressed(
        &self,
        claimed: impl Iterator<Item = &Claimed>,
    ) -> Result<HashSet<(WorkspaceId, String)>, DbError> {
        let mut keys: HashMap<WorkspaceId, Vec<String>> = HashMap::new();
        for row in claimed.filter(|row| !row.is_own) {
            keys.entry(row.workspace_id).or_default().push(row.email_key());
        }
        let mut suppressed = HashSet::new();
        for (workspace_id, keys) in keys {
            for row in self.app.db.read(suppressions::suppressed(workspace_id, &keys)).await? {
                suppressed.insert((workspace_id, row.text(0)?));
            }
        }
        Ok(suppressed)
    }
}

//! What happened in the last day and week beside mail: events, runs, new contacts, counted to a bound.

use uuid::Uuid;

use super::plot::{Place, Plot, Span};
use super::store::{self, MOST_DRAWN};
use crate::accounts::{Look, Member};
use crate::clock::{HOUR, first_id_at};
use crate::db::{Stmt, from_row};
use crate::error::Error;
use crate::id::WorkspaceId;

/// What is counted, and how it is told.
struct Kind {
    subject: &'static str,
    one: &'static str,
    many: &'static str,
    /// Of those that are counted by hour since an id.
    by_hour: fn(WorkspaceId, Uuid) -> Stmt,
    class: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind { subject: "Events", one: "event", many: "events", by_hour: store::events_by_hour, class: "plot-sent" },
    Kind { subject: "Runs", one: "run", many: "runs", by_hour: store::runs_by_hour, class: "plot-delivered" },
    Kind {
        subject: "Contacts",
        one: "new contact",
        many: "new contacts",
        by_hour: store::contacts_by_hour,
        class: "plot-sent",
    },
];

/// How many were gone through in an hour since 1970, how many of those count, and how many of them failed.
struct Hour {
    hour: i64,
    seen: i64,
    count: i64,
    failed: i64,
}

from_row!(Hour { hour, seen, count, failed });

/// Plots of one kind of thing.
pub struct Activity {
    pub plots: Vec<Plot>,
    /// Whether some failed: then it is said what is which.
    pub has_failed: bool,
}

/// Of each kind of which something happened within the week.
pub async fn of(member: &Member<Look>, now: i64) -> Result<Vec<Activity>, Error> {
    let mut all = Vec::new();
    for kind in &KINDS {
        // The week holds the day; where it has more than is counted, the day may have less.
        let week = counted(member, kind, Span::Week, now).await?;
        let day = match &week {
            Some(_) => None,
            None => counted(member, kind, Span::Day, now).await?,
        };
        let day = week.as_deref().or(day.as_deref());
        if week.as_ref().is_none_or(|hours| hours.iter().any(|hour| hour.count > 0)) {
            let has_failed = day.is_some_and(|hours| hours.iter().any(|hour| hour.failed > 0));
            let plots = vec![plot(kind, Span::Day, day, now), plot(kind, Span::Week, week.as_deref(), now)];
            all.push(Activity { plots, has_failed });
        }
    }
    Ok(all)
}

/// `None` where there is more than is counted.
async fn counted(member: &Member<Look>, kind: &Kind, span: Span, now: i64) -> Result<Option<Vec<Hour>>, Error> {
    // Ids are of steady time.
    let since = first_id_at(span.start(now) - now + member.app.clock.steady());
    let hours: Vec<Hour> = member.query((kind.by_hour)(member.workspace_id(), since)).await?;
    let seen: i64 = hours.iter().map(|hour| hour.seen).sum();
    Ok((seen <= MOST_DRAWN).then_some(hours))
}

fn plot(kind: &Kind, span: Span, hours: Option<&[Hour]>, now: i64) -> Plot {
    let Some(hours) = hours else {
        let summary = format!("More than {MOST_DRAWN} {}: too many to draw here", kind.many);
        return Plot::drawn(kind.subject, span, summary, Vec::new(), now);
    };
    let mut buckets = vec![(0, 0); span.count() as usize];
    for hour in hours {
        if let Some(bucket) = span.place_of(hour.hour * HOUR, now).and_then(|at| buckets.get_mut(at)) {
            *bucket = (bucket.0 + hour.count, bucket.1 + hour.failed);
        }
    }
    let words = |count: i64, failed: i64| {
        let counted = format!("{count} {}", if count == 1 { kind.one } else { kind.many });
        if failed > 0 { format!("{counted}, {failed} failed") } else { counted }
    };
    let total = buckets.iter().fold((0, 0), |sum, bucket| (sum.0 + bucket.0, sum.1 + bucket.1));
    let places = buckets.iter().map(|&(count, failed)| Place {
        words: words(count, failed),
        parts: vec![(kind.class, count - failed), ("plot-bounced", failed)],
    });
    Plot::drawn(kind.subject, span, words(total.0, total.1), places.collect(), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_767_323_045_678_901;

    #[test]
    fn what_was_counted_by_hour_is_drawn_by_hour_and_by_day() {
        let hour = |ago: i64, count, failed| Hour { hour: NOW / HOUR - ago, seen: count, count, failed };
        let hours = [hour(0, 2, 1), hour(1, 1, 0), hour(50, 4, 0)];
        let day = plot(&KINDS[1], Span::Day, Some(&hours), NOW);
        assert_eq!((day.title.as_str(), day.summary.as_str()), ("Runs, last 24 hours", "3 runs, 1 failed"));
        let classes: Vec<&str> = day.bars[23].parts.iter().map(|part| part.class).collect();
        assert_eq!((classes, day.bars[22].parts.len()), (vec!["plot-delivered", "plot-bounced"], 1));
        assert!(day.bars[22].title.ends_with(": 1 run"), "{}", day.bars[22].title);
        let week = plot(&KINDS[1], Span::Week, Some(&hours), NOW);
        assert_eq!((week.bars.len(), week.summary.as_str()), (7, "7 runs, 1 failed"));
        let many = plot(&KINDS[0], Span::Week, None, NOW);
        assert!(many.is_empty && many.summary.starts_with("More than 5000 events"), "{}", many.summary);
    }
}

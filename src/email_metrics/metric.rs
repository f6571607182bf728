//! The metrics that can be asked for: counters, sums of them, and rates.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::counts::{Counted, Counts};
use crate::text::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EmailMetric)]
pub enum Metric {
    Received,
    Delivered,
    Complained,
    Suppressed,
    Bounced,
    BouncedTransient,
    BouncedPermanent,
    BouncedUndetermined,
    Opened,
    Clicked,
    Unsubscribed,
    DeliveryDelayed,
    Failed,
    Sent,
    UniqueOpened,
    UniqueClicked,
    DeliveryRate,
    OpenRate,
    ClickRate,
    BounceRate,
    ComplaintRate,
    UnsubscribeRate,
}

words!(Metric: ALL, parse {
    Received = "received",
    Delivered = "delivered",
    Complained = "complained",
    Suppressed = "suppressed",
    Bounced = "bounced",
    BouncedTransient = "bounced_transient",
    BouncedPermanent = "bounced_permanent",
    BouncedUndetermined = "bounced_undetermined",
    Opened = "opened",
    Clicked = "clicked",
    Unsubscribed = "unsubscribed",
    DeliveryDelayed = "delivery_delayed",
    Failed = "failed",
    Sent = "sent",
    UniqueOpened = "unique_opened",
    UniqueClicked = "unique_clicked",
    DeliveryRate = "delivery_rate",
    OpenRate = "open_rate",
    ClickRate = "click_rate",
    BounceRate = "bounce_rate",
    ComplaintRate = "complaint_rate",
    UnsubscribeRate = "unsubscribe_rate",
});

impl Metric {
    /// Its value: a count, or of a rate a number from 0 on, 0 where nothing was sent.
    fn of(self, counts: &Counts) -> Value {
        let bounced = || {
            let kinds = [Counted::BouncedPermanent, Counted::BouncedTransient, Counted::BouncedUndetermined];
            kinds.into_iter().map(|kind| counts.of(kind)).sum::<i64>()
        };
        let count = |what: Counted| Value::from(counts.of(what));
        let rate = |part: i64, whole: Counted| Value::from(rate(part, counts.of(whole)));
        match self {
            Metric::Received => count(Counted::Received),
            Metric::Delivered => count(Counted::Delivered),
            Metric::Complained => count(Counted::Complained),
            Metric::Suppressed => count(Counted::Suppressed),
            Metric::Bounced => bounced().into(),
            Metric::BouncedTransient => count(Counted::BouncedTransient),
            Metric::BouncedPermanent => count(Counted::BouncedPermanent),
            Metric::BouncedUndetermined => count(Counted::BouncedUndetermined),
            Metric::Opened => count(Counted::Opened),
            Metric::Clicked => count(Counted::Clicked),
            Metric::Unsubscribed => count(Counted::Unsubscribed),
            Metric::DeliveryDelayed => count(Counted::DeliveryDelayed),
            Metric::Failed => count(Counted::Failed),
            Metric::Sent => count(Counted::Sent),
            Metric::UniqueOpened => count(Counted::UniqueOpened),
            Metric::UniqueClicked => count(Counted::UniqueClicked),
            Metric::DeliveryRate => rate(counts.of(Counted::Delivered), Counted::Sent),
            Metric::BounceRate => rate(bounced(), Counted::Sent),
            Metric::OpenRate => rate(counts.of(Counted::UniqueOpened), Counted::Delivered),
            Metric::ClickRate => rate(counts.of(Counted::UniqueClicked), Counted::Delivered),
            Metric::ComplaintRate => rate(counts.of(Counted::Complained), Counted::Delivered),
            Metric::UnsubscribeRate => rate(counts.of(Counted::Unsubscribed), Counted::Delivered),
        }
    }

    /// The values of several, by their names.
    pub fn values(wanted: &[Metric], counts: &Counts) -> Map<String, Value> {
        wanted.iter().map(|metric| (metric.as_str().to_owned(), metric.of(counts))).collect()
    }
}

/// To four digits behind the point.
fn rate(part: i64, whole: i64) -> f64 {
    if whole <= 0 { 0.0 } else { (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_was_sent_or_delivered_and_zero_where_nothing_was() {
        let mut counts = Counts::default();
        assert_eq!(Metric::DeliveryRate.of(&counts), 0.0);
        for (what, count) in [
            (Counted::Sent, 300),
            (Counted::Delivered, 200),
            (Counted::BouncedPermanent, 60),
            (Counted::BouncedTransient, 30),
            (Counted::BouncedUndetermined, 10),
            (Counted::UniqueOpened, 50),
            (Counted::Opened, 500),
            (Counted::Complained, 1),
        ] {
            counts.add(what, count);
        }
        let all = [Metric::Bounced, Metric::DeliveryRate, Metric::BounceRate, Metric::OpenRate, Metric::ComplaintRate];
        let expected = [100.0, 0.6667, 0.3333, 0.25, 0.005];
        assert_eq!(all.map(|metric| metric.of(&counts).as_f64().expect("a number")), expected);
    }

    #[test]
    fn every_metric_is_found_by_its_name() {
        assert_eq!(Metric::ALL.len(), 22);
        assert!(Metric::ALL.into_iter().all(|metric| Metric::parse(metric.as_str()) == Some(metric)));
    }
}

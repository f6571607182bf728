//! What became of mail as plots and as tables: what `GET /emails/metrics` tells, for people.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::breakdown::{Breakdown, Place};
use super::counts::{Counted, Counts};
use super::period::{self, Granularity};
use super::plot::{Plot, SHOWN, count};
use super::query::{Dimension, Params, Question};
use super::routes::{groups, names};
use super::store::{self, Domains};
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::error::Error;
use crate::id::{BroadcastId, json_array};
use crate::web::{self, Field, Layout, PageResult, Shell};

/// How many days can be looked at by a click; the first where nothing is said.
const SPANS: [i64; 2] = [30, 7];

/// How many rows a table has at most: the plots have all.
const MOST_ROWS: usize = 60;

pub fn router() -> Router<App> {
    Router::new().route("/deliverability", get(show))
}

#[derive(Template)]
#[template(path = "email_metrics/deliverability.html")]
struct DeliverabilityPage {
    layout: Layout,
    shell: Shell,
    here: String,
    zone: String,
    days: i64,
    spans: Vec<(i64, String, bool)>,
    asked: Asked,
    /// Whether more than a number of days was chosen.
    is_chosen: bool,
    /// What can be chosen: values and words, the usual one first.
    granularities: Vec<(String, String)>,
    aparts: Vec<(String, String)>,
    domains: Vec<(String, String)>,
    broadcasts: Vec<(String, String)>,
    problem: Option<String>,
    /// None where something was asked that cannot be.
    numbers: Option<Numbers>,
}

/// What is asked for, as the address has it.
struct Asked {
    start_date: Field,
    end_date: Field,
    timezone: Field,
    granularity: Field,
    domain_id: Field,
    broadcast_id: Field,
    email_id: Field,
    /// The dimension that a table of its own tells apart by.
    apart: Field,
}

impl Asked {
    fn of(member: &Member<Look>) -> Asked {
        let field = |name: &str| Field::of(member.asked(name).unwrap_or_default());
        Asked {
            start_date: field("start_date"),
            end_date: field("end_date"),
            timezone: field("timezone"),
            granularity: field("granularity"),
            domain_id: field("domain_id"),
            broadcast_id: field("broadcast_id"),
            email_id: field("email_id"),
            apart: field("apart"),
        }
    }

    fn by_name(&self) -> [(&'static str, &Field); 8] {
        [
            ("start_date", &self.start_date),
            ("end_date", &self.end_date),
            ("timezone", &self.timezone),
            ("granularity", &self.granularity),
            ("domain_id", &self.domain_id),
            ("broadcast_id", &self.broadcast_id),
            ("email_id", &self.email_id),
            ("apart", &self.apart),
        ]
    }

    fn has_dates(&self) -> bool {
        !self.start_date.value.trim().is_empty() || !self.end_date.value.trim().is_empty()
    }

    /// The same for so many days, as an address.
    fn address(&self, here: &str, days: i64) -> String {
        let kept =
            self.by_name().into_iter().filter(|(name, field)| !name.ends_with("_date") && !field.value.is_empty());
        let kept = kept.map(|(name, field)| format!("&{name}={}", utf8_percent_encode(&field.value, NON_ALPHANUMERIC)));
        format!("{here}?days={days}{}", kept.collect::<String>())
    }

    /// By periods, and by what is told apart: what can be asked of both can be of either.
    fn question(&self, days: i64, now: i64) -> Result<Question, Error> {
        let typed = |name: &str| {
            let found = self.by_name().into_iter().find(|(one, _)| *one == name);
            found.map(|(_, field)| field.value.clone()).unwrap_or_default()
        };
        let question = Params::of_form(typed, format!("period,{}", self.apart.value)).read(now)?;
        match self.has_dates() {
            true => Ok(question),
            false => Ok(Question { start: period::first_of_days(days, now, &question.zone), ..question }),
        }
    }

    /// Puts a refusal beside its field. One that names none is about how much was asked for.
    fn refused(&mut self, refusal: &Error) -> Option<String> {
        let message = refusal.message().into_owned();
        let field = match web::field_of(refusal).as_deref() {
            None | Some("start_date") => &mut self.start_date,
            Some("end_date") => &mut self.end_date,
            Some("timezone") => &mut self.timezone,
            Some("granularity") => &mut self.granularity,
            Some("domain_id") => &mut self.domain_id,
            Some("broadcast_id") => &mut self.broadcast_id,
            Some("email" | "email_id") => &mut self.email_id,
            Some("dimensions") => &mut self.apart,
            Some(_) => return Some(message),
        };
        field.error = Some(message);
        None
    }
}

struct Numbers {
    totals: Vec<(&'static str, i64, Option<String>)>,
    is_empty: bool,
    plots: Vec<Plot>,
    /// What a period is called.
    unit: &'static str,
    /// The newest, of so many.
    periods: Vec<PeriodRow>,
    all_periods: usize,
    apart: Option<ApartTable>,
}

struct PeriodRow {
    /// Of a whole day or more: an hour is one of the zone that was chosen, and not shown in another.
    iso: Option<String>,
    text: String,
    counts: Vec<i64>,
}

struct ApartTable {
    title: &'static str,
    column: &'static str,
    rows: Vec<ApartRow>,
    all_rows: usize,
}

struct ApartRow {
    href: Option<String>,
    name: String,
    counts: Vec<i64>,
}

fn in_columns(counts: &Counts) -> Vec<i64> {
    SHOWN.iter().map(|(.., kinds)| count(counts, kinds)).collect()
}

/// What a period is called in a table, how it is written there, and how on an axis.
fn words(granularity: Granularity) -> [&'static str; 3] {
    match granularity {
        Granularity::Hourly => ["Hour", "%Y-%m-%d %H:%M", "%-d %b, %H:%M"],
        Granularity::Daily => ["Day", "%Y-%m-%d", "%-d %b"],
        Granularity::Weekly => ["Week from", "%Y-%m-%d", "%-d %b %Y"],
        Granularity::Monthly => ["Month", "%Y-%m", "%b %Y"],
    }
}

/// Counts by periods, those without mail among them.
fn by_periods(question: &Question, counted: BTreeMap<Place, Counts>) -> Vec<(i64, Counts)> {
    let mut all: BTreeMap<i64, Counts> = question.periods().into_iter().map(|at| (at, Counts::default())).collect();
    for ((period, ..), counts) in counted {
        *all.entry(period.unwrap_or(question.start)).or_default() += counts;
    }
    all.into_iter().collect()
}

/// The name of the zone of a question.
fn zone_of(question: &Question) -> &str {
    question.zone.iana_name().unwrap_or("UTC")
}

async fn numbers(member: &Member<Look>, question: &Question, domains: &Domains) -> Result<Numbers, Error> {
    let names = names(question, domains);
    let by_period = Question { dimensions: vec![Dimension::Period], ..question.clone() };
    let breakdown = Breakdown::of(&by_period, groups(member, &by_period, names.as_deref()).await?)?;
    let total = breakdown.totals;
    let periods = by_periods(question, breakdown.into_counts());
    let dimension = question.dimensions.iter().copied().find(|dimension| *dimension != Dimension::Period);
    let apart = match dimension {
        Some(dimension) => Some(apart(member, question, dimension, (domains, names.as_deref())).await?),
        None => None,
    };
    let share = |class: &str, part: i64| {
        let whole = match class {
            "delivered" | "bounced" => total.of(Counted::Sent),
            "complained" | "opened" | "clicked" => total.of(Counted::Delivered),
            _ => 0,
        };
        (whole > 0).then(|| format!("{:.1} %", part as f64 * 100.0 / whole as f64))
    };
    let [unit, in_table, on_axis] = words(question.granularity);
    let written = |at: i64, how: &str| {
        let at = Timestamp::from_microsecond(at).unwrap_or_default();
        at.to_zoned(question.zone.clone()).strftime(how).to_string()
    };
    let end = |period: Option<&(i64, Counts)>| period.map(|(at, _)| written(*at, on_axis)).unwrap_or_default();
    let ends = || [end(periods.first()), format!("{} ({})", end(periods.last()), zone_of(question))];
    let row = |(at, counts): &(i64, Counts)| {
        let text = written(*at, in_table);
        let iso = Some(text.clone()).filter(|_| question.granularity != Granularity::Hourly);
        PeriodRow { iso, text, counts: in_columns(counts) }
    };
    Ok(Numbers {
        totals: SHOWN
            .map(|(class, word, kinds)| (word, count(&total, kinds), share(class, count(&total, kinds))))
            .into(),
        is_empty: total == Counts::default(),
        plots: vec![
            Plot::new(("arrived", "What arrived"), &["delivered", "bounced", "complained"], &periods, ends()),
            Plot::new(("read", "What was read"), &["opened", "clicked"], &periods, ends()),
        ],
        unit,
        all_periods: periods.len(),
        periods: periods.iter().rev().take(MOST_ROWS).map(row).collect(),
        apart,
    })
}

/// What was counted, apart by a dimension: the most mail first.
async fn apart(
    member: &Member<Look>,
    question: &Question,
    dimension: Dimension,
    (domains, names): (&Domains, Option<&[String]>),
) -> Result<ApartTable, Error> {
    let question = Question { dimensions: vec![dimension], ..question.clone() };
    let breakdown = Breakdown::of(&question, groups(member, &question, names).await?)?;
    let ids = breakdown.broadcasts();
    let broadcasts: Vec<(BroadcastId, String)> = match ids.is_empty() {
        true => Vec::new(),
        false => store::named(&member.read(store::broadcasts(member.workspace_id(), json_array(ids))).await?)?,
    };
    let row = |((_, domain, email_id, broadcast_id), counts): (Place, Counts)| {
        let (href, name) = match (dimension, email_id, broadcast_id) {
            (Dimension::Email, Some(id), _) => {
                let folder = if counts.of(Counted::Received) > 0 { "received" } else { "emails" };
                (Some(format!("/{folder}/{id}")), id.to_string())
            }
            (Dimension::Broadcast, _, Some(id)) => {
                let name = broadcasts.iter().find(|(known, _)| *known == id).map(|(_, name)| name.clone());
                (name.is_some().then(|| format!("/broadcasts/{id}")), name.unwrap_or_else(|| id.to_string()))
            }
            (Dimension::Broadcast, ..) => (None, "Mail of no broadcast".into()),
            _ => {
                let name = domain.filter(|name| !name.is_empty());
                let known = domains.iter().find(|(_, known)| Some(known) == name.as_ref());
                (known.map(|(id, _)| format!("/domains/{id}")), name.unwrap_or_else(|| "Mail of no domain".into()))
            }
        };
        ApartRow { href: href.map(|path| member.address(&path)), name, counts: in_columns(&counts) }
    };
    let mut rows: Vec<ApartRow> = breakdown.into_counts().into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse(row.counts.first().copied()));
    let (title, column) = match dimension {
        Dimension::Email => ("By email", "Email"),
        Dimension::Broadcast => ("By broadcast", "Broadcast"),
        Dimension::Domain | Dimension::Period => ("By domain", "Domain"),
    };
    let all_rows = rows.len();
    rows.truncate(MOST_ROWS);
    Ok(ApartTable { title, column, rows, all_rows })
}

/// The newest, and the one that is asked for.
async fn broadcasts(member: &Member<Look>, asked: &Asked) -> Result<Vec<(BroadcastId, String)>, Error> {
    let workspace_id = member.workspace_id();
    let mut all: Vec<(BroadcastId, String)> =
        store::named(&member.read(store::newest_broadcasts(workspace_id)).await?)?;
    if let Ok(id) = asked.broadcast_id.value.trim().parse::<BroadcastId>()
        && all.iter().all(|(known, _)| *known != id)
    {
        all.extend(store::named(&member.read(store::broadcasts(workspace_id, json_array([id]))).await?)?);
    }
    Ok(all)
}

/// Values and words, the usual one first.
fn choices(first: &str, all: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    std::iter::once((String::new(), first.to_owned())).chain(all).collect()
}

fn option((value, word): (&str, &str)) -> (String, String) {
    (value.to_owned(), word.to_owned())
}

/// That what was chosen is there, because a list of choices shows nothing else.
fn check_choice(name: &str, field: &Field, choices: &[(String, String)]) -> Result<(), Error> {
    let message = || format!("The `{name}` parameter names nothing that is here. It may have been deleted.");
    match choices.iter().any(|(value, _)| value == field.value.trim()) {
        true => Ok(()),
        false => Err(Error::InvalidParameter { message: message() }),
    }
}

async fn show(member: Member<Look>) -> PageResult {
    let (mut asked, now) = (Asked::of(&member), member.app.clock.now());
    let wanted = member.asked("days").and_then(|days| days.parse().ok());
    let days = SPANS.into_iter().find(|days| Some(*days) == wanted).unwrap_or(SPANS[0]);
    let own: Domains = store::named(&member.read(store::domains(member.workspace_id())).await?)?;
    let known = broadcasts(&member, &asked).await?;
    let domains = choices("All", own.iter().map(|(id, name)| (id.to_string(), name.clone())));
    let broadcasts = choices("All mail", known.into_iter().map(|(id, name)| (id.to_string(), name)));
    let counted = async {
        let question = asked.question(days, now)?;
        check_choice("domain_id", &asked.domain_id, &domains)?;
        check_choice("broadcast_id", &asked.broadcast_id, &broadcasts)?;
        Ok::<_, Error>((zone_of(&question).to_owned(), numbers(&member, &question, &own).await?))
    };
    let (status, zone, numbers, problem) = match Box::pin(counted).await {
        Ok((zone, numbers)) => (StatusCode::OK, zone, Some(numbers), None),
        Err(refusal) if refusal.status().is_client_error() => {
            (refusal.status(), "UTC".to_owned(), None, asked.refused(&refusal))
        }
        Err(error) => return Err(error.into()),
    };
    let here = member.address("/deliverability");
    let content = DeliverabilityPage {
        layout: member.layout(),
        shell: member.shell("/deliverability"),
        zone,
        days,
        spans: SPANS.map(|span| (span, asked.address(&here, span), span == days && !asked.has_dates())).into(),
        is_chosen: asked.by_name().iter().any(|(_, field)| !field.value.is_empty()),
        asked,
        granularities: choices("Days", [("hourly", "Hours"), ("weekly", "Weeks"), ("monthly", "Months")].map(option)),
        aparts: choices("Nothing", [("domain", "Domain"), ("broadcast", "Broadcast"), ("email", "Email")].map(option)),
        domains,
        broadcasts,
        problem,
        numbers,
        here,
    };
    Ok(web::page(status, &content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{DAY, HOUR};

    #[test]
    fn periods_hold_what_happened_in_them_and_empty_ones_are_shown() {
        let (mut one, mut two) = (Counts::default(), Counts::default());
        one.add(Counted::Delivered, 3);
        two.add(Counted::Delivered, 4);
        let typed = |name: &str| match name {
            "start_date" => "1970-01-01".to_owned(),
            "end_date" => "1970-01-03T12:00:00Z".to_owned(),
            _ => String::new(),
        };
        let question = Params::of_form(typed, "period".into()).read(9 * DAY).expect("a question");
        let place = |at: i64| (Some(at), None, None, None);
        let days = by_periods(&question, BTreeMap::from([(place(0), one), (place(2 * DAY), two)]));
        let delivered: Vec<(i64, i64)> = days.iter().map(|(at, counts)| (*at, counts.of(Counted::Delivered))).collect();
        assert_eq!(delivered, [(0, 3), (DAY, 0), (2 * DAY, 4)]);
        let hourly = Question { granularity: Granularity::Hourly, ..question };
        assert_eq!((hourly.periods().len(), hourly.periods().last()), (60, Some(&(59 * HOUR))));
    }
}

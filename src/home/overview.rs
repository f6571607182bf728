//! The overview of a workspace: what needs attention, what happened lately, and what to do first.

use askama::Template;
use http::StatusCode;

use super::activity::{self, Activity};
use super::plot::{Plot, Span};
use super::store::{self, FaultyDomain, MOST};
use crate::accounts::{Look, Member};
use crate::clock::DAY;
use crate::config::TransportKind;
use crate::db::{Stmt, from_row};
use crate::docs::Call;
use crate::email_metrics::{Counted, Counts, Group};
use crate::error::Error;
use crate::web::{self, Layout, Link, PageResult, Shell, Stamp};
use crate::{api_keys, email_metrics, emails, events, oauth};

#[derive(Template)]
#[template(path = "home/overview.html")]
struct HomePage {
    layout: Layout,
    shell: Shell,
    alerts: Vec<Alert>,
    tiles: Vec<Tile>,
    plots: Vec<Plot>,
    /// Events, runs and contacts, as far as there are any.
    activity: Vec<Activity>,
    /// What to do first; none once all of it is done.
    steps: Vec<Step>,
    done: usize,
}

/// Something that waits for somebody.
struct Alert {
    icon: &'static str,
    text: String,
    link: Link,
}

struct Tile {
    href: String,
    icon: &'static str,
    count: String,
    label: &'static str,
    text: String,
}

struct Step {
    title: &'static str,
    text: &'static str,
    link: Option<Link>,
    example: Option<Call>,
    done: bool,
}

/// How many there are, and when something last happened with them.
struct Tally {
    count: i64,
    last: Option<i64>,
}

from_row!(Tally { count, last });

/// Who has more wants to know that there are many, not wait until they are counted.
const MOST_COUNTED: i64 = 1000;

/// How much of a domain's mail may bounce, in percent, before somebody should look; of fewer mails it says little.
const MOST_BOUNCED: f64 = 5.0;
const FEWEST_SENT: i64 = 20;

/// How many domains that mail was sent from are looked at.
const MOST_DOMAINS: i64 = 1_000;

impl Tally {
    async fn take(member: &Member<Look>, stmt: Stmt) -> Result<Tally, Error> {
        member.query::<Option<Tally>>(stmt).await?.ok_or(Error::Internal)
    }

    fn shown(&self) -> String {
        if self.count > MOST_COUNTED { format!("{MOST_COUNTED}+") } else { self.count.to_string() }
    }

    /// `before` and how long ago the last time was, or `none`.
    fn since(&self, before: &str, none: &str, now: i64) -> String {
        self.last.map_or(none.to_owned(), |last| format!("{before} {}", Stamp::ago(last, now).text))
    }
}

pub async fn show(member: Member<Look>) -> PageResult {
    let workspace = member.workspace_id();
    let events = Tally::take(&member, events::tally(workspace)).await?;
    let keys = Tally::take(&member, api_keys::tally(workspace)).await?;
    let apps = Tally::take(&member, oauth::tally(workspace)).await?;
    let emails = Tally::take(&member, emails::tally(workspace)).await?;

    let now = member.app.clock.now();
    let tile = |path: &str, icon, tally: &Tally, label, text| Tile {
        href: member.address(path),
        icon,
        count: tally.shown(),
        label,
        text,
    };
    let steps = steps(&member, [keys.count > 0, emails.count > 0]).await?;
    let done = steps.iter().filter(|step| step.done).count();
    let page = HomePage {
        layout: member.layout(),
        shell: member.shell("/"),
        alerts: alerts(&member).await?,
        tiles: vec![
            tile("/emails", "mail", &emails, "Emails", emails.since("newest", "none yet", now)),
            tile("/events", "event", &events, "Events", events.since("newest", "none defined yet", now)),
            tile("/keys", "key", &keys, "API keys", keys.since("last used", "none used yet", now)),
            tile("/apps", "apps", &apps, "Connected apps", apps.since("last used", "none used yet", now)),
        ],
        plots: plots(&member, now).await?,
        activity: activity::of(&member, now).await?,
        steps: if done == steps.len() { Vec::new() } else { steps },
        done,
    };
    Ok(web::page(StatusCode::OK, &page))
}

/// "3 runs", "1 run", "more than 100 runs".
fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count if count as i64 > MOST => format!("More than {MOST} {many}"),
        count => format!("{count} {many}"),
    }
}

async fn alerts(member: &Member<Look>) -> Result<Vec<Alert>, Error> {
    let workspace = member.workspace_id();
    let since = member.app.clock.now() - 7 * DAY;
    let count = async |stmt: Stmt| Ok::<_, Error>(member.read(stmt).await?.len());
    let alert = |icon, text, path: &str, label: &str| Alert {
        icon,
        text,
        link: Link { href: member.address(path), label: label.to_owned() },
    };
    let mut alerts = Vec::new();
    match count(store::held_mail(workspace)).await? {
        0 => {}
        held => {
            let text = format!(
                "{} waiting for somebody to decide: nobody knows whether it arrived.",
                counted(held, "mail is", "mails are")
            );
            alerts.push(alert("hourglass", text, "/emails?state=uncertain", "Decide"));
        }
    }
    match count(store::failed_runs(workspace, since)).await? {
        0 => {}
        failed => {
            let text = format!("{} failed in the last 7 days.", counted(failed, "run", "runs"));
            alerts.push(alert("branch", text, "/runs?status=failed", "Look at them"));
        }
    }
    let domains: Vec<FaultyDomain> = member.query(store::faulty_domains(workspace)).await?;
    for FaultyDomain { id, name, status } in domains.into_iter().take(5) {
        let text = match status.as_str() {
            "not_started" | "pending" => format!("{name} is not verified yet: mail cannot be sent from it."),
            _ => format!("{name} has failing DNS records."),
        };
        alerts.push(alert("globe", text, &format!("/domains/{id}"), "See its records"));
    }
    for (domain, percent) in bouncing(member).await?.into_iter().take(5) {
        let text = format!("{percent:.1} % of the mail from {domain} bounced in the last 7 days.");
        alerts.push(alert("mail", text, "/deliverability?days=7", "See what became of mail"));
    }
    match count(store::failed_webhooks(workspace)).await? {
        0 => {}
        failed => {
            let text = format!(
                "{} disabled, because calls to it kept failing.",
                counted(failed, "webhook is", "webhooks are")
            );
            alerts.push(alert("warning", text, "/webhooks", "Look at the webhooks"));
        }
    }
    Ok(alerts)
}

/// Domains of whose mail of the last 7 days too much bounced, and how much of it in percent, the worst first.
async fn bouncing(member: &Member<Look>) -> Result<Vec<(String, f64)>, Error> {
    let now = member.app.clock.now();
    // Whole days, as the page of deliverability shows them.
    let first = Span::Week.start(now);
    let span = (first, first + 7 * DAY);
    let groups: Vec<Group> = member.query(email_metrics::by_domain(member.workspace_id(), span, MOST_DOMAINS)).await?;
    let mut found = Vec::new();
    for Group { domain, counts, .. } in groups {
        let sent = counts.of(Counted::Sent);
        let percent = counts.bounced() as f64 * 100.0 / sent.max(1) as f64;
        if !domain.is_empty() && sent >= FEWEST_SENT && percent > MOST_BOUNCED {
            found.push((domain, percent));
        }
    }
    found.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    Ok(found)
}

/// Mail of the last day and of the last week.
async fn plots(member: &Member<Look>, now: i64) -> Result<Vec<Plot>, Error> {
    let span = (Span::Week.start(now), now + DAY);
    let groups: Vec<Group> = member.query(email_metrics::by_quarter(member.workspace_id(), span)).await?;
    let counted: Vec<(i64, Counts)> = groups.iter().map(|group| (group.period, group.counts)).collect();
    Ok([Span::Day, Span::Week].map(|span| Plot::new(span, &counted, now)).into())
}

async fn steps(member: &Member<Look>, [keyed, sent]: [bool; 2]) -> Result<Vec<Step>, Error> {
    let workspace = member.workspace_id();
    let link = |path: &str, label: &str| Some(Link { href: member.address(path), label: label.into() });
    let mut steps = vec![
        Step {
            title: "Create an API key",
            text: "Programs show it when they call the API.",
            link: link("/keys", "To the API keys"),
            example: None,
            done: keyed,
        },
        Step {
            title: "Send a first mail",
            text: "Put the key into POSTHORN_KEY first. What this server captures can be read under Emails.",
            link: None,
            example: Some(emails::sending_as_code(&member.app, &member.session.email)),
            done: sent,
        },
    ];
    // Nothing leaves a server that captures: there no domain is needed.
    if member.app.config.transport() != TransportKind::Capture {
        steps.push(Step {
            title: "Add your domain",
            text: "It is shown which DNS records to set, and when they were found.",
            link: link("/domains", "To the domains"),
            example: None,
            done: member.query(store::verified_domain(workspace)).await?,
        });
    }
    steps.push(Step {
        title: "Automate something",
        text: "An automation answers events: a welcome, a reminder, a receipt.",
        link: match member.may_manage() {
            true => link("/automations/new?start=welcome", "Begin with a welcome"),
            false => link("/automations", "To the automations"),
        },
        example: None,
        done: member.query(store::any_automation(workspace)).await?,
    });
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_not_counted_to_the_end() {
        let shown = |count| Tally { count, last: None }.shown();
        assert_eq!((shown(0), shown(1000), shown(1001)), ("0".into(), "1000".into(), "1000+".into()));
        assert_eq!(counted(1, "run", "runs"), "1 run");
        assert_eq!(counted(101, "run", "runs"), "More than 100 runs");
    }

    #[test]
    fn a_tile_tells_when_something_last_happened() {
        let tally = |last| Tally { count: 1, last };
        assert_eq!(tally(None).since("newest", "none yet", 9), "none yet");
        assert_eq!(tally(Some(1)).since("newest", "none yet", 9), "newest just now");
    }
}

//! The overview of a workspace: what is there, and what to do first.

use askama::Template;
use http::StatusCode;

use crate::accounts::{Look, Member};
use crate::db::{Stmt, from_row};
use crate::error::Error;
use crate::web::{self, Layout, Link, PageResult, Shell, Stamp};
use crate::{api_keys, emails, events, oauth};

#[derive(Template)]
#[template(path = "home/overview.html")]
struct HomePage {
    layout: Layout,
    shell: Shell,
    tiles: Vec<Tile>,
    steps: Vec<Step>,
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
    command: Option<String>,
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
    let page = HomePage {
        layout: member.layout(),
        shell: member.shell("/"),
        tiles: vec![
            tile("/events", "event", &events, "Events", events.since("newest", "none defined yet", now)),
            tile("/keys", "key", &keys, "API keys", keys.since("last used", "none used yet", now)),
            tile("/apps", "apps", &apps, "Connected apps", apps.since("last used", "none used yet", now)),
            tile("/emails", "mail", &emails, "Emails", emails.since("newest", "none yet", now)),
        ],
        steps: steps(&member, [keys.count > 0, events.count > 0, apps.count > 0]),
    };
    Ok(web::page(StatusCode::OK, &page))
}

fn steps(member: &Member<Look>, [keyed, defined, connected]: [bool; 3]) -> Vec<Step> {
    let base = member.app.addresses.base.as_str();
    vec![
        Step {
            title: "Create an API key",
            text: "Programs show it when they call the API.",
            link: Some(Link { href: member.address("/keys"), label: "To the API keys".into() }),
            command: None,
            done: keyed,
        },
        Step {
            title: "Define an event",
            text: "Put the key into POSTHORN_KEY first.",
            link: None,
            command: Some(web::first_call(&member.app)),
            done: defined,
        },
        Step {
            title: "Connect an app",
            text: "Apps that speak OAuth find all they need here, and then ask for your approval.",
            link: None,
            command: Some(format!("curl {base}/.well-known/oauth-authorization-server")),
            done: connected,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_not_counted_to_the_end() {
        let shown = |count| Tally { count, last: None }.shown();
        assert_eq!((shown(0), shown(1000), shown(1001)), ("0".into(), "1000".into(), "1000+".into()));
    }

    #[test]
    fn a_tile_tells_when_something_last_happened() {
        let tally = |last| Tally { count: 1, last };
        assert_eq!(tally(None).since("newest", "none yet", 9), "none yet");
        assert_eq!(tally(Some(1)).since("newest", "none yet", 9), "newest just now");
    }
}

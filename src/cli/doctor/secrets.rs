//! Whether the secrets in the store are sealed, and whether they can be opened.

use super::Finding;
use super::report::Problem;
use crate::config::Config;
use crate::db::{DbError, Inspection, Location, Row, Stmt};
use crate::seal::{self, Seal};
use crate::{accounts, automations, credentials, domains, webhooks};

/// What finds some secrets behind a row of them, or the first.
type Page = fn(Option<&Row>) -> Result<Stmt, DbError>;

/// Where texts are sealed, and in which column.
const TEXTS: [(Page, usize); 4] = [
    (automations::sealed_secrets, 2),
    (webhooks::sealed_secrets, 2),
    (domains::sealed_relays, 1),
    (accounts::sealed_secrets, 1),
];

pub async fn examine(inspection: &Inspection, config: &Config) -> Result<Finding, DbError> {
    let seal = match Seal::existing(config) {
        Ok(seal) => seal,
        Err(error) => return Ok(Err(Problem::failure(format!("{error:#}"), "put the key file back"))),
    };
    let Found { opened, plain, unopened } = Found::of(inspection, &seal).await?;
    Ok(if unopened > 0 {
        Err(Problem::failure(
            format!(
                "{unopened} secrets were sealed with another key: they sign no tokens, webhooks or mail, open no \
                 relays and check no second factors"
            ),
            bring_back(config, opened > 0),
        ))
    } else if plain > 0 || !seal.has_key() && matches!(config.store().location, Location::Postgres(_)) {
        Err(Problem::warning(
            "whoever has a copy of the store can sign tokens: its secrets are not sealed",
            "set --secret (POSTHORN_SECRET) to what `openssl rand -base64 32` prints, and restart the server",
        ))
    } else {
        Ok("the secrets in the store are sealed and can be opened".into())
    })
}

/// How the secrets in a store are kept.
#[derive(Default)]
struct Found {
    opened: usize,
    plain: usize,
    unopened: usize,
}

impl Found {
    async fn of(inspection: &Inspection, seal: &Seal) -> Result<Found, DbError> {
        let (mut found, none) = (Found::default(), Seal::default());
        let mut key = |kept: &[u8]| found.count(none.open(kept).is_some(), seal.open(kept).is_some());
        for row in inspection.read(credentials::all_signing_keys()).await? {
            key(&row.bytes(1)?);
        }
        each(inspection, domains::sealed_keys, |row| row.bytes(2).map(|kept| key(&kept))).await?;
        let mut text = |kept: &str| found.count(none.open_text(kept).is_some(), seal.open_text(kept).is_some());
        for (page, column) in TEXTS {
            each(inspection, page, |row| row.text(column).map(|kept| text(&kept))).await?;
        }
        Ok(found)
    }

    fn count(&mut self, is_plain: bool, is_opened: bool) {
        let kept = match (is_plain, is_opened) {
            (true, _) => &mut self.plain,
            (false, true) => &mut self.opened,
            (false, false) => &mut self.unopened,
        };
        *kept += 1;
    }
}

/// Looks at all rows, page by page.
async fn each(
    inspection: &Inspection,
    page: Page,
    mut look: impl FnMut(&Row) -> Result<(), DbError>,
) -> Result<(), DbError> {
    let mut rows = inspection.read(page(None)?).await?;
    while let Some(last) = rows.last() {
        rows.iter().try_for_each(&mut look)?;
        rows = inspection.read(page(Some(last))?).await?;
    }
    Ok(())
}

/// How the key comes back that seals what cannot be opened. Where today's opens the rest, that one
/// came later: the key before it was in the file that no backup has.
fn bring_back(config: &Config, opens_some: bool) -> String {
    match &config.store().location {
        Location::Sqlite(store) if opens_some || (config.secret.is_none() && !seal::key_file(store).exists()) => {
            format!("put the key file that the store had back as {}", seal::old_key_file(store).display())
        }
        _ => "set --secret (POSTHORN_SECRET) to what the server had".into(),
    }
}

//! Settings of one value: what is allowed, and how it is told.

use std::net::{IpAddr, SocketAddr};

use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::db::Location;
use crate::mime::Mailbox;

/// The port of an address that comes without one.
const PORT: u16 = 8080;

pub fn listen(given: &str) -> Result<SocketAddr, String> {
    let alone = || given.trim_matches(['[', ']']).parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    let wrong = |_| "allowed is an address with or without a port, such as 127.0.0.1:8080, 0.0.0.0 or [::]:8080".into();
    given.parse().or_else(|_| alone()).map_err(wrong)
}

pub fn database_url(given: &str) -> Result<Location, String> {
    if given.starts_with("postgres://") || given.starts_with("postgresql://") {
        let parsed: Result<tokio_postgres::Config, _> = given.parse();
        return match parsed {
            Ok(_) => Ok(Location::Postgres(given.to_owned())),
            // What the reader complains about may be a piece of the password.
            Err(_) => Err("allowed is postgres://user:password@host:port/name?sslmode=require; special characters \
                           in user and password percent-encoded"
                .into()),
        };
    }
    let path = given.strip_prefix("sqlite://").or_else(|| given.strip_prefix("sqlite:"));
    match path {
        Some(path) if !path.is_empty() => Ok(Location::Sqlite(path.into())),
        _ => Err("allowed is postgres://user:password@host/name or sqlite:<file>".into()),
    }
}

pub fn operators_secret(given: &str) -> Result<String, String> {
    match given.chars().count() {
        32.. => Ok(given.to_owned()),
        _ => Err("allowed is text of at least 32 characters, such as `openssl rand -base64 32` prints".into()),
    }
}

pub fn mail_from(given: &str) -> Result<Mailbox, String> {
    given.parse().map_err(|_| "allowed is an address, or a name and an address: Posthorn <posthorn@example.com>".into())
}

/// Levels, and parts with a level. A word alone would be the name of a part that is not there.
pub fn log_filter(given: &str) -> Result<String, String> {
    let is_level = |word: &str| !word.trim().is_empty() && word.trim().parse::<LevelFilter>().is_ok();
    let is_known = |part: &str| part.rsplit_once('=').map_or(is_level(part), |(_, level)| is_level(level));
    let filter: Result<Targets, _> = given.parse();
    match filter.is_ok() && given.split(',').all(is_known) {
        true => Ok(given.to_owned()),
        false => {
            Err("allowed is off, error, warn, info, debug or trace, or a filter such as info,posthorn::db=debug".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_url_names_an_engine() {
        assert_eq!(database_url("sqlite:/x/y.db"), Ok(Location::Sqlite("/x/y.db".into())));
        assert!(matches!(database_url("postgres://u@h/d"), Ok(Location::Postgres(_))));
        assert!(database_url("mysql://h").is_err());
    }

    #[test]
    fn issue_15_a_log_level_that_does_not_exist_is_refused() {
        for given in ["info", "DEBUG", "off", "warn,posthorn::db=debug", "posthorn=trace", "2"] {
            assert_eq!(log_filter(given).as_deref(), Ok(given));
        }
        for given in ["verbose", "", "info,", "loud,info", "posthorn::db", "posthorn=loud", "=x="] {
            assert!(log_filter(given).expect_err(given).contains("info"), "{given}");
        }
    }

    #[test]
    fn issue_15_an_address_needs_no_port() {
        for (given, address) in
            [("0.0.0.0", "0.0.0.0:8080"), ("[::]", "[::]:8080"), ("::1", "[::1]:8080"), ("127.0.0.1:9", "127.0.0.1:9")]
        {
            assert_eq!(listen(given).map(|found| found.to_string()).as_deref(), Ok(address));
        }
        assert!(listen("8080").is_err() && listen("localhost").is_err() && listen("1.2.3.4:99999").is_err());
    }
}

//! Settings of one value: what is allowed, and how it is told.

use std::net::SocketAddr;

use crate::db::Location;
use crate::mime::Mailbox;

pub fn listen(given: &str) -> Result<SocketAddr, String> {
    given.parse().map_err(|_| "allowed is an address and a port, such as 127.0.0.1:8080 or [::]:8080".into())
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

pub fn log_filter(given: &str) -> Result<String, String> {
    let filter: Result<tracing_subscriber::filter::Targets, _> = given.parse();
    filter.map(|_| given.to_owned()).map_err(|error| format!("{error}; allowed is for example info or debug"))
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
}

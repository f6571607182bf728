//! The way out to other people's servers: a host's addresses are looked up once,
//! every one of them is checked, and a checked one is dialled.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, HOST, USER_AGENT};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Full;
use rustls::ClientConfig;
use tokio::net::TcpStream;

use super::url::DocumentUrl;
use crate::clock::{HOUR, MINUTE, SECOND};
use crate::web::address::is_public;
use crate::web::fetch::{self, FetchError};
use crate::web::input;

/// The largest document that is read.
const LIMIT: usize = 5 << 10;

/// For how long a document is believed, whatever its server says.
const SHORTEST: i64 = 5 * MINUTE;
const LONGEST: i64 = 24 * HOUR;

/// How many of a host's addresses are tried.
const TRIED: usize = 4;

/// Names that are looked up and connections that are made. Tests put a stage of
/// their own in place of the internet; a server that runs has only the one.
pub struct Outside {
    network: Network,
    tls: Arc<ClientConfig>,
}

enum Network {
    Internet,
    #[cfg(test)]
    Stage(super::stage::Stage),
}

/// Why a document could not be fetched. For the log: a stranger is told no more
/// than that it could not, or he could feel his way through our network.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("the host's name cannot be looked up: {0}")]
    Name(io::Error),
    #[error("the host's name leads to no address")]
    NoAddress,
    #[error("the host's name leads to {0}, which is not on the public internet")]
    NotPublic(std::net::IpAddr),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the answer is {0} instead of 200; redirects are not followed")]
    Status(StatusCode),
    #[error("the answer is not labelled JSON")]
    NotJson,
}

/// A document as it was served, and for how long it may be believed.
pub struct Fetched {
    pub bytes: Bytes,
    pub good_for: i64,
}

impl Outside {
    pub fn internet() -> Outside {
        Outside { network: Network::Internet, tls: fetch::public_tls() }
    }

    #[cfg(test)]
    pub fn stage(stage: super::stage::Stage) -> Outside {
        let tls = stage.tls();
        Outside { network: Network::Stage(stage), tls }
    }

    /// Fetches what stands at an address. The caller sets a time limit.
    pub async fn fetch(&self, url: &DocumentUrl) -> Result<Fetched, Unreachable> {
        let addresses = self.look_up(url).await?;
        let stream = self.dial(&addresses).await?;
        let stream = fetch::secured(stream, url.host(), self.tls.clone()).await?;
        let request = Request::get(url.path())
            .header(HOST, url.authority())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("Posthorn/", env!("CARGO_PKG_VERSION")))
            .body(Full::default());
        let request = request.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error));
        let answer = fetch::exchange(stream, request.map_err(FetchError::from)?, LIMIT).await?;
        if answer.status != StatusCode::OK {
            return Err(Unreachable::Status(answer.status));
        }
        if !input::is_json(&answer.headers) {
            return Err(Unreachable::NotJson);
        }
        Ok(Fetched { good_for: good_for(&answer.headers), bytes: answer.body })
    }

    /// The addresses of a host, all of them public. One that is not condemns the
    /// rest: an honest host has no such address.
    async fn look_up(&self, url: &DocumentUrl) -> Result<Vec<SocketAddr>, Unreachable> {
        let found: Vec<SocketAddr> = match &self.network {
            Network::Internet => {
                tokio::net::lookup_host((url.host(), url.port())).await.map_err(Unreachable::Name)?.collect()
            }
            #[cfg(test)]
            Network::Stage(stage) => stage.look_up(url.host(), url.port()),
        };
        match found.iter().find(|address| !is_public(address.ip())) {
            Some(address) => Err(Unreachable::NotPublic(address.ip())),
            None if found.is_empty() => Err(Unreachable::NoAddress),
            None => Ok(found),
        }
    }

    /// Connects to the first of the addresses that answers.
    async fn dial(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Unreachable> {
        let mut failure = io::ErrorKind::AddrNotAvailable.into();
        for &address in addresses.iter().take(TRIED) {
            let dialled = match &self.network {
                Network::Internet => TcpStream::connect(address).await,
                #[cfg(test)]
                Network::Stage(stage) => stage.dial(address).await,
            };
            match dialled {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(FetchError::from(failure).into())
    }
}

/// For how long an answer may be believed: what its server says, within bounds.
fn good_for(headers: &HeaderMap) -> i64 {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let directives = lines.flat_map(|line| line.split(',')).map(|one| one.trim().to_ascii_lowercase());
    let mut told = None;
    for directive in directives {
        if directive == "no-store" || directive == "no-cache" {
            return SHORTEST;
        }
        if let Some(seconds) = directive.strip_prefix("max-age=") {
            told = Some(seconds.trim_matches('"').parse::<i64>().unwrap_or(0));
        }
    }
    told.unwrap_or(0).saturating_mul(SECOND).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_believed_for_5_minutes_to_24_hours() {
        for (line, expected) in [
            ("", SHORTEST),
            ("max-age=0", SHORTEST),
            ("max-age=299", SHORTEST),
            ("public, max-age=3600", HOUR),
            ("Max-Age=\"3600\"", HOUR),
            ("max-age=86400", LONGEST),
            ("max-age=999999999999", LONGEST),
            ("max-age=99999999999999999999", SHORTEST),
            ("max-age=-1", SHORTEST),
            ("max-age=x", SHORTEST),
            ("max-age=3600, no-cache", SHORTEST),
            ("no-store", SHORTEST),
        ] {
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, http::HeaderValue::from_static(line))]);
            assert_eq!(good_for(&headers), expected, "{line}");
        }
        assert_eq!(good_for(&HeaderMap::new()), SHORTEST);
    }
}

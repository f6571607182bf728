//! Accepts connections for submission, within bounds, and ends them without losing a message.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Server;
use super::session::Session;
use super::stream::Stream;
use crate::config::Config;
use crate::emails::Emails;
use crate::web::{self, Bounds, Connections};

/// How many connections there may be, beside those of HTTP.
pub const MOST_CONNECTIONS: usize = 1_000;

/// How often attempts to log in are forgotten that count no more.
const SWEEP: Duration = Duration::from_secs(60);

const NO_PLACE: &[u8] = b"421 4.3.2 Too many connections. Try again in a moment.\r\n";

/// Where clients come in: in clear at first, and encrypted from the first byte.
#[derive(Default)]
pub struct Listeners {
    plain: Option<TcpListener>,
    encrypted: Option<TcpListener>,
}

impl Listeners {
    /// Listens where the settings say.
    pub fn bind(config: &Config) -> anyhow::Result<Listeners> {
        let bind = |flag: &str, address: Option<SocketAddr>| {
            let bound = address.map(web::bind).transpose();
            let shown = address.map(|address| address.to_string()).unwrap_or_default();
            bound.with_context(|| format!("{flag} {shown}: this address cannot be listened on"))
        };
        Ok(Listeners {
            plain: bind("--submission-listen", config.submission.submission_listen)?,
            encrypted: bind("--submission-tls-listen", config.submission.submission_tls_listen)?,
        })
    }

    /// The addresses, as clients are told them.
    pub fn addresses(&self) -> Vec<String> {
        let shown = |scheme: &str, listener: &Option<TcpListener>| {
            let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
            address.map(|address| format!("{scheme}://{address}"))
        };
        [shown("smtp", &self.plain), shown("smtps", &self.encrypted)].into_iter().flatten().collect()
    }

    /// The next client, and whether it speaks encrypted from the first byte.
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr, bool)> {
        let next = async |listener: &Option<TcpListener>| match listener {
            Some(listener) => listener.accept().await,
            None => std::future::pending().await,
        };
        tokio::select! {
            accepted = next(&self.plain) => accepted.map(|(tcp, peer)| (tcp, peer, false)),
            accepted = next(&self.encrypted) => accepted.map(|(tcp, peer)| (tcp, peer, true)),
        }
    }
}

/// Takes mail until it is time to stop, then lets what is being handed in be finished.
pub async fn run(listeners: Listeners, emails: Emails, stopping: watch::Receiver<bool>) -> anyhow::Result<()> {
    let drain = Duration::from_secs(emails.config.drain_seconds);
    let mut bounds = Bounds::of(&emails.config);
    bounds.connections = bounds.connections.min(MOST_CONNECTIONS);
    bounds.memory /= 4;
    // Whoever sits behind a proxy of HTTP does not come this way.
    bounds.proxies.clear();
    let (connections, server) = (Connections::new(bounds), Arc::new(Server::new(emails)?));
    let (mut sessions, mut sweep) = (JoinSet::new(), tokio::time::interval(SWEEP));
    let mut until = stopping.clone();
    let stop = async move { drop(until.wait_for(|stopping| *stopping).await) };
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listeners.accept() => match accepted {
                Ok((tcp, peer, is_encrypted)) => match connections.admit(peer) {
                    Some(admitted) => {
                        let _ = tcp.set_nodelay(true);
                        let (number, stream) = (admitted.0.number(), Stream::new(tcp, admitted.0.clone()));
                        let session = Session::new(server.clone(), stream, peer, stopping.clone());
                        let task = sessions.spawn(async move {
                            let _counted = admitted;
                            session.run(is_encrypted).await;
                        });
                        connections.served_by(number, task);
                    }
                    None => refuse(tcp, is_encrypted),
                },
                Err(error) => {
                    // Out of descriptors: those in use will be given back.
                    tracing::warn!(%error, "a connection for submission could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = sessions.join_next() => {}
            _ = sweep.tick() => server.attempts.sweep(server.emails.clock.steady()),
            () = &mut stop => break,
        }
    }
    drop(listeners);
    let finish = async { while sessions.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, finish).await.is_err() {
        tracing::warn!("some messages were not handed in whole in time; their senders will send them again");
    }
    Ok(())
}

/// Says that there is no place, without waiting for anything.
fn refuse(tcp: TcpStream, is_encrypted: bool) {
    if let Ok(mut tcp) = tcp.into_std()
        && !is_encrypted
    {
        let _ = tcp.write(NO_PLACE);
    }
}

//! Accepts connections, within bounds, and ends them without losing a message.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::stream::Stream;
use crate::config::Config;
use crate::web::{self, Bounds, Connections};

/// How often what counts no more is forgotten.
const SWEEP: Duration = Duration::from_secs(60);

const NO_PLACE: &[u8] = b"421 4.3.2 Too many connections. Try again in a moment.\r\n";

/// Where clients come in: in clear at first, and encrypted from the first byte.
#[derive(Default)]
pub struct Listeners {
    plain: Option<TcpListener>,
    encrypted: Option<TcpListener>,
}

/// What connections are accepted for.
pub struct Service<'a> {
    pub name: &'static str,
    pub config: &'a Config,
    /// How many there may be, beside those of HTTP.
    pub most: usize,
    pub stopping: watch::Receiver<bool>,
}

impl Listeners {
    /// Listens where the settings of these names say.
    pub fn bind(plain: (&str, Option<SocketAddr>), encrypted: (&str, Option<SocketAddr>)) -> anyhow::Result<Listeners> {
        let bind = |(flag, address): (&str, Option<SocketAddr>)| {
            let bound = address.map(web::bind).transpose();
            let shown = address.map(|address| address.to_string()).unwrap_or_default();
            bound.with_context(|| format!("{flag} {shown}: this address cannot be listened on"))
        };
        Ok(Listeners { plain: bind(plain)?, encrypted: bind(encrypted)? })
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

    /// Lets `session` speak with every client until it is time to stop, then lets what is under way
    /// be finished. `sweep` is called now and then.
    pub async fn serve<F: Future<Output = ()> + Send + 'static>(
        self,
        Service { name, config, most, mut stopping }: Service<'_>,
        session: impl Fn(Stream, SocketAddr, bool) -> F,
        sweep: impl Fn(),
    ) {
        let drain = Duration::from_secs(config.drain_seconds);
        let mut bounds = Bounds::of(config);
        bounds.connections = bounds.connections.min(most);
        bounds.memory /= 4;
        // Whoever sits behind a proxy of HTTP does not come this way.
        bounds.proxies.clear();
        let connections = Connections::new(bounds);
        let (mut sessions, mut now_and_then) = (JoinSet::new(), tokio::time::interval(SWEEP));
        let stop = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
        tokio::pin!(stop);
        loop {
            tokio::select! {
                accepted = self.accept() => match accepted {
                    Ok((tcp, peer, is_encrypted)) => match connections.admit(peer) {
                        Some(admitted) => {
                            let _ = tcp.set_nodelay(true);
                            let (number, stream) = (admitted.0.number(), Stream::new(tcp, admitted.0.clone()));
                            let session = session(stream, peer, is_encrypted);
                            let task = sessions.spawn(async move {
                                let _counted = admitted;
                                session.await;
                            });
                            connections.served_by(number, task);
                        }
                        None => refuse(tcp, is_encrypted),
                    },
                    Err(error) => {
                        // Out of descriptors: those in use will be given back.
                        tracing::warn!(%error, "a connection for {name} could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(_) = sessions.join_next() => {}
                _ = now_and_then.tick() => sweep(),
                () = &mut stop => break,
            }
        }
        drop(self);
        let finish = async { while sessions.join_next().await.is_some() {} };
        if tokio::time::timeout(drain, finish).await.is_err() {
            tracing::warn!("{name}: some messages did not arrive whole in time; their senders will send them again");
        }
    }
}

/// Says that there is no place, without waiting for anything.
fn refuse(tcp: TcpStream, is_encrypted: bool) {
    if let Ok(mut tcp) = tcp.into_std()
        && !is_encrypted
    {
        let _ = tcp.write(NO_PLACE);
    }
}

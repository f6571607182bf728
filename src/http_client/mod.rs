//! HTTP towards other servers. One request on one connection (or one after the
//! other, [`Kept`]), whose answer is read within a time and up to a size. A host's addresses are looked up
//! once, all of them are checked, and a checked one is connected to. A redirect
//! is an answer like any other: nothing is followed.

mod address;
mod kept;
#[cfg(test)]
mod tests;

pub use address::is_public;
pub use kept::Kept;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dns::{DnsError, Resolver};
use crate::tls;

/// What the status line and the headers of an answer may take up.
const MAX_HEAD: usize = 16 << 10;

/// How many of a host's addresses are tried.
const MOST_ADDRESSES: usize = 4;

/// Who may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only servers on the public internet: strangers choose the address.
    Public,
    Anywhere,
}

/// What an exchange may take: from the look-up of the name to the last byte of
/// the answer, and how large the answer's body may be.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub time: Duration,
    pub bytes: usize,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// A header, as far as it is text.
    pub fn header(&self, name: http::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why no answer came back. Those for whom [`HttpError::is_about_address`] holds
/// are for the log alone where a stranger chose the address: they would tell of
/// our own network.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("not an http:// or https:// address with a host")]
    Url,
    #[error("the host's name cannot be looked up: {0}")]
    Lookup(io::Error),
    #[error("the host's name leads to no address")]
    NoAddress,
    #[error("the host's name leads to {0}, which is not on the public internet")]
    NotPublic(IpAddr),
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    #[error("the host's name cannot be in a certificate")]
    Name,
    #[error("the exchange failed: {0}")]
    Exchange(#[from] hyper::Error),
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("no answer within {} seconds", .0.as_secs())]
    Late(Duration),
}

impl HttpError {
    /// Whether the host's addresses were the reason.
    pub fn is_about_address(&self) -> bool {
        matches!(self, HttpError::Lookup(_) | HttpError::NoAddress | HttpError::NotPublic(_))
    }
}

/// An answer of which more is to come.
pub struct Incomplete {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Limited<Incoming>,
    bounds: Bounds,
    deadline: Instant,
    /// It ends when it is dropped.
    _connection: JoinSet<()>,
}

impl Incomplete {
    /// Some more of its body; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = tokio::time::timeout_at(self.deadline, self.body.frame()).await;
            match frame.map_err(|_| HttpError::Late(self.bounds.time))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(broken_body(error, self.bounds.bytes)),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

type Http<S> = http1::Connection<TokioIo<S>, Full<Bytes>>;

/// A connection to a server.
enum Dialled {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

/// The server that an address names.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
    is_secure: bool,
}

pub struct HttpClient {
    reach: Reach,
    tls: Arc<ClientConfig>,
    network: Network,
}

/// Names that are looked up and addresses that are connected to.
enum Network {
    /// As the system looks them up.
    Internet,
    /// As name servers that were chosen have them.
    Named(Box<Resolver>),
    /// Tests have others than the internet's.
    #[cfg(test)]
    Staged(Staged),
}

/// What a name leads to at a port, and where a connection to an address really goes.
#[cfg(test)]
pub struct Staged {
    pub look_up: Box<LookUp>,
    pub connect: Box<dyn Fn(SocketAddr) -> SocketAddr + Send + Sync>,
}

#[cfg(test)]
type LookUp = dyn Fn(&str, u16) -> Vec<SocketAddr> + Send + Sync;

impl HttpClient {
    pub fn new(reach: Reach) -> HttpClient {
        HttpClient { reach, tls: with_http(tls::client()), network: Network::Internet }
    }

    /// Asks these name servers, and believes certificates below these roots.
    pub fn asking(resolver: Resolver, roots: RootCertStore, reach: Reach) -> HttpClient {
        let (tls, network) = (with_http(tls::client_trusting(roots)), Network::Named(Box::new(resolver)));
        HttpClient { reach, tls, network }
    }

    #[cfg(test)]
    pub fn staged(reach: Reach, tls: ClientConfig, staged: Staged) -> HttpClient {
        HttpClient { reach, tls: with_http(tls), network: Network::Staged(staged) }
    }

    /// Sends a request to the server that its address names.
    pub async fn send(&self, request: Request<Full<Bytes>>, bounds: Bounds) -> Result<Answer, HttpError> {
        let exchange = tokio::time::timeout(bounds.time, self.exchange(request, bounds.bytes));
        exchange.await.unwrap_or(Err(HttpError::Late(bounds.time)))
    }

    /// As [`HttpClient::send`], for an answer that is too large for memory: it is read as it comes.
    pub async fn open(&self, request: Request<Full<Bytes>>, bounds: Bounds) -> Result<Incomplete, HttpError> {
        let deadline = Instant::now() + bounds.time;
        let begun = async {
            Ok(match self.dial(request).await? {
                (request, Dialled::Plain(stream)) => begin(stream, request).await?,
                (request, Dialled::Secure(stream)) => begin(*stream, request).await?,
            })
        };
        let begun = tokio::time::timeout_at(deadline, begun).await;
        let (response, connection) = begun.unwrap_or(Err(HttpError::Late(bounds.time)))?;
        let (parts, body) = response.into_parts();
        if body.size_hint().lower() > bounds.bytes as u64 {
            return Err(HttpError::TooLarge(bounds.bytes));
        }
        let body = Limited::new(body, bounds.bytes);
        let (status, headers) = (parts.status, parts.headers);
        Ok(Incomplete { status, headers, body, bounds, deadline, _connection: connection })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, limit: usize) -> Result<Answer, HttpError> {
        match self.dial(request).await? {
            (request, Dialled::Plain(stream)) => exchange(stream, request, limit).await,
            (request, Dialled::Secure(stream)) => exchange(*stream, request, limit).await,
        }
    }

    /// Connects to the server that a request's address names; the request is then as that server reads it.
    async fn dial(&self, request: Request<Full<Bytes>>) -> Result<(Request<Full<Bytes>>, Dialled), HttpError> {
        let (request, target) = addressed(request)?;
        Ok((request, self.dial_to(&target).await?))
    }

    async fn dial_to(&self, Target { host, port, is_secure }: &Target) -> Result<Dialled, HttpError> {
        let stream = self.connect(&self.look_up(host, *port).await?).await?;
        if !is_secure {
            return Ok(Dialled::Plain(stream));
        }
        let name = ServerName::try_from(host.clone()).map_err(|_| HttpError::Name)?;
        let secured = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        Ok(Dialled::Secure(Box::new(secured)))
    }

    /// The addresses of a host. One that may not be called condemns the rest: an
    /// honest host has no such address.
    async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, HttpError> {
        let found: Vec<SocketAddr> = match &self.network {
            Network::Internet => tokio::net::lookup_host((host, port)).await.map_err(HttpError::Lookup)?.collect(),
            Network::Named(resolver) => match resolver.addresses(host).await {
                Ok(found) => found.into_iter().map(|address| SocketAddr::new(address, port)).collect(),
                Err(DnsError::NoName | DnsError::Missing) => Vec::new(),
                Err(DnsError::Later(reason)) => return Err(HttpError::Lookup(io::Error::other(reason))),
            },
            #[cfg(test)]
            Network::Staged(staged) => (staged.look_up)(host, port),
        };
        let refused = |address: &&SocketAddr| self.reach == Reach::Public && !is_public(address.ip());
        match found.iter().find(refused) {
            Some(address) => Err(HttpError::NotPublic(address.ip())),
            None if found.is_empty() => Err(HttpError::NoAddress),
            None => Ok(found),
        }
    }

    /// Connects to the first of the addresses that answers.
    async fn connect(&self, addresses: &[SocketAddr]) -> Result<TcpStream, HttpError> {
        let mut failure = io::ErrorKind::AddrNotAvailable.into();
        for &address in addresses.iter().take(MOST_ADDRESSES) {
            let address = match &self.network {
                Network::Internet | Network::Named(_) => address,
                #[cfg(test)]
                Network::Staged(staged) => (staged.connect)(address),
            };
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // Without it the last piece of a request may wait for an answer to the one before.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => failure = error,
            }
        }
        Err(HttpError::Connection(failure))
    }
}

/// A request as the server reads it that its address names, and that server.
fn addressed(mut request: Request<Full<Bytes>>) -> Result<(Request<Full<Bytes>>, Target), HttpError> {
    let uri = request.uri().clone();
    let host = uri.host().ok_or(HttpError::Url)?;
    let is_secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(HttpError::Url),
    };
    *request.uri_mut() =
        uri.path_and_query().cloned().unwrap_or_else(|| http::uri::PathAndQuery::from_static("/")).into();
    let authority = uri.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    request.headers_mut().insert(HOST, HeaderValue::from_str(&authority).map_err(|_| HttpError::Url)?);
    let agent = HeaderValue::from_static(concat!("Posthorn/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().entry(USER_AGENT).or_insert(agent);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((request, Target { host, port: port(&uri), is_secure }))
}

/// The port of an address, written or not.
pub fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 })
}

fn with_http(mut tls: ClientConfig) -> Arc<ClientConfig> {
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(tls)
}

/// Sends a request over a connection and reads the answer, with a body of at
/// most `limit` bytes. The connection ends with the call, or when it is dropped.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>, limit: usize) -> Result<Answer, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = handshake(stream).await?;
    let talk = async move { read(sender.send_request(request).await?, limit).await };
    beside(&mut pin!(connection.map(drop).fuse()), talk).await
}

/// Begins to speak HTTP over a connection, which carries nothing unless it is polled.
async fn handshake<S>(stream: S) -> Result<(http1::SendRequest<Full<Bytes>>, Http<S>), HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = http1::Builder::new();
    Ok(client.max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await?)
}

/// What is said over a connection, which carries it as long as this lasts.
async fn beside<T>(connection: &mut (impl FusedFuture<Output = ()> + Unpin), talk: impl Future<Output = T>) -> T {
    let mut talk = pin!(talk);
    poll_fn(|context| {
        if let Poll::Ready(answer) = talk.as_mut().poll(context) {
            return Poll::Ready(answer);
        }
        // Whatever ends it, the talk learns of it too, and says it better.
        let _ = connection.poll_unpin(context);
        talk.as_mut().poll(context)
    })
    .await
}

/// As [`exchange`], up to the head of the answer. The connection lives as long as the task beside it.
async fn begin<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(Response<Incoming>, JoinSet<()>), HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = handshake(stream).await?;
    let mut task = JoinSet::new();
    task.spawn(async move { drop(connection.await) });
    Ok((sender.send_request(request).await?, task))
}

async fn read(response: Response<Incoming>, limit: usize) -> Result<Answer, HttpError> {
    let (parts, body) = response.into_parts();
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(Answer { status: parts.status, headers: parts.headers, body: whole.to_bytes() }),
        Err(error) => Err(broken_body(error, limit)),
    }
}

fn broken_body(error: Box<dyn std::error::Error + Send + Sync>, limit: usize) -> HttpError {
    match error.downcast::<hyper::Error>() {
        Ok(broken) => HttpError::Exchange(*broken),
        Err(_) => HttpError::TooLarge(limit),
    }
}

//! A small HTTP client: one request on one connection, whose answer is read
//! whole, up to a limit. A redirect is an answer like any other: nothing is
//! followed.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What the status line and the headers of an answer may take up.
const MAX_HEAD: usize = 16 << 10;

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

/// Why no answer came back.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    #[error("the host's name cannot be in a certificate")]
    Name,
    #[error("the exchange failed: {0}")]
    Exchange(#[from] hyper::Error),
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
}

/// Sends a request over a connection and reads the answer, with a body of at
/// most `limit` bytes. The connection ends with the call, or when it is dropped.
pub async fn exchange<S>(stream: S, request: Request<Full<Bytes>>, limit: usize) -> Result<Answer, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = http1::Builder::new();
    let (mut sender, connection) = client.max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await?;
    let talk = async move { read(sender.send_request(request).await?, limit).await };
    tokio::pin!(talk, connection);
    let mut ended = false;
    loop {
        tokio::select! {
            answer = &mut talk => return answer,
            // Whatever ended it, the talk learns of it too, and says it better.
            _ = &mut connection, if !ended => ended = true,
        }
    }
}

async fn read(response: Response<Incoming>, limit: usize) -> Result<Answer, FetchError> {
    let (parts, body) = response.into_parts();
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(Answer { status: parts.status, headers: parts.headers, body: whole.to_bytes() }),
        Err(error) => match error.downcast::<hyper::Error>() {
            Ok(broken) => Err(FetchError::Exchange(*broken)),
            Err(_) => Err(FetchError::TooLarge(limit)),
        },
    }
}

/// TLS with the public roots.
pub fn public_tls() -> Arc<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    tls_trusting(roots)
}

/// TLS that believes certificates below these roots.
pub fn tls_trusting(roots: rustls::RootCertStore) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the ring provider supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Encrypts a connection and makes sure that the other end is `host`.
pub async fn secured(
    stream: TcpStream,
    host: &str,
    tls: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, FetchError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| FetchError::Name)?;
    Ok(TlsConnector::from(tls).connect(name, stream).await?)
}

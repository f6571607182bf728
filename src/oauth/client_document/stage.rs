//! What tests have in place of the internet: names that lead wherever they say,
//! and one https server on this machine that plays every host.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::http_client::{HttpClient, Reach, Staged};
use crate::tls;

/// An address that is public, of a host that nobody here connects to.
pub const PUBLIC: &str = "93.184.215.14";

/// Parts of an answer, each with the time to wait before it is sent.
pub type Script = Vec<(Duration, Vec<u8>)>;

#[derive(Clone)]
pub struct Stage(Arc<Parts>);

struct Parts {
    /// The addresses of every host: those of the first look-up, of the second, …
    names: Mutex<Vec<Vec<IpAddr>>>,
    server: SocketAddr,
    tls: ClientConfig,
    dialled: Mutex<Vec<SocketAddr>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// A server that answers every path with what `play` gives for it.
    pub async fn open(play: impl Fn(&str) -> Script + Send + Sync + 'static) -> Stage {
        Stage::certified(&["app.example", "other.example"], play).await
    }

    /// The same, with a certificate for these hosts.
    pub async fn certified(hosts: &[&str], play: impl Fn(&str) -> Script + Send + Sync + 'static) -> Stage {
        let (acceptor, tls) = certificates(hosts);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let parts = Parts {
            names: Mutex::default(),
            server: listener.local_addr().expect("an address"),
            tls,
            dialled: Mutex::default(),
            asked: asked.clone(),
        };
        let play = Arc::new(play);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, play, asked) = (acceptor.clone(), play.clone(), asked.clone());
                tokio::spawn(async move { serve(stream, acceptor, &*play, &asked).await });
            }
        });
        Stage(Arc::new(parts))
    }

    /// Lets names lead to these addresses, one list for each look-up; the last
    /// one stays.
    pub fn naming(self, lookups: &[&[&str]]) -> Stage {
        let parse = |address: &&str| address.parse().expect("an address");
        *self.0.names.lock().expect("names") =
            lookups.iter().map(|lookup| lookup.iter().map(parse).collect()).collect();
        self
    }

    /// A client for which this stage is the public internet.
    pub fn client(&self) -> HttpClient {
        let (names, server) = (self.clone(), self.clone());
        let staged = Staged {
            look_up: Box::new(move |_, port| names.look_up(port)),
            connect: Box::new(move |address| server.connect(address)),
        };
        HttpClient::staged(Reach::Public, self.0.tls.clone(), staged)
    }

    fn look_up(&self, port: u16) -> Vec<SocketAddr> {
        let mut names = self.0.names.lock().expect("names");
        let found = match names.len() {
            0 => vec![PUBLIC.parse().expect("an address")],
            1 => names[0].clone(),
            _ => names.remove(0),
        };
        found.into_iter().map(|address| SocketAddr::new(address, port)).collect()
    }

    /// Notes who was dialled, and connects to the server of this stage instead.
    fn connect(&self, address: SocketAddr) -> SocketAddr {
        self.0.dialled.lock().expect("dialled").push(address);
        self.0.server
    }

    pub fn dialled(&self) -> Vec<SocketAddr> {
        self.0.dialled.lock().expect("dialled").clone()
    }

    /// The heads of the requests that came in.
    pub fn asked(&self) -> Vec<String> {
        self.0.asked.lock().expect("asked").clone()
    }
}

fn certificates(hosts: &[&str]) -> (TlsAcceptor, ClientConfig) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
    let leaf = CertificateParams::new(hosts).expect("hosts").signed_by(&key, &authority).expect("a certificate");

    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("a server");
    (TlsAcceptor::from(Arc::new(server)), tls::client_trusting(roots))
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    play: &(dyn Fn(&str) -> Script + Sync),
    asked: &Mutex<Vec<String>>,
) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().expect("asked").push(head);
    for (wait, part) in play(&path) {
        tokio::time::sleep(wait).await;
        if stream.write_all(&part).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

/// A whole answer at once.
pub fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Script {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    vec![(Duration::ZERO, bytes)]
}

/// A document as it should be served.
pub fn document(body: impl AsRef<[u8]>) -> Script {
    answer("200 OK", "Content-Type: application/json\r\nCache-Control: max-age=600\r\n", body)
}

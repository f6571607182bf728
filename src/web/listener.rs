//! Accepts connections and speaks HTTP on them, within bounds.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::connections::{Admitted, Bounds, Connection, Connections};
use super::gate::Gate;
use super::stream::{RequestBody, Stream};

/// The largest head, and what is read or written ahead of whoever takes it.
const BUFFER: usize = 64 << 10;

/// What the system keeps of an answer that nobody reads. A window in which
/// nothing moves must mean that nothing is read, so it is not much.
const SEND_BUFFER: u32 = 128 << 10;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 4096;

const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

pub fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until `stop`, then lets requests in flight finish.
pub async fn run(
    listener: TcpListener,
    gate: Arc<Gate>,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
    drain: Duration,
) -> anyhow::Result<()> {
    let connections = Connections::new(bounds);
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, peer)) => match connections.admit(peer) {
                    Some(admitted) => converse(tcp, peer, admitted, &connections, gate.clone(), &graceful),
                    None => refuse(tcp),
                },
                Err(error) => {
                    // Out of descriptors: those in use will be given back.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            () = &mut stop => break,
        }
    }
    drop(listener);
    tracing::info!("stopping; requests in flight are finished first");
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
    Ok(())
}

/// Says that there is no place, without waiting for anything.
fn refuse(tcp: TcpStream) {
    if let Ok(mut tcp) = tcp.into_std() {
        let _ = tcp.write(NO_PLACE);
    }
}

fn converse(
    tcp: TcpStream,
    peer: SocketAddr,
    admitted: Admitted,
    connections: &Connections,
    gate: Arc<Gate>,
    graceful: &GracefulShutdown,
) {
    let _ = tcp.set_nodelay(true);
    let connection = admitted.0.clone();
    let (stream, number) = (Stream::new(tcp, connection.clone()), connection.number());
    let service = service_fn(move |request| {
        let (gate, connection) = (gate.clone(), connection.clone());
        async move { Ok::<_, Infallible>(answer(&gate, request, peer, connection).await) }
    });
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.bounds.head)
        .max_header_size(BUFFER)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let conversation = graceful.watch(conversation);
    let task = tokio::spawn(async move {
        let _counted = admitted;
        // A peer that breaks off or talks gibberish is its own affair.
        let _ = conversation.await;
    });
    connections.served_by(number, task.abort_handle());
}

async fn answer(
    gate: &Gate,
    request: hyper::Request<Incoming>,
    peer: SocketAddr,
    connection: Arc<Connection>,
) -> axum::response::Response {
    let has_body = !request.body().is_end_stream();
    connection.head_arrived(has_body);
    let request = request.map(|body| match has_body {
        true => Body::new(RequestBody::new(body, connection.clone())),
        false => Body::empty(),
    });
    let response = gate.handle(request, peer.ip()).await;
    connection.answered(response.body().size_hint().lower());
    response
}

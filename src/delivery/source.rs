//! A mail as it travels, for people to read.

use std::io;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use tokio::sync::mpsc;

use super::message::{Message, NoMessage, Writer};
use crate::accounts::{Look, Member};
use crate::db::Db;
use crate::error::Error;
use crate::id::EmailId;
use crate::smtp::MessageSource;
use crate::web::{PageResult, PathId};

/// How many pieces are read ahead of whoever reads them.
const AHEAD: usize = 1;

pub fn router() -> Router<Writer> {
    Router::new().route("/emails/{id}/source", get(show))
}

async fn show(member: Member<Look>, State(writer): State<Writer>, id: Result<PathId<EmailId>, Error>) -> PageResult {
    let gone = || Error::not_found("There is no such email here, or its contents are not kept any more.");
    let PathId(id) = id.map_err(|_| gone())?;
    let written = writer.write_for(member.workspace_id(), id).await;
    let message = written.map_err(|error| match error {
        NoMessage::Never(_) => gone(),
        NoMessage::Store(error) => error.into(),
    })?;
    Ok(plain(Body::from_stream(pieces(writer.db.clone(), message))))
}

/// Text that a browser shows and does nothing else with.
fn plain(body: Body) -> Response {
    let mut response = body.into_response();
    for (name, value) in [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The bytes of a message, read as they are wanted.
fn pieces(db: Db, message: Message) -> impl stream::Stream<Item = io::Result<Bytes>> {
    let (sender, pieces) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut source = message.source(&db);
        while let Some(piece) = source.next().await.transpose() {
            let is_last = piece.is_err();
            if sender.send(piece).await.is_err() || is_last {
                return;
            }
        }
    });
    stream::unfold(pieces, |mut pieces| async move { pieces.recv().await.map(|piece| (piece, pieces)) })
}

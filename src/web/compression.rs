//! Answers in fewer bytes, for those who take them. What is the same for everybody is compressed once; data of the
//! API as it is sent, a little at a time.
//!
//! Pages of the dashboard are left as they are: they hold tokens of forms beside text that others chose, and how well
//! both compress together would tell one by the other (BREACH). Nobody can make a browser ask for the API's data:
//! whoever asks shows a credential that no browser sends by itself. What answers a call that changes something repeats
//! some of what was sent, so there a secret stands beside chosen text, too: such an answer says that nobody may keep it
//! (`no-store`), and is left as it is.

use std::io::Write;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, IF_NONE_MATCH, VARY,
};
use http::{Method, Request, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sha2::{Digest, Sha256};

/// What is shorter gains nothing.
const WORTHWHILE: u64 = 1 << 10;

/// How much is compressed before others have their turn on the thread: a fraction of a millisecond's work.
const TURN: usize = 64 << 10;

/// How much is compressed at once, and how much is then sent at least.
const PIECE: usize = 16 << 10;

/// What is compressed once may take a little longer.
const BROTLI_QUALITY: i32 = 7;
const BROTLI_WINDOW: i32 = 22;

/// The encodings that a request takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accepted {
    gzip: bool,
    brotli: bool,
    /// Whether also an answer may be compressed that nobody may keep: nothing of the request stands in it.
    may_hold_secrets: bool,
}

impl Accepted {
    pub fn of(headers: &HeaderMap) -> Accepted {
        let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
        let (mut gzip, mut brotli, mut any) = (None, None, None);
        for item in lines.flat_map(|line| line.split(',')) {
            let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
            let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f32>().ok());
            let is_taken = weight.is_none_or(|weight| weight > 0.0);
            match name.trim() {
                name if name.eq_ignore_ascii_case("gzip") => gzip = Some(is_taken),
                name if name.eq_ignore_ascii_case("br") => brotli = Some(is_taken),
                "*" => any = Some(is_taken),
                _ => {}
            }
        }
        let taken = |one: Option<bool>| one.or(any).unwrap_or(false);
        Accepted { gzip: taken(gzip), brotli: taken(brotli), may_hold_secrets: false }
    }

    /// What the answer to a request may be compressed with as it is sent.
    pub fn by(request: &Request<Body>) -> Accepted {
        let is_read = request.method() == Method::GET;
        let is_asked_by_program = request.headers().contains_key(AUTHORIZATION);
        match is_read || is_asked_by_program {
            true => Accepted { may_hold_secrets: is_read, ..Accepted::of(request.headers()) },
            false => Accepted::default(),
        }
    }
}

/// Compresses data of the API that is long enough.
pub fn compress(response: Response, accepted: Accepted) -> Response {
    let is_worthwhile = accepted.gzip
        && response.body().size_hint().lower() >= WORTHWHILE
        && is_data(response.headers())
        && (accepted.may_hold_secrets || !is_private(response.headers()))
        && !response.headers().contains_key(CONTENT_ENCODING);
    if !is_worthwhile {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(parts, Body::new(Gzipped::new(body)))
}

fn is_data(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    matches!(kind.split(';').next().unwrap_or_default().trim(), "application/json" | "text/csv" | "text/plain")
}

/// Whether nobody may keep it: keys, tokens and secrets are sent so, and whatever a tool of `/mcp` tells.
fn is_private(headers: &HeaderMap) -> bool {
    headers.get(CACHE_CONTROL).is_some_and(|control| control.as_bytes() == b"no-store")
}

/// A body that is compressed while it is read.
struct Gzipped {
    body: Body,
    /// `None` once all is said.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// What is to be compressed next.
    waiting: Bytes,
    /// How much was compressed since others had their turn.
    spent: usize,
}

impl Gzipped {
    fn new(body: Body) -> Gzipped {
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        Gzipped { body, encoder: Some(encoder), waiting: Bytes::new(), spent: 0 }
    }
}

impl HttpBody for Gzipped {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            if this.spent >= TURN {
                this.spent = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !this.waiting.is_empty() {
                let piece = this.waiting.split_to(this.waiting.len().min(PIECE));
                this.spent += piece.len();
                encoder.write_all(&piece).map_err(axum::Error::new)?;
                if encoder.get_ref().len() >= PIECE {
                    return Poll::Ready(Some(Ok(Frame::data(std::mem::take(encoder.get_mut()).into()))));
                }
                continue;
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)?) {
                Some(frame) => this.waiting = frame.into_data().unwrap_or_default(),
                None => {
                    let rest = this.encoder.take().map(GzEncoder::finish).transpose().map_err(axum::Error::new)?;
                    return Poll::Ready(rest.map(|rest| Ok(Frame::data(rest.into()))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Content that does not change while the server runs, and is the same for everybody.
pub struct StaticContent {
    plain: Bytes,
    tag: HeaderValue,
    gzip: OnceLock<Bytes>,
    brotli: OnceLock<Bytes>,
}

impl StaticContent {
    pub fn new(plain: impl Into<Bytes>) -> StaticContent {
        let plain = plain.into();
        let hash: String = Sha256::digest(&plain).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        // A weak one: it is the same for all encodings.
        let tag = HeaderValue::from_str(&format!("W/\"{hash}\"")).unwrap_or(HeaderValue::from_static("W/\"\""));
        StaticContent { plain, tag, gzip: OnceLock::new(), brotli: OnceLock::new() }
    }

    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// The answer to a request with these headers; `respond` makes one of the content.
    pub fn answer(&self, asked: &HeaderMap, respond: impl FnOnce(Bytes) -> Response) -> Response {
        let mut response = if self.is_known(asked) {
            let mut response = respond(Bytes::new());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_LENGTH);
            response
        } else {
            let (content, encoding) = self.encoded(Accepted::of(asked));
            let mut response = respond(content);
            if let Some(encoding) = encoding {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            }
            response
        };
        response.headers_mut().insert(ETAG, self.tag.clone());
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
        response
    }

    /// Whether whoever asks has it already (RFC 9110, section 13.1.2).
    fn is_known(&self, asked: &HeaderMap) -> bool {
        let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own = self.tag.to_str().map(weak).unwrap_or_default();
        let lines = asked.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|tag| tag.trim() == "*" || weak(tag) == own)
    }

    fn encoded(&self, accepted: Accepted) -> (Bytes, Option<&'static str>) {
        let (content, encoding) = match accepted {
            Accepted { brotli: true, .. } => (self.brotli.get_or_init(|| brotli(&self.plain)), "br"),
            Accepted { gzip: true, .. } => (self.gzip.get_or_init(|| gzip(&self.plain)), "gzip"),
            _ => return (self.plain.clone(), None),
        };
        // Where it could not be compressed, or is longer for it.
        match content.is_empty() || content.len() >= self.plain.len() {
            true => (self.plain.clone(), None),
            false => (content.clone(), Some(encoding)),
        }
    }
}

fn gzip(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}

fn brotli(mut plain: &[u8]) -> Bytes {
    let parameters =
        brotli::enc::BrotliEncoderParams { quality: BROTLI_QUALITY, lgwin: BROTLI_WINDOW, ..Default::default() };
    let mut out = Vec::new();
    match brotli::BrotliCompress(&mut plain, &mut out, &parameters) {
        Ok(_) => out.into(),
        Err(_) => Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use axum::response::IntoResponse;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    fn asking(encodings: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(encodings))])
    }

    async fn body(response: Response) -> Bytes {
        response.into_body().collect().await.expect("a body").to_bytes()
    }

    fn gunzipped(bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
        plain
    }

    #[test]
    fn encodings_are_taken_as_rfc_9110_weighs_them() {
        for (asked, gzip, brotli) in [
            ("gzip, deflate, br", true, true),
            ("br;q=1.0, gzip;q=0.5, *;q=0", true, true),
            ("GZIP", true, false),
            ("gzip;q=0, *", false, true),
            ("*;q=0", false, false),
            ("identity", false, false),
            ("", false, false),
        ] {
            assert_eq!(Accepted::of(&asking(asked)), Accepted { gzip, brotli, ..Accepted::default() }, "{asked}");
        }
    }

    #[tokio::test]
    async fn issue_15_data_of_any_length_comes_out_as_it_went_in() {
        for length in [1024_usize, PIECE, TURN, TURN + 1, 5 * TURN + 7] {
            let text: String =
                (0_usize..).flat_map(|number| format!("{number},").into_bytes()).take(length).map(char::from).collect();
            let answer = ([(CONTENT_TYPE, "application/json")], text.clone()).into_response();
            let answer = compress(answer, Accepted { gzip: true, brotli: true, may_hold_secrets: false });
            assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip");
            assert!(!answer.headers().contains_key(CONTENT_LENGTH));
            assert_eq!(gunzipped(&body(answer).await), text.as_bytes(), "{length}");
        }
    }

    /// A large answer must not keep a thread from others.
    #[tokio::test]
    async fn issue_15_compressing_gives_others_their_turn() {
        let (size, cx) = (10 * TURN, &mut Context::from_waker(std::task::Waker::noop()));
        let mut gzipped = std::pin::pin!(Gzipped::new(Body::from(vec![b'x'; size])));
        let mut pauses = 0;
        loop {
            match gzipped.as_mut().poll_frame(cx) {
                Poll::Pending => pauses += 1,
                Poll::Ready(Some(frame)) => drop(frame.expect("a frame")),
                Poll::Ready(None) => break,
            }
        }
        assert_eq!(pauses, size / TURN);
    }

    #[test]
    fn issue_15_what_is_short_a_page_or_not_wanted_is_left_alone() {
        let of = |kind: &'static str, length: usize, accepted: Accepted| {
            let answer = ([(CONTENT_TYPE, kind)], "x".repeat(length)).into_response();
            compress(answer, accepted).headers().contains_key(CONTENT_ENCODING)
        };
        let gzip = Accepted { gzip: true, ..Accepted::default() };
        assert!(of("application/json", 1024, gzip));
        assert!(!of("application/json", 1023, gzip));
        assert!(!of("application/json", 1024, Accepted::default()));
        assert!(!of("text/html; charset=utf-8", 9000, gzip), "it may hold the token of a form");
    }

    #[test]
    fn issue_15_a_secret_beside_what_was_sent_is_left_alone() {
        let is_compressed = |method: &Method, credential: Option<&'static str>, control: Option<&'static str>| {
            let mut request = Request::builder().method(method).header(ACCEPT_ENCODING, "gzip");
            if let Some(credential) = credential {
                request = request.header(AUTHORIZATION, credential);
            }
            let accepted = Accepted::by(&request.body(Body::empty()).expect("a request"));
            let mut answer = ([(CONTENT_TYPE, "application/json")], "x".repeat(2000)).into_response();
            answer.headers_mut().extend(control.map(|control| (CACHE_CONTROL, HeaderValue::from_static(control))));
            compress(answer, accepted).headers().contains_key(CONTENT_ENCODING)
        };
        let (key, private) = (Some("Bearer re_1"), Some("no-store"));
        for method in [Method::POST, Method::PATCH, Method::PUT, Method::DELETE] {
            assert!(is_compressed(&method, key, None), "{method}");
            assert!(!is_compressed(&method, key, private), "{method}: a key or a token");
            assert!(!is_compressed(&method, None, None), "{method}: a form of a person");
        }
        assert!(is_compressed(&Method::GET, None, None) && is_compressed(&Method::GET, key, private));
    }

    #[tokio::test]
    async fn issue_15_static_content_is_compressed_and_sent_once() {
        let text = "the same words again and again; ".repeat(100);
        let content = StaticContent::new(text.clone());
        let answer = |headers: &HeaderMap| content.answer(headers, |body| body.into_response());
        let plain = answer(&HeaderMap::new());
        let tag = plain.headers()[ETAG].clone();
        assert_eq!(body(plain).await, text);
        let gzip = answer(&asking("gzip"));
        assert_eq!(gzip.headers()[VARY], "accept-encoding");
        assert_eq!(gunzipped(&body(gzip).await), text.as_bytes());
        let br = body(answer(&asking("gzip, br"))).await;
        let mut read = Vec::new();
        brotli::Decompressor::new(&br[..], 4096).read_to_end(&mut read).expect("brotli");
        assert_eq!(read, text.as_bytes());
        let known = HeaderMap::from_iter([(IF_NONE_MATCH, tag)]);
        let unchanged = answer(&known);
        assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);
        assert!(unchanged.headers().contains_key(ETAG) && body(unchanged).await.is_empty());
        let other = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static("\"x\""))]);
        assert_eq!(answer(&other).status(), StatusCode::OK);
    }
}

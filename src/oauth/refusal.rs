//! A refusal in OAuth's own vocabulary: an error code and one sentence for the developer.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::text::words;

words! {
    /// The error codes this product answers with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ErrorCode {
        InvalidRequest = "invalid_request",
        InvalidClient = "invalid_client",
        InvalidRedirectUri = "invalid_redirect_uri",
        InvalidClientMetadata = "invalid_client_metadata",
        UnauthorizedClient = "unauthorized_client",
        InvalidScope = "invalid_scope",
        InvalidGrant = "invalid_grant",
        UnsupportedGrantType = "unsupported_grant_type",
        AccessDenied = "access_denied",
        ServerError = "server_error",
        TemporarilyUnavailable = "temporarily_unavailable",
        TooManyRequests = "too_many_requests",
    }
}

/// Why a request is refused. The fields are private because the description's alphabet
/// (RFC 6749 appendix A.8) is kept by the constructor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}: {description}")]
pub struct Refusal {
    error: ErrorCode,
    description: Cow<'static, str>,
}

impl Refusal {
    /// Callers describe the rule that was broken and never quote what was sent.
    pub fn new(error: ErrorCode, description: impl Into<Cow<'static, str>>) -> Refusal {
        let description = description.into();
        let description = if description.bytes().all(may_describe) {
            description
        } else {
            Cow::Owned(description.chars().map(nearest_allowed).collect())
        };
        Refusal { error, description }
    }

    pub fn invalid_request(description: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::new(ErrorCode::InvalidRequest, description)
    }

    pub fn unknown_client() -> Refusal {
        Refusal::new(
            ErrorCode::InvalidClient,
            "client_id is unknown or disabled; use the client_id issued at registration",
        )
    }

    pub fn access_denied() -> Refusal {
        Refusal::new(ErrorCode::AccessDenied, "The user denied the request")
    }

    pub fn server_error() -> Refusal {
        Refusal::new(ErrorCode::ServerError, "The authorization request could not be stored; try again")
    }

    pub fn error(&self) -> ErrorCode {
        self.error
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    pub fn to_json(&self) -> Value {
        json!({ "error": self.error.as_str(), "error_description": self.description })
    }
}

fn may_describe(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\'
}

fn nearest_allowed(character: char) -> char {
    match character {
        '"' => '\'',
        '\\' => '/',
        ' '..='~' => character,
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_196_a_description_holds_only_the_allowed_alphabet() {
        let refusal = Refusal::invalid_request("a \"b\" \\ \r\n\u{e9}\u{7f}~");
        assert_eq!(refusal.description(), "a 'b' / ????~");
        let every: String = (0..0x300).filter_map(char::from_u32).collect();
        let refusal = Refusal::invalid_request(every);
        assert!(refusal.description().bytes().all(may_describe));
    }

    #[test]
    fn a_clean_description_is_not_copied() {
        let refusal = Refusal::unknown_client();
        assert!(matches!(refusal.description, Cow::Borrowed(_)));
    }

    #[test]
    fn decisions_2_the_body_is_error_and_error_description() {
        let body = Refusal::access_denied().to_json().to_string();
        assert_eq!(body, r#"{"error":"access_denied","error_description":"The user denied the request"}"#);
    }
}

//! What can go wrong, by meaning, and how it is said: the only place that knows
//! status codes and names of the API's errors.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use crate::db::DbError;

/// An error of the API. Each says in its message what to do about it.
#[derive(Debug)]
pub enum Error {
    /// A field or parameter that breaks a rule.
    Invalid {
        message: String,
    },
    /// A parameter in the path or query that cannot be read.
    InvalidParameter {
        message: String,
    },
    /// A required field that is not there.
    Missing {
        message: String,
    },
    /// A body that is not JSON.
    NotJson {
        message: String,
    },
    /// A request that is wrong as a whole.
    BadRequest {
        message: String,
    },
    /// A body of another kind than JSON.
    UnsupportedMediaType,
    /// A body of another kind than a form with a file.
    NotAForm,
    /// A body of another kind than CSV.
    NotCsv,
    TooLarge {
        limit: usize,
    },
    /// A request line that is longer than any we read.
    UriTooLong {
        limit: usize,
    },
    /// A body that did not arrive in time.
    TooSlow,
    /// No credential at all; carries the address of the resource metadata.
    Unauthenticated {
        metadata: String,
    },
    /// An API key that is unknown, deleted or malformed.
    InvalidKey,
    /// An access token that is invalid, expired or revoked.
    InvalidToken,
    /// An API key that may only send.
    RestrictedKey,
    /// An access token without the scope.
    InsufficientScope,
    /// A domain that the caller cannot have, or cannot send from.
    DomainRefused {
        message: String,
    },
    /// An attachment that cannot be had.
    InvalidAttachment {
        message: String,
    },
    /// Known, but not allowed.
    Forbidden {
        message: String,
    },
    NotFound {
        message: Cow<'static, str>,
    },
    MethodNotAllowed,
    Conflict {
        message: String,
    },
    /// A key of idempotency that is not one.
    InvalidIdempotencyKey,
    /// A key of idempotency that was used with another body.
    IdempotencyConflict,
    /// A key of idempotency whose answer was sealed for another credential.
    IdempotencyOfAnother,
    RateLimited {
        retry_after: u64,
    },
    /// The store cannot serve now. Nothing was acknowledged.
    Unavailable,
    Internal,
}

/// The envelope of every error of the API.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub struct Envelope {
    /// The HTTP status, again.
    #[serde(rename = "statusCode")]
    #[schema(minimum = 400, maximum = 599)]
    pub status_code: u16,
    /// The kind of error, for programs.
    pub name: &'static str,
    /// What is wrong and what is allowed, for people.
    pub message: String,
}

impl Error {
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid { message: message.into() }
    }

    pub fn not_found(what: &'static str) -> Error {
        Error::NotFound { message: Cow::Borrowed(what) }
    }

    /// The same error with a word on which of many things it is about.
    pub fn about(self, place: &str) -> Error {
        let placed = |message: String| format!("{place}{message}");
        match self {
            Error::Invalid { message } => Error::Invalid { message: placed(message) },
            Error::Missing { message } => Error::Missing { message: placed(message) },
            Error::DomainRefused { message } => Error::DomainRefused { message: placed(message) },
            Error::NotFound { message } => Error::NotFound { message: placed(message.into_owned()).into() },
            other => other,
        }
    }

    pub fn status(&self) -> StatusCode {
        self.parts().0
    }

    pub fn envelope(&self) -> Envelope {
        let (status, name) = self.parts();
        Envelope { status_code: status.as_u16(), name, message: self.message().into_owned() }
    }

    fn parts(&self) -> (StatusCode, &'static str) {
        use StatusCode as S;
        match self {
            Error::Invalid { .. } => (S::UNPROCESSABLE_ENTITY, "validation_error"),
            Error::InvalidParameter { .. } => (S::UNPROCESSABLE_ENTITY, "invalid_parameter"),
            Error::Missing { .. } => (S::UNPROCESSABLE_ENTITY, "missing_required_field"),
            Error::NotJson { .. } | Error::BadRequest { .. } => (S::BAD_REQUEST, "validation_error"),
            Error::UnsupportedMediaType | Error::NotAForm | Error::NotCsv => {
                (S::UNSUPPORTED_MEDIA_TYPE, "validation_error")
            }
            Error::TooLarge { .. } => (S::PAYLOAD_TOO_LARGE, "validation_error"),
            Error::UriTooLong { .. } => (S::URI_TOO_LONG, "validation_error"),
            Error::TooSlow => (S::REQUEST_TIMEOUT, "validation_error"),
            Error::Unauthenticated { .. } => (S::UNAUTHORIZED, "missing_api_key"),
            Error::InvalidKey => (S::FORBIDDEN, "invalid_api_key"),
            Error::InvalidToken => (S::UNAUTHORIZED, "invalid_token"),
            Error::RestrictedKey => (S::UNAUTHORIZED, "restricted_api_key"),
            Error::InsufficientScope => (S::FORBIDDEN, "invalid_permission"),
            Error::DomainRefused { .. } => (S::FORBIDDEN, "validation_error"),
            Error::InvalidAttachment { .. } => (S::UNPROCESSABLE_ENTITY, "invalid_attachment"),
            Error::Forbidden { .. } => (S::FORBIDDEN, "invalid_access"),
            Error::NotFound { .. } => (S::NOT_FOUND, "not_found"),
            Error::MethodNotAllowed => (S::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Error::Conflict { .. } => (S::CONFLICT, "validation_error"),
            Error::InvalidIdempotencyKey => (S::BAD_REQUEST, "invalid_idempotency_key"),
            Error::IdempotencyConflict | Error::IdempotencyOfAnother => (S::CONFLICT, "invalid_idempotent_request"),
            Error::RateLimited { .. } => (S::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
            Error::Unavailable => (S::SERVICE_UNAVAILABLE, "service_unavailable"),
            Error::Internal => (S::INTERNAL_SERVER_ERROR, "application_error"),
        }
    }

    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Error::Invalid { message }
            | Error::InvalidParameter { message }
            | Error::Missing { message }
            | Error::NotJson { message }
            | Error::BadRequest { message }
            | Error::DomainRefused { message }
            | Error::InvalidAttachment { message }
            | Error::Forbidden { message }
            | Error::Conflict { message } => message.into(),
            Error::NotFound { message } => message.as_ref().into(),
            Error::UnsupportedMediaType => {
                "The body must be JSON. Send it with the header `Content-Type: application/json`.".into()
            }
            Error::NotAForm => "The body must be a form. Send it as `multipart/form-data` with a boundary.".into(),
            Error::NotCsv => "The body must be CSV. Send it with the header `Content-Type: text/csv`.".into(),
            Error::TooLarge { limit } => format!("The body is too large. At most {limit} bytes are allowed.").into(),
            Error::UriTooLong { limit } => {
                format!("The request line is too long. At most {limit} bytes are allowed.").into()
            }
            Error::TooSlow => "The body did not arrive in time. Send it again.".into(),
            Error::Unauthenticated { .. } => {
                "Missing API key. Send the header `Authorization: Bearer <API_KEY>`.".into()
            }
            Error::InvalidKey => "API key is invalid. Check that it was copied whole and has not been deleted.".into(),
            Error::InvalidToken => "The access token is invalid, expired or revoked. Get a new one.".into(),
            Error::RestrictedKey => {
                "This API key is restricted to only send emails. Use a key with full access here.".into()
            }
            Error::InsufficientScope => {
                "Access token is missing required scopes. This route needs `full_access`.".into()
            }
            Error::MethodNotAllowed => {
                "This method is not allowed here. The header `Allow` lists those that are.".into()
            }
            Error::InvalidIdempotencyKey => {
                "The header `Idempotency-Key` must hold one key of 1 to 256 printable characters.".into()
            }
            Error::IdempotencyConflict => {
                "This `Idempotency-Key` was used with another body within 24 hours. Use a new key for a new request."
                    .into()
            }
            Error::IdempotencyOfAnother => {
                "This `Idempotency-Key` was used within 24 hours by another API key or access token, and the answer \
                 holds a secret that only that one is told. Use a new key for a new request."
                    .into()
            }
            Error::RateLimited { retry_after } => {
                format!("Too many requests. Try again in {retry_after} seconds.").into()
            }
            Error::Unavailable => {
                "The service is unavailable for a moment. Nothing was acknowledged; try again.".into()
            }
            Error::Internal => {
                "Something went wrong on our side. The request id in `x-request-id` finds it in the log.".into()
            }
        }
    }

    /// The headers that come with the envelope.
    pub fn headers(&self) -> Vec<(header::HeaderName, String)> {
        match self {
            Error::Unauthenticated { metadata } => {
                vec![(header::WWW_AUTHENTICATE, format!("Bearer resource_metadata=\"{metadata}\""))]
            }
            Error::InvalidToken => vec![(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"".into())],
            Error::InsufficientScope => {
                vec![(header::WWW_AUTHENTICATE, "Bearer error=\"insufficient_scope\", scope=\"full_access\"".into())]
            }
            Error::RateLimited { retry_after } => vec![(header::RETRY_AFTER, retry_after.to_string())],
            Error::Unavailable => vec![(header::RETRY_AFTER, "1".into())],
            _ => Vec::new(),
        }
    }
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Error {
        match error {
            DbError::Busy | DbError::Unavailable(_) => {
                tracing::warn!(%error, "the store could not serve a request");
                Error::Unavailable
            }
            // A guard that stays stale through every retry is a store that is
            // being changed faster than it can be read.
            DbError::Stale => Error::Unavailable,
            DbError::Unexpected { .. } | DbError::Duplicate(_) | DbError::Broken(_) => {
                tracing::error!(%error, "a statement failed that should not have");
                Error::Internal
            }
        }
    }
}

/// What became of a commit that has to find something.
pub trait OrMissing<T> {
    /// `missing` where it found another number of rows than it had to.
    fn or_missing(self, missing: impl FnOnce() -> Error) -> Result<T, Error>;
}

impl<T> OrMissing<T> for Result<T, DbError> {
    fn or_missing(self, missing: impl FnOnce() -> Error) -> Result<T, Error> {
        self.map_err(|error| match error {
            DbError::Unexpected { .. } => missing(),
            other => other.into(),
        })
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.envelope())).into_response();
        for (name, value) in self.headers() {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

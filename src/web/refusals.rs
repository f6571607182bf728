//! How a route describes its refusals: each by an example that the product
//! itself makes, so that the description cannot say anything else. Most follow
//! from what the route takes.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::IntoResponses;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use crate::error::Error;

type Responses = BTreeMap<String, RefOr<Response>>;

/// Adds what an operation that asks for a credential refuses by what it takes.
/// What it says itself of a status stays.
pub fn add_refusals(operation: &mut Operation) {
    let parameter = |one: &RefOr<Parameter>| match one {
        RefOr::T(parameter) => Some(parameter.clone()),
        RefOr::Ref(_) => None,
    };
    let parameters: Vec<Parameter> = operation.parameters.iter().flatten().filter_map(parameter).collect();
    let takes = |is_taken: fn(&Parameter) -> bool| parameters.iter().any(is_taken);
    let body = |label: &str| match &operation.request_body {
        Some(RefOr::T(body)) => body.content.contains_key(label),
        _ => false,
    };
    let mut told = OfCaller::responses();
    let mut add = |is_told: bool, responses: fn() -> Responses| {
        if is_told {
            told.extend(responses());
        }
    };
    add(takes(|one| one.parameter_in == ParameterIn::Path), OfPath::responses);
    add(takes(|one| one.parameter_in == ParameterIn::Query || is_id(one)), OfQuery::responses);
    add(body("application/json"), OfBody::responses);
    add(body("multipart/form-data"), OfForm::responses);
    add(body("text/csv"), OfCsv::responses);
    add(takes(|one| one.name == "Idempotency-Key"), OfKey::responses);
    told.append(&mut operation.responses.responses);
    operation.responses.responses = told;
}

fn is_id(parameter: &Parameter) -> bool {
    serde_json::to_value(&parameter.schema).is_ok_and(|schema| schema["format"] == "uuid")
}

/// Refusals that routes have in common: for each a type of its own, which `responses(…)` can name, and
/// the sentences that sum them up, each with the errors that it is about.
macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident { $($sentence:literal: $($error:expr),+;)+ })+) => {$(
        $(#[$doc])*
        pub struct $name;

        impl IntoResponses for $name {
            fn responses() -> Responses {
                described([$(($sentence, vec![$($error),+])),+])
            }
        }
    )+};
}

refusals! {
    /// Of every route that asks for a credential.
    OfCaller {
        "The request cannot be read.": two_credentials();
        "No credential, one that has expired, or one that may only send.":
            Error::Unauthenticated { metadata: "https://posthorn.example/.well-known/oauth-protected-resource".into() },
            Error::InvalidToken, Error::RestrictedKey;
        "An API key that nobody has, or an access token without the scope.":
            Error::InvalidKey, Error::InsufficientScope;
        "A defect on our side; nothing was acknowledged.": Error::Internal;
        "The store cannot serve now; nothing was acknowledged.": Error::Unavailable;
    }

    /// Of every route there is; said where nothing else is refused.
    OfRequest {
        "The request line is too long.": Error::UriTooLong { limit: super::stream::REQUEST_LINE };
    }

    /// Of every route that reads a JSON body, the credential's included.
    OfBody {
        "The body is not JSON, or the request cannot be read.": not_json(), two_credentials();
        "The body did not arrive in time.": Error::TooSlow;
        "The body is too large.": Error::TooLarge { limit: super::input::LIMIT };
        "The body is not labelled JSON.": Error::UnsupportedMediaType;
        "A field is missing or breaks a rule; the message names it.":
            Error::invalid("The `name` field must not be empty."),
            Error::Missing { message: "Missing `name` field.".into() };
    }

    /// Of every route that reads a form with a file.
    OfForm {
        "The form or the request cannot be read.":
            Error::BadRequest { message: "The body is not a form with the boundary it names.".into() },
            two_credentials();
        "The body did not arrive in time.": Error::TooSlow;
        "The file is too large.": Error::TooLarge { limit: 50 << 20 };
        "The body is not labelled a form.": Error::NotAForm;
        "A field is missing or breaks a rule; the message names it.":
            Error::invalid("The `on_conflict` field must be `upsert` or `skip`, but is `x`."),
            Error::Missing { message: "Missing `file` field: a CSV file that is not empty.".into() };
    }

    /// Of every route that reads a CSV file.
    OfCsv {
        "The body did not arrive in time.": Error::TooSlow;
        "The file is too large.": Error::TooLarge { limit: super::input::LIMIT_OF_MANY };
        "The body is not labelled CSV.": Error::NotCsv;
        "The file breaks a rule; the message says which.":
            Error::invalid("The first row of the file must name the columns, `email` among them.");
    }

    /// Of every route that names one thing in its path.
    OfPath {
        "There is nothing with this id or name.":
            Error::not_found("Event not found. Check the id or the name; names are case-sensitive.");
    }

    /// Of every route with parameters in its query.
    OfQuery {
        "A parameter breaks a rule; the message names it.":
            Error::InvalidParameter { message: "The `limit` parameter must be a whole number from 1 to 100.".into() };
    }

    /// Of every route that a thing must be in a certain state for.
    OfState {
        "It is in a state that does not allow this.":
            Error::Conflict { message: "The run is completed. Only a run in flight can be cancelled.".into() };
    }

    /// Of every route that lets an event happen.
    OfSend {
        "The body or the key cannot be read.": not_json(), two_credentials(), Error::InvalidIdempotencyKey;
        "There is no such contact or occurrence.":
            Error::not_found("Contact not found. Check its id, or name the contact by `email`.");
        "The key was used with another body.": Error::IdempotencyConflict;
        "The body or the payload is too large.": Error::TooLarge { limit: super::input::PAYLOAD_LIMIT };
        "A field is missing or breaks a rule; the message names it.":
            Error::invalid("The `payload` key `total` must be a number by the event's schema, but is the string `x`."),
            Error::Missing { message: "Missing `event` field.".into() },
            Error::InvalidParameter { message: "The `id` in the path must be a UUID.".into() };
    }

    /// Of every route that adds a domain.
    OfDomain {
        "The domain cannot be had, or a credential that may not do this.":
            Error::DomainRefused { message:
                "The domain `example.com` has been added already. `GET /domains` lists those there are.".into() },
            Error::InvalidKey, Error::InsufficientScope;
    }

    /// Of every route that makes something of which there can be only one.
    OfDuplicate {
        "There is one like it already; the message says which.": duplicate();
    }

    /// Of every route that makes something and takes an `Idempotency-Key`.
    OfKey {
        "The request, its body or its key cannot be read.": two_credentials(), Error::InvalidIdempotencyKey;
        "The key was used with another body.": Error::IdempotencyConflict;
    }

    /// Of those of them that make something of which there can be only one.
    OfKeyOrDuplicate {
        "There is one like it already, or the key was used with another body.":
            duplicate(), Error::IdempotencyConflict;
    }
}

fn not_json() -> Error {
    Error::NotJson { message: "The body is not valid JSON: expected value at line 1 column 1.".into() }
}

fn duplicate() -> Error {
    Error::Conflict { message: "A contact with this address exists already.".into() }
}

fn two_credentials() -> Error {
    Error::BadRequest { message: "Two `Authorization` headers were sent. Send one.".into() }
}

/// One response for each sentence, with the errors that it sums up. All errors
/// of a sentence have the same status.
fn described<const N: usize>(sentences: [(&str, Vec<Error>); N]) -> Responses {
    let one = |(sentence, errors): (&str, Vec<Error>)| {
        let status = errors.first()?.status().as_str().to_owned();
        let headers: Vec<_> = errors.iter().flat_map(Error::headers).map(|(name, _)| name.to_string()).collect();
        let examples = errors.iter().map(|error| serde_json::to_value(error.envelope()).unwrap_or_default());
        Some((status, refusal(sentence, "Error", examples, headers)))
    };
    sentences.into_iter().filter_map(one).collect()
}

/// A refusal with the schema of its body, examples of it, and the headers that
/// come with it.
pub fn refusal(
    sentence: &str,
    schema: &str,
    examples: impl IntoIterator<Item = Value>,
    headers: impl IntoIterator<Item = String>,
) -> RefOr<Response> {
    let example = |value: Value| {
        let name = value.get("name").or(value.get("error")).and_then(Value::as_str).unwrap_or_default().to_owned();
        (name, RefOr::T(ExampleBuilder::new().value(Some(value)).build()))
    };
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .examples_from_iter(examples.into_iter().map(example))
        .build();
    let response = ResponseBuilder::new().description(sentence).content("application/json", content);
    headers.into_iter().fold(response, |response, name| response.header(&name, header(&name))).build().into()
}

fn header(name: &str) -> utoipa::openapi::Header {
    let (kind, meaning) = match name {
        "retry-after" => (Type::Integer, "Seconds after which to try again."),
        "www-authenticate" => (Type::String, "Which credential is asked for, and what is wrong with the one sent."),
        _ => (Type::String, ""),
    };
    let schema = ObjectBuilder::new().schema_type(kind);
    HeaderBuilder::new().schema(Some(schema)).description(Some(meaning)).build()
}

//! What all features share on the way in and out: the gate before every
//! request, bodies, queries, pages of lists and assets.

mod assets;
mod body;
mod changed;
mod compression;
mod connections;
mod fault;
mod form;
mod fuzzing;
mod gate;
mod idempotency;
mod input;
mod layout;
mod listener;
mod long_scan;
mod long_strings;
mod lookalike;
mod many;
mod multipart;
mod named_route;
mod object;
mod pagination;
mod parameter;
mod query;
mod reader;
mod refusals;
mod sandbox;
mod shape;
mod shell;
mod spool;
mod stream;
mod system;
mod visitor;
mod warnings;
mod workspace_path;

pub use assets::{docs_script, router as assets};
pub use body::{Body, Change, OrNull, Query};
pub use changed::{Deleted, JsonResult, Reference};
pub use compression::StaticContent;
pub use connections::{Admitted, Bounds, Connection, Connections};
pub use fault::Fault;
pub use form::{FileForm, Form, LongForm, beside_field, field_of, from_box, in_box, missing_choice};
pub use fuzzing::{form_body, json_body, long_body};
pub use gate::{Gate, Site, method_not_allowed, not_found};
pub use idempotency::{
    Answer, Fingerprint, Idempotency, IdempotentRequest, sweep as sweep_idempotency_keys, take_form, taken_form,
};
pub use input::{
    LIGHT, LIMIT as BODY_LIMIT, LIMIT_OF_MANY, PAYLOAD_LIMIT, PathId, is_json, json as read_json, read as read_body,
};
pub use layout::{
    DOCS_POLICY, Field, Layout, Link, PageError, PageResult, Stamp, error_of, error_page, error_page_inside, page,
    page_framing, page_leading_away, rendered,
};
pub use listener::{bind, run as answer_connections};
pub use long_strings::{LongBody, LongFields, LongReader, LongValues, MARK as LONG_MARK};
pub use many::Many;
pub use multipart::{Form as MultipartForm, FormFile};
pub use named_route::{Answering, NameRoute, Observation, Observer, RefusedCall};
pub use pagination::{Leaf, List, Newest, Page, RECENT};
pub(crate) use parameter::schema;
pub use parameter::{id as id_schema, id_in_path, name_in_path, text as text_schema};
pub use query::{Flaw, Params, Sent, decode, echo, starts_with_two_hex_digits};
pub use reader::{read as read_fields, read_value};
pub use refusals::{
    OfBody, OfCaller, OfDomain, OfDuplicate, OfForm, OfKey, OfKeyOrDuplicate, OfPath, OfQuery, OfRequest, OfSend,
    OfState, add_refusals, refusal,
};
pub use sandbox::{protect, sandboxed};
pub use shape::Shape;
pub use shell::{Choice, ConfirmPage, Shell, places};
pub use spool::{Arriving, Spool};
pub use system::{described as description_routes, routes as system_routes};

pub use system::{ShownDescription, System};
pub use warnings::{KnownQueries, warn, warn_unread};
pub use workspace_path::{NamedWorkspace, asked as asked_address, below as below_workspace, rest as rest_of_address};

pub use crate::auth::Sender;
use crate::db::Sql;

pub use crate::text::is_longer;

pub const STATEMENTS: &[&[Sql]] = &[idempotency::ALL, system::ALL];

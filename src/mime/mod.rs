//! Messages as they travel: addresses, header fields, bodies in pieces, signatures.
//!
//! Everything here is pure: it knows no store, no network and no clock, and the same input
//! gives the same bytes. What is wrong with an input is told in words that go behind the name
//! of a field: "must be one line".

mod address;
mod attachment;
mod body_hash;
mod compose;
#[cfg(test)]
mod compose_tests;
mod dkim;
mod dkim_key;
#[cfg(test)]
mod dkim_tests;
mod dkim_verify;
mod encoder;
mod entity;
mod field;
mod fuzzing;
mod header;
mod html_entity;
mod html_tag;
mod html_text;
mod lines;
mod mailbox;
mod outline;
mod part;
#[cfg(test)]
mod reading;
mod received;
mod transfer;
mod written;
mod written_body;

pub use address::Address;
pub use attachment::AttachmentInfo;
pub use body_hash::BodyHash;
pub use compose::{Content, Letter, Piece, compose, date, split_head};
pub use dkim::dkim_signature;
pub use dkim_key::DkimKey;
pub use dkim_verify::{BodyDigests, BodyHashes, PublicKey, Signature, Unverified, tags_of};
pub use encoder::{Encoder, Encoding};
pub use fuzzing::{composed_message, mailbox_text, received_message, written_message};
pub use header::{Header, check_line};
pub use html_entity::decoded_surely;
pub use html_tag::tags;
pub use html_text::{LONGEST as LONGEST_HTML, text_of_html};
pub use lines::Lines;
pub use mailbox::Mailbox;
pub use outline::{Leaf, Outline, text_in};
pub use part::Part;
pub use received::{ReceivedFrom, ReceivedHead};
pub use transfer::{Transfer, TransferDecoder};
pub use written::{Shown, WrittenHead};
pub use written_body::{Bodies, bodies};

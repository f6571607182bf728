//! The server's side of an SMTP dialogue, as far as it is the same for everybody who speaks it:
//! connections within bounds, lines that end as they must, commands, replies, encryption.
//!
//! What is taken, and from whom, is said by those who stand on it.

mod certificate;
mod command;
mod dialogue;
mod dots;
mod fuzzing;
mod listener;
mod reply;
mod stream;

pub use certificate::Certificate;
pub use command::Command;
pub use dialogue::{Dialogue, Patience, Session, run};
pub use dots::Dots;
pub use fuzzing::smtp_dialogue;
pub use listener::{Listeners, Service};
pub use reply::Reply;
pub use stream::{Lost, Stream};

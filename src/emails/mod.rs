//! Emails: what is handed in to be sent, and what became of it.
//!
//! | Route | |
//! |---|---|
//! | `POST /emails`, and its aliases `/email`, `/emails/sending`, `/email/sending` | hand one in |
//! | `POST /emails/batch` | hand in up to 100 |
//! | `GET /emails` | list them, newest first |
//! | `GET /emails/{id}` | read one |
//! | `PATCH /emails/{id}` | another time for one that is scheduled |
//! | `POST /emails/{id}/cancel` | take one back |
//! | `POST /emails/{id}/share` | a link by which one can be read |
//! | `GET /emails/{id}/attachments`, `…/{attachment id}` | its files, each with a link to download it |
//! | `GET /shared/emails/{token}`, `/shared/attachments/{token}` | where these links lead |

mod base64;
mod body;
mod contents;
mod contents_read;
mod draft;
mod email;
mod fetch;
mod fuzzing;
mod line;
mod links;
mod pages;
mod queue;
mod retention;
mod routes;
mod schedule;
mod send;
mod sender;
mod shapes;
mod state;
mod store;

use std::ops::Deref;

use axum::Router;
use axum::extract::FromRef;
use utoipa_axum::router::OpenApiRouter;

pub use email::{Content, Lane, NewAttachment, NewEmail, Origin};
pub use fuzzing::schedule_text;
pub use line::{TEST as TEST_LINE, line};
pub use retention::sweep;
pub use state::State;
pub use store::{
    Attachment, Envelope, HTML as HTML_PART, NewEvent, Stored, Summary, TEXT as TEXT_PART, add_event, chunk, insert,
    load, message_id, tally,
};

use crate::app::App;
use crate::db::Sql;
use crate::domains::Domains;
use crate::http_client::Reach;
use crate::occurrences::Occurrences;
use fetch::Fetcher;

pub const STATEMENTS: &[&[Sql]] = &[retention::ALL, store::ALL];

/// What emails need: who is told of them, who may send, and what fetches attachments. Clones share it.
#[derive(Clone)]
pub struct Emails {
    occurrences: Occurrences,
    domains: Domains,
    fetcher: Fetcher,
}

impl Emails {
    pub fn new(occurrences: Occurrences, domains: Domains) -> Emails {
        let reach = if occurrences.config.private_webhooks { Reach::Anywhere } else { Reach::Public };
        Emails { fetcher: Fetcher::new(reach), occurrences, domains }
    }
}

impl Deref for Emails {
    type Target = Occurrences;

    fn deref(&self) -> &Occurrences {
        &self.occurrences
    }
}

impl FromRef<Emails> for App {
    fn from_ref(emails: &Emails) -> App {
        App::from_ref(&emails.occurrences)
    }
}

pub fn pages() -> Router<App> {
    pages::router()
}

pub fn routes() -> OpenApiRouter<Emails> {
    routes::router()
}

/// What leads to mail without a credential.
pub fn link_routes() -> OpenApiRouter<Emails> {
    routes::doors()
}

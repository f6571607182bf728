//! Editing automations in the dashboard: a draft for each, which people publish when they want to.

mod acts;
mod contents;
mod difference;
mod fields;
mod in_flight;
mod new;
mod outline;
mod publish;
mod ready_made;
mod store;
mod typed;
mod values;
mod versions;
mod view;
mod work;

use axum::Router;

use crate::app::App;

pub use store::{ALL, Unpublished, forget, unpublished};
pub use versions::{Versions, is_unpublished, versions};
pub use work::has_draft;

pub fn router() -> Router<App> {
    Router::new()
        .merge(new::router())
        .merge(view::router())
        .merge(acts::router())
        .merge(publish::router())
        .merge(versions::router())
}

//! The API's description, and a page made of it that needs no script.

use axum::response::{IntoResponse, Response};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::app::App;

#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "Posthorn API",
    description = "One plain JSON API. Authenticate with an API key or an OAuth access token in the `Authorization` \
                   header.\n\nEvery error has the same shape: `statusCode`, `name` and a `message` that says what to \
                   change.",
    license(name = "Apache-2.0 OR MIT"),
))]
struct Description;

/// The frame that features add their routes to.
pub fn description() -> OpenApi {
    let mut description = Description::openapi();
    let components = description.components.get_or_insert_default();
    let bearer = |text: &str| {
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(text)).build())
    };
    components.add_security_scheme("api_key", bearer("An API key, `re_…`."));
    components.add_security_scheme("oauth", bearer("An OAuth access token."));
    description
}

/// The description as it is published: a parameter that may hold slashes is
/// written as any other.
pub fn finished(mut description: OpenApi) -> OpenApi {
    let paths = std::mem::take(&mut description.paths.paths);
    description.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    description
}

pub fn page(_: &App, _: &OpenApi) -> Response {
    "".into_response()
}

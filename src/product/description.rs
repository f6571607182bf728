//! The API's description: its frame, which features add their routes to, and
//! what is said of all routes at once. `docs` makes pages of it.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::{OpenApi, Ref, RefOr, Schema};
use utoipa::{IntoResponses as _, OpenApi as _};

use super::types;
use crate::error::Envelope;
use crate::oauth::OAuthError;
use crate::web;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Posthorn API",
        description = "One plain JSON API. Authenticate with an API key or an OAuth access token in the \
                       `Authorization` header.\n\nEvery error has the same shape: `statusCode`, `name` and a `message` \
                       that says what to change. OAuth's own endpoints answer in OAuth's shape: `error` and \
                       `error_description`.\n\nUnknown fields and parameters are ignored and named in the header \
                       `Posthorn-Warnings`; with `Prefer: handling=strict` they are refused with 422. An explicit \
                       `null` counts as absent, times are RFC 3339 in UTC with microseconds.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
    ),
    tags(
        (name = "Emails", description = "Mail to send, and what became of it."),
        (name = "Received emails", description = "Mail that came in for domains that receive."),
        (name = "Broadcasts", description = "Mail to everybody in a segment."),
        (name = "Templates", description = "Mail with variables, written once and sent often. A template is named by its \
            id or its alias; only what was published is sent."),
        (name = "Domains", description = "Domains that mail is sent from: the records to set, and what DNS says of them."),
        (name = "Events", description = "Named events with an optional schema of their payload. Automations are \
            matched to events by name; the newest definition of a name is the one in force."),
        (name = "Automations", description = "What happens to a contact when an event occurs: steps, and connections \
            that lead from one to the next."),
        (name = "Contacts", description = "People to write to. A contact is named by its id or its address."),
        (name = "Segments", description = "Named sets of contacts."),
        (name = "Topics", description = "What mail can be about. Every contact says of each whether it wants it; \
            where it said nothing, the topic's default holds."),
        (name = "Suppressions", description = "Addresses that get no mail any more: mail to them bounced, somebody \
            complained, or they were put here."),
        (name = "Subscriptions", description = "Forms with which strangers subscribe, and how the workspace shows \
            itself to the people it writes to."),
        (name = "Contact properties", description = "Properties of contacts that are declared with a type. Contacts \
            may have others, too."),
        (name = "Audiences", description = "Segments under their older name, for programs that know them by it."),
        (name = "Webhooks", description = "Endpoints that are told what happens: every event is posted to those that \
            listen to its type, signed, at least once."),
        (name = "API keys", description = "Keys that programs show to act for the workspace."),
        (name = "Workspace", description = "What holds for all mail of a workspace."),
        (name = "Logs", description = "Requests to the API, and how much the workspace uses."),
        (name = "OAuth", description = "Authorization code flow with PKCE, so that an app can act for a user \
            without seeing a key or a password."),
        (name = "System", description = "For those who run the server: is it alive, is it ready, what does it do."),
    ),
    components(schemas(Envelope, OAuthError)),
)]
struct Description;

const REQUEST_ID: &str = "x-request-id";

/// The frame that features add their routes to.
fn frame(base: &str) -> OpenApi {
    let mut description = Description::openapi();
    description.servers = Some(vec![Server::new(base)]);
    let components = description.components.get_or_insert_default();
    let bearer = |text: &str| {
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(text)).build())
    };
    components.add_security_scheme("api_key", bearer("An API key, `re_…`."));
    components.add_security_scheme("oauth", bearer("An OAuth access token."));
    let id = ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)));
    let header = HeaderBuilder::new().schema(Some(id)).description(Some("Finds this request in the server's log."));
    components.headers.insert(REQUEST_ID.into(), header.build().into());
    description
}

/// The description as it is published by the server at `base`, of the parts that the features tell. Each is taken
/// when the one before it has become JSON, because it takes many times as much memory before.
pub fn published(base: &str, parts: impl IntoIterator<Item = OpenApi>) -> Value {
    let mut whole = Map::new();
    for part in std::iter::once(frame(base)).chain(parts) {
        add(&mut whole, finished(part));
    }
    let mut document = Value::Object(whole);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.sort_keys();
    }
    link_up(&mut document);
    drop_unused(&mut document);
    document
}

/// Adds what a part tells that is not told yet.
fn add(whole: &mut Map<String, Value>, part: OpenApi) {
    let part = match serde_json::to_value(part) {
        Ok(Value::Object(part)) => part,
        other => return tracing::error!(?other, "a part is missing in the API's description"),
    };
    for (field, told) in part {
        match (whole.get_mut(&field), told) {
            (None, told) => _ = whole.insert(field, told),
            (Some(Value::Object(known)), Value::Object(told)) if field == "paths" || field == "components" => {
                for (name, told) in told {
                    match (known.get_mut(&name), told) {
                        (Some(Value::Object(known)), Value::Object(told)) => {
                            told.into_iter().for_each(|(key, value)| _ = known.entry(key).or_insert(value));
                        }
                        (_, told) => _ = known.insert(name, told),
                    }
                }
            }
            _ => {}
        }
    }
}

/// A part as it is published: a parameter that may hold slashes is written as any other, what asks for a credential
/// says whom it lets in and what it refuses, a body that may be left out is not null where it is there, and every
/// answer names its request.
fn finished(mut description: OpenApi) -> OpenApi {
    let paths = std::mem::take(&mut description.paths.paths);
    description.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    for operation in description.paths.paths.values_mut().flat_map(operations) {
        let oauth = || SecurityRequirement::new("oauth", ["full_access"]);
        let credentials = || vec![SecurityRequirement::new("api_key", [""; 0]), oauth()];
        if *operation.security.get_or_insert_with(credentials) != [SecurityRequirement::default()] {
            web::add_refusals(operation);
        }
        let responses = &mut operation.responses.responses;
        if !responses.keys().any(|status| status.starts_with('4')) {
            responses.extend(web::OfRequest::responses());
        }
        if let Some(RefOr::T(body)) = &mut operation.request_body {
            for content in body.content.values_mut() {
                if let RefOr::T(content) = content {
                    content.schema = content.schema.take().map(without_null);
                }
            }
        }
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                let named = Ref::new(format!("#/components/headers/{REQUEST_ID}"));
                response.headers.insert(REQUEST_ID.into(), RefOr::Ref(named));
            }
        }
    }
    types::mend(&mut description);
    description
}

/// What a list holds is described within it; under its own name nobody refers to it then.
fn drop_unused(document: &mut Value) {
    loop {
        let text = document.to_string();
        let references = text.split("\"#/components/schemas/").skip(1);
        let named: HashSet<&str> = references.filter_map(|rest| rest.split('"').next()).collect();
        let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
        let before = schemas.len();
        schemas.retain(|name, _| named.contains(name.as_str()));
        if schemas.len() == before {
            return;
        }
    }
}

/// Whatever makes something leads to what can be done with it: to the operations
/// below its path that ask for nothing but the id.
fn link_up(document: &mut Value) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let ids = |item: &Value| -> Vec<String> {
        let ids = METHODS.into_iter().filter_map(|method| item.get(method)?.get("operationId")?.as_str());
        ids.map(str::to_owned).collect()
    };
    let named =
        |(path, item): (&String, &Value)| ids(item).into_iter().map(|id| (path.clone(), id)).collect::<Vec<_>>();
    let all: Vec<(String, String)> = paths.iter().flat_map(named).collect();
    for (path, item) in paths {
        let Some(made) = item.pointer_mut("/post/responses/201") else { continue };
        let below = all.iter().filter_map(|(other, id)| Some((other.strip_prefix(path)?.strip_prefix("/{")?, id)));
        for (rest, id) in below {
            let (verb, what) = id.split_once('_').unwrap_or((id, ""));
            let Some((parameter, deeper)) = rest.split_once('}') else { continue };
            if deeper.contains('{') || verb == "create" {
                continue;
            }
            let name = if verb == "list" { what.rsplit('_').next().unwrap_or_default() } else { verb };
            made["links"][name] = json!({ "operationId": id, "parameters": { parameter: "$response.body#/id" } });
        }
        if let Some(Value::Object(links)) = made.get_mut("links") {
            links.sort_keys();
        }
    }
}

/// The one schema that is a choice between it and null.
fn without_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::OneOf(mut choice)) if choice.items.len() == 2 => {
            let is_null = |item: &RefOr<Schema>| matches!(item, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null));
            match choice.items.iter().position(is_null) {
                Some(null) => choice.items.swap_remove(1 - null),
                None => RefOr::T(Schema::OneOf(choice)),
            }
        }
        other => other,
    }
}

/// In the order in which they are told.
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    fn document() -> Value {
        crate::product::openapi("https://posthorn.example")
    }

    fn operations(document: &Value) -> Vec<&Value> {
        let paths = document["paths"].as_object().expect("paths").values();
        paths.flat_map(|item| item.as_object().expect("operations").values()).collect()
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_words_and_a_known_tag() {
        let document = document();
        let tags: HashSet<_> = document["tags"].as_array().expect("tags").iter().map(|tag| &tag["name"]).collect();
        let mut seen = HashSet::new();
        for operation in operations(&document) {
            let id = operation["operationId"].as_str().expect("an operationId");
            assert!(seen.insert(id), "{id} twice");
            assert!(tags.contains(&operation["tags"][0]), "{id}: {}", operation["tags"]);
            assert!(operation["summary"].is_string() && operation["description"].is_string(), "{id} says too little");
            assert!(operation["security"].is_array(), "{id} does not say who may call it");
        }
        assert!(seen.contains("create_event") && seen.contains("authorize"));
    }

    #[test]
    fn every_answer_is_a_status_of_its_own_and_names_its_request() {
        for operation in operations(&document()) {
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let is_known =
                    status.parse::<u16>().is_ok() || status == "default" && operation["operationId"] == "authorize";
                assert!(is_known, "{status}");
                assert!(response["headers"]["x-request-id"].is_object(), "{} {status}", operation["operationId"]);
            }
        }
    }

    #[test]
    fn issue_15_every_schema_is_referred_to_and_every_operation_refuses_something() {
        let document = document();
        let text = document.to_string();
        for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
            assert!(text.contains(&format!("\"#/components/schemas/{name}\"")), "{name}");
        }
        for operation in operations(&document) {
            let mut statuses = operation["responses"].as_object().expect("responses").keys();
            assert!(statuses.any(|status| status.starts_with('4')), "{}", operation["operationId"]);
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let mut waiting = vec![&document];
        while let Some(value) = waiting.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(target)) = fields.get("$ref") {
                        let pointer = target.strip_prefix('#').expect("a local reference");
                        assert!(document.pointer(pointer).is_some(), "{target}");
                    }
                    waiting.extend(fields.values());
                }
                Value::Array(items) => waiting.extend(items),
                _ => {}
            }
        }
    }

    #[test]
    fn a_body_that_may_be_left_out_is_an_object_where_it_is_there() {
        let body = &document()["paths"]["/contacts/{contact}"]["patch"]["requestBody"];
        assert_ne!(body["required"], true);
        let schema = &body["content"]["application/json"]["schema"];
        assert_eq!(schema, &serde_json::json!({"$ref": "#/components/schemas/ContactChange"}));
    }

    #[test]
    fn the_server_is_the_one_that_was_configured() {
        assert_eq!(document()["servers"][0]["url"], "https://posthorn.example");
    }
}

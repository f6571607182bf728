//! Client registration, case by case.

use serde_json::{Value, json};

use super::client::{AuthMethod, Grant, GrantSet};
use super::registration::{Origin, RegisteredClient, Registration};
use crate::credentials::ScopeSet;
use crate::oauth::refusal::ErrorCode;

/// The minimal metadata with some fields replaced or added.
fn with(fields: Value) -> Value {
    let mut metadata = json!({"client_name": "OAuth", "redirect_uris": ["https://app.example/cb"]});
    if let (Some(all), Value::Object(fields)) = (metadata.as_object_mut(), fields) {
        all.extend(fields);
    }
    metadata
}

fn register(fields: Value) -> Result<Registration, ErrorCode> {
    Registration::parse(&with(fields), Origin::Open).map_err(|refusal| refusal.error())
}

fn description(metadata: &Value) -> String {
    match Registration::parse(metadata, Origin::Open) {
        Ok(registration) => format!("accepted: {registration:?}"),
        Err(refusal) => refusal.description().to_owned(),
    }
}

#[test]
fn cases_354_355_360_the_minimum_is_a_public_client_with_every_scope_and_grant() {
    let registration = register(json!({})).expect("the minimum is enough");
    assert_eq!(registration.scopes, ScopeSet::all());
    assert_eq!(registration.grants, GrantSet::all());
    let body = json!(RegisteredClient::new(&registration.into_client("id-1".to_owned(), 1_700_000_000_999_999), None));
    assert_eq!(
        body,
        json!({
            "client_id": "id-1",
            "client_id_issued_at": 1_700_000_000,
            "client_name": "OAuth",
            "redirect_uris": ["https://app.example/cb"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": "full_access emails:send",
            "token_endpoint_auth_method": "none"
        })
    );
}

#[test]
fn case_356_a_secret_is_shown_once_and_never_expires() {
    for method in [AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost] {
        let registration = register(json!({
            "token_endpoint_auth_method": method.as_str(),
            "client_uri": "https://app.example",
            "logo_uri": "http://app.example/logo.png",
        }))
        .expect("a confidential client");
        assert!(registration.auth_method.has_secret());
        let body = json!(RegisteredClient::new(&registration.into_client("id".to_owned(), 0), Some("s3cret")));
        assert_eq!(body["client_secret"], "s3cret");
        assert_eq!(body["client_secret_expires_at"], 0);
        assert_eq!(body["client_uri"], "https://app.example");
        assert_eq!(body["logo_uri"], "http://app.example/logo.png");
    }
}

#[test]
fn case_358_only_an_administrator_may_leave_out_authorization_code() {
    for grants in [json!(["refresh_token"]), json!([])] {
        let metadata = with(json!({ "grant_types": grants }));
        let open = Registration::parse(&metadata, Origin::Open).map_err(|r| r.error());
        assert_eq!(open, Err(ErrorCode::InvalidClientMetadata));
        let admin = Registration::parse(&metadata, Origin::Administrator).expect("administrator");
        assert!(!admin.grants.contains(Grant::AuthorizationCode));
    }
    let only_code = register(json!({"grant_types": ["authorization_code"]})).expect("allowed");
    assert!(!only_code.grants.contains(Grant::RefreshToken));
}

#[test]
fn cases_357_to_374_wrong_metadata_is_refused() {
    for fields in [
        json!({"token_endpoint_auth_method": "private_key_jwt"}),
        json!({"token_endpoint_auth_method": ""}),
        json!({"token_endpoint_auth_method": 1}),
        json!({"grant_types": ["authorization_code", "implicit"]}),
        json!({"grant_types": ["client_credentials"]}),
        json!({"grant_types": "authorization_code"}),
        json!({"grant_types": ["authorization_code", null]}),
        json!({"response_types": ["token"]}),
        json!({"response_types": ["code", "token"]}),
        json!({"response_types": ["code id_token"]}),
        json!({"response_types": []}),
        json!({"response_types": "code"}),
        json!({"scope": "openid"}),
        json!({"scope": "full_access\temails:send"}),
        json!({"scope": ["full_access"]}),
        json!({"client_name": ""}),
        json!({"client_name": "   "}),
        json!({"client_name": "\u{200b}\u{202e}\u{3164}"}),
        json!({"client_name": "a".repeat(201)}),
        json!({"client_name": "a\u{0}b"}),
        json!({"client_name": "a\nb"}),
        json!({"client_name": "a\u{85}b"}),
        json!({"client_name": 7}),
        json!({"client_name": null}),
        json!({"client_uri": "javascript:alert(1)"}),
        json!({"client_uri": "app.example"}),
        json!({"client_uri": ""}),
        json!({"client_uri": "https://"}),
        json!({"client_uri": "https://vendor.example@evil.example"}),
        json!({"client_uri": "https://app.example/\n"}),
        json!({"client_uri": {}}),
        json!({"client_uri": format!("https://app.example/{}", "a".repeat(2048))}),
        json!({"logo_uri": "data:image/png;base64,AA"}),
        json!({"logo_uri": "ftp://app.example/logo"}),
        json!({"policy_uri": "javascript:alert(1)"}),
        json!({"tos_uri": "JAVASCRIPT:alert(1)"}),
    ] {
        let shown = fields.to_string();
        assert_eq!(register(fields), Err(ErrorCode::InvalidClientMetadata), "{shown}");
    }
}

#[test]
fn case_362_wrong_redirect_uris_have_their_own_code() {
    let eleven: Vec<String> = (0..11).map(|n| format!("https://app.example/{n}")).collect();
    for uris in [
        json!(null),
        json!([]),
        json!("https://app.example/cb"),
        json!({}),
        json!([null]),
        json!(["https://app.example/cb", 1]),
        json!([["https://app.example/cb"]]),
        json!(eleven),
        json!(["https://app.example/cb", "http://app.example/cb"]),
        json!(["https://app.example/cb?code=1"]),
        json!([""]),
    ] {
        let shown = uris.to_string();
        let result = register(json!({ "redirect_uris": uris }));
        assert_eq!(result, Err(ErrorCode::InvalidRedirectUri), "{shown}");
    }
}

#[test]
fn case_362_duplicates_collapse_and_ten_are_allowed() {
    let uris = json!(["https://a.example/", "https://b.example/", "https://a.example/"]);
    let registration = register(json!({ "redirect_uris": uris })).expect("duplicates are fine");
    assert_eq!(registration.redirect_uris, ["https://a.example/", "https://b.example/"]);
    let ten: Vec<String> = (0..10).map(|n| format!("https://app.example/{n}")).collect();
    assert!(register(json!({ "redirect_uris": ten })).is_ok());
}

#[test]
fn cases_361_371_379_nulls_unknown_fields_and_an_empty_scope_are_no_error() {
    let registration = register(json!({
        "scope": "",
        "grant_types": null,
        "response_types": null,
        "token_endpoint_auth_method": null,
        "client_uri": null,
        "logo_uri": null,
        "application_type": "native",
        "software_id": "x",
        "software_statement": "x.y.z",
        "client_name#de": "Anwendung",
        "contacts": [1, {}],
        "jwks": {"keys": [[[[]]]]},
    }));
    assert_eq!(registration, register(json!({})));
    let duplicated = register(json!({"response_types": ["code"], "scope": " emails:send "}));
    assert_eq!(duplicated.map(|r| r.scopes.to_string()).as_deref(), Ok("emails:send"));
}

#[test]
fn cases_216_and_373_names_of_200_characters_in_any_script_are_kept() {
    for name in ["\u{1f4ef}".repeat(200), "<b>&\u{202e}x".to_owned(), " OAuth ".to_owned()] {
        let registration = register(json!({ "client_name": name })).expect("a visible name");
        assert_eq!(registration.name, name);
    }
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for body in [json!(null), json!([]), json!("x"), json!(1)] {
        let result = Registration::parse(&body, Origin::Open).map_err(|r| r.error());
        assert_eq!(result, Err(ErrorCode::InvalidClientMetadata));
    }
}

#[test]
fn decisions_2_a_misspelt_required_field_is_pointed_out_without_quoting_it() {
    let uris = json!(["https://app.example/cb"]);
    for misspelt in ["clientName", "client-name", "name", "cliemt_name", "Client_Name"] {
        let text = description(&json!({ misspelt: "OAuth", "redirect_uris": uris }));
        assert!(text.starts_with("client_name is missing"), "{text}");
        assert!(text.contains("check its spelling"), "{misspelt}: {text}");
    }
    for misspelt in ["redirect_uri", "redirectUris", "redirect_urls", "redirectUrl"] {
        let text = description(&json!({ misspelt: uris, "client_name": "OAuth" }));
        assert!(text.starts_with("redirect_uris is missing"), "{text}");
        assert!(text.contains("check its spelling"), "{misspelt}: {text}");
    }
    let text = description(&json!({"redirect_uris": uris, "<evil>": 1}));
    assert!(!text.contains("spelling") && !text.contains("evil"), "{text}");
}

#[test]
fn case_197_a_description_names_the_entry_and_never_quotes_it() {
    let text = description(&with(json!({"redirect_uris": ["https://a.example/", "ftp://evil/"]})));
    assert!(text.starts_with("redirect_uris[1] "), "{text}");
    assert!(!text.contains("evil"), "{text}");
}

//! What a client says of itself in its metadata document: the rules of
//! registration, and those that keep a document to its own host.

use serde_json::{Map, Value, json};

use super::url::DocumentUrl;
use crate::credentials::Scope;
use crate::oauth::clients::{Grant, Origin, Registration};
use crate::oauth::redirect_uri::{Destination, DestinationKind, authority, split_port, split_scheme};
use crate::oauth::refusal::{ErrorCode, Refusal};

/// Members in which documents list the ways a client can prove itself.
const AUTH_METHODS: [&str; 3] =
    ["token_endpoint_auth_method", "token_endpoint_auth_methods", "token_endpoint_auth_methods_supported"];

/// Reads the document that stands at `url`. A refusal says which rule was
/// broken and quotes nothing.
pub fn parse(url: &DocumentUrl, bytes: &[u8]) -> Result<Registration, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| refuse("is not valid UTF-8"))?;
    let fields: Map<String, Value> = serde_json::from_str(text).map_err(|_| refuse("is not a JSON object"))?;
    if fields.get("client_id").and_then(Value::as_str) != Some(url.as_str()) {
        return Err(refuse("must have a client_id that equals its own address, byte for byte"));
    }
    if ["client_secret", "client_secret_expires_at"].iter().any(|name| fields.contains_key(*name)) {
        return Err(refuse("must not hold a client secret: everybody can read it"));
    }
    check_auth_method(&fields)?;
    let registration = Registration::parse(&for_us(fields, url), Origin::Open)
        .map_err(|refusal| refuse(&format!("breaks a rule of registration: {}", refusal.description())))?;
    if registration.redirect_uris.iter().any(|uri| leads_elsewhere(uri, url)) {
        return Err(refuse("has an https redirect URI on another host than its own"));
    }
    Ok(registration)
}

fn refuse(what: &str) -> Refusal {
    Refusal::new(ErrorCode::InvalidClient, format!("The client metadata document {what}"))
}

/// A client of this kind has nothing to prove itself with but PKCE. Whatever
/// else it offers, `none` must be among it.
fn check_auth_method(fields: &Map<String, Value>) -> Result<(), Refusal> {
    let given: Vec<&Value> = AUTH_METHODS.iter().filter_map(|name| fields.get(*name)).collect();
    let is_none = |value: &Value| match value {
        Value::Array(several) => several.iter().any(|one| one == "none"),
        one => one == "none",
    };
    if given.iter().all(|value| value.is_null()) || given.into_iter().any(is_none) {
        return Ok(());
    }
    Err(refuse("must allow token_endpoint_auth_method none"))
}

/// The document as a registration here. It is written for every server at once,
/// so what it says about things that exist elsewhere only is left out.
fn for_us(mut fields: Map<String, Value>, url: &DocumentUrl) -> Value {
    AUTH_METHODS.iter().for_each(|name| drop(fields.remove(*name)));
    if fields.get("client_name").is_none_or(Value::is_null) {
        fields.insert("client_name".into(), json!(url.host()));
    }
    keep_known(&mut fields, "grant_types", |name| Grant::parse(name).is_some());
    keep_known(&mut fields, "response_types", |name| name == "code");
    if let Some(Value::String(scopes)) = fields.get("scope") {
        let known: Vec<&str> = scopes.split(' ').filter(|name| Scope::parse(name).is_some()).collect();
        let known = json!(known.join(" "));
        fields.insert("scope".into(), known);
    }
    Value::Object(fields)
}

fn keep_known(fields: &mut Map<String, Value>, name: &str, is_known: impl Fn(&str) -> bool) {
    if let Some(Value::Array(names)) = fields.get_mut(name) {
        names.retain(|name| name.as_str().is_none_or(&is_known));
    }
}

/// Whether a redirect URI is a website's, and not that of the document's host.
fn leads_elsewhere(uri: &str, url: &DocumentUrl) -> bool {
    if Destination::of(uri).kind != DestinationKind::Website {
        return false;
    }
    let host = split_scheme(uri).and_then(|(_, behind)| authority(behind)).map(|authority| split_port(authority).0);
    !host.is_some_and(|host| host.eq_ignore_ascii_case(url.host()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::ScopeSet;
    use crate::oauth::clients::{AuthMethod, GrantSet};

    const ID: &str = "https://app.example/client.json";

    fn read(change: Value) -> Result<Registration, Refusal> {
        let mut document = json!({
            "client_id": ID, "client_name": "OAuth", "redirect_uris": ["https://app.example/cb"],
        });
        for (name, value) in change.as_object().expect("an object") {
            document[name] = value.clone();
        }
        read_text(&document.to_string())
    }

    fn read_text(text: &str) -> Result<Registration, Refusal> {
        parse(&DocumentUrl::parse(ID).expect("an address"), text.as_bytes())
    }

    #[test]
    fn case_409_a_document_is_read_like_a_registration() {
        let read = read(json!({"scope": "emails:send", "grant_types": ["authorization_code"]})).expect("valid");
        assert_eq!((read.name.as_str(), read.auth_method), ("OAuth", AuthMethod::None));
        assert_eq!(read.redirect_uris, ["https://app.example/cb"]);
        assert_eq!(
            (read.scopes, read.grants),
            (Scope::EmailsSend.into(), [Grant::AuthorizationCode].into_iter().collect())
        );
    }

    #[test]
    fn case_411_the_document_must_name_its_own_address() {
        for id in [
            json!("https://app.example/client.jsom"),
            json!("https://app.example/client.json/"),
            json!("https://APP.example/client.json"),
            json!("https://app.example:443/client.json"),
            json!(""),
            json!(7),
            Value::Null,
            json!([ID]),
        ] {
            assert!(read(json!({ "client_id": id })).is_err(), "{id}");
        }
    }

    #[test]
    fn case_414_a_document_is_a_json_object_in_utf_8() {
        let url = DocumentUrl::parse(ID).expect("an address");
        for bytes in
            [&b""[..], b"[]", b"null", b"\"x\"", b"{", b"<html>", b"{\"client_name\":\"\xff\"}", b"\xef\xbb\xbf{}"]
        {
            assert!(parse(&url, bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn redirects_are_the_hosts_own_or_lead_to_this_computer() {
        for good in [
            "https://app.example/other?x=1",
            "https://app.example:8443/cb",
            "https://APP.example/cb",
            "http://127.0.0.1/cb",
            "http://localhost:3000/cb",
            "http://[::1]/cb",
            "https://localhost/cb",
            "com.example.app:/cb",
        ] {
            assert!(read(json!({"redirect_uris": [good]})).is_ok(), "{good}");
        }
        for bad in [
            "https://evil.example/cb",
            "https://sub.app.example/cb",
            "https://example/cb",
            "https://app.example.evil.example/cb",
            "https://127.0.0.1.evil.example/cb",
            "http://app.example/cb",
            "https://app.example/cb#x",
            "https://u@app.example/cb",
            "https://app.example/cb?code=1",
            "javascript:alert(1)",
            "",
        ] {
            assert!(read(json!({"redirect_uris": ["https://app.example/cb", bad]})).is_err(), "{bad}");
        }
        for bad in [json!([]), json!("https://app.example/cb"), json!([7]), Value::Null] {
            assert!(read(json!({ "redirect_uris": bad })).is_err(), "{bad}");
        }
    }

    #[test]
    fn case_418_of_several_ways_to_prove_itself_none_is_chosen() {
        for good in [
            json!({}),
            json!({"token_endpoint_auth_method": null}),
            json!({"token_endpoint_auth_method": "none"}),
            json!({"token_endpoint_auth_method": ["private_key_jwt", "none"]}),
            json!({"token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_methods": ["none", "private_key_jwt"]}),
            json!({"token_endpoint_auth_methods_supported": ["private_key_jwt", "none"], "jwks_uri": "https://app.example/k"}),
        ] {
            assert_eq!(read(good.clone()).map(|read| read.auth_method), Ok(AuthMethod::None), "{good}");
        }
        for bad in [
            json!({"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": []}}),
            json!({"token_endpoint_auth_method": "client_secret_basic"}),
            json!({"token_endpoint_auth_method": "client_secret_post"}),
            json!({"token_endpoint_auth_method": ""}),
            json!({"token_endpoint_auth_method": []}),
            json!({"token_endpoint_auth_methods": ["private_key_jwt"]}),
            json!({"client_secret": "s"}),
            json!({"client_secret_expires_at": 0}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_document_says_to_other_servers_is_left_out() {
        let jwt = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let all = read(json!({
            "grant_types": ["authorization_code", "refresh_token", jwt],
            "response_types": ["code", "token"],
            "scope": "openid profile",
            "software_id": "x",
        }))
        .expect("valid");
        assert_eq!((all.grants, all.scopes), (GrantSet::all(), ScopeSet::all()));
        let some = read(json!({"scope": "openid emails:send"})).expect("valid");
        assert_eq!(some.scopes, Scope::EmailsSend.into());
        for bad in [json!({"grant_types": [jwt]}), json!({"response_types": ["token"]}), json!({"grant_types": [7]})] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_document_without_a_name_goes_by_its_host() {
        assert_eq!(read(json!({"client_name": null})).map(|read| read.name), Ok("app.example".into()));
        assert!(read(json!({"client_name": 7})).is_err());
        assert!(read(json!({"client_name": "\u{202e}"})).is_err());
        assert!(read(json!({"logo_uri": "javascript:x"})).is_err());
    }
}

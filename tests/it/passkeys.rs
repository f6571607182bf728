//! Passkeys as second factors, with an authenticator made of software.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthorn::accounts;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::account_pages::{halfway, value, with_password};
use crate::flow::Person;
use crate::harness::{Answer, TestApp, on_both};

/// What comes before a key of P-256 that says what it is for.
const FRAME: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

const ORIGIN: &str = "https://mail.example";
const REMOVE: &str = "/dashboard/account/second-factor/passkeys/remove";
const PAGE: &str = "/dashboard/account/second-factor";

struct Authenticator {
    pair: EcdsaKeyPair,
    id: Vec<u8>,
}

fn attribute(page: &str, form: &str, name: &str) -> String {
    let form = page.split(&format!("data-passkey=\"{form}\"")).nth(1).expect("a form");
    let found = form.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    found.unwrap_or_else(|| panic!("no {name}: {page}")).to_owned()
}

fn hidden(page: &str, form: &str, name: &str) -> String {
    let form = page.split(&format!("data-passkey=\"{form}\"")).nth(1).expect("a form");
    value(form, name)
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Authenticator {
    fn new(id: &str) -> Authenticator {
        let (algorithm, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("a key");
        Authenticator { pair, id: id.as_bytes().to_vec() }
    }

    fn client_data(page: &str, form: &str, origin: &str) -> String {
        let kind = format!("webauthn.{form}");
        json!({"type": kind, "challenge": attribute(page, form, "data-question"), "origin": origin}).to_string()
    }

    fn data(page: &str, form: &str, flags: u8, counter: u32) -> Vec<u8> {
        let mut data = Sha256::digest(attribute(page, form, "data-host")).to_vec();
        data.push(flags);
        data.extend(counter.to_be_bytes());
        data
    }

    /// What it says of itself on the page that adds it.
    fn introduction(&self, page: &str, origin: &str) -> String {
        let mut data = Authenticator::data(page, "create", 0x41, 0);
        data.extend([0; 16]);
        data.extend(u16::try_from(self.id.len()).expect("short").to_be_bytes());
        data.extend(&self.id);
        let key = [FRAME.as_slice(), self.pair.public_key().as_ref()].concat();
        format!(
            "client_data={}&authenticator_data={}&public_key={}",
            encoded(Authenticator::client_data(page, "create", origin)),
            encoded(data),
            encoded(key)
        )
    }

    /// What it answers at the log-in.
    fn assertion(&self, page: &str, origin: &str, counter: u32) -> String {
        let data = Authenticator::data(page, "get", 1, counter);
        let client_data = Authenticator::client_data(page, "get", origin);
        let signed = [data.as_slice(), &Sha256::digest(&client_data)].concat();
        let signature = self.pair.sign(&SystemRandom::new(), &signed).expect("a signature");
        format!(
            "credential={}&client_data={}&authenticator_data={}&signature={}",
            encoded(&self.id),
            encoded(client_data),
            encoded(data),
            encoded(signature)
        )
    }
}

async fn add(app: &TestApp, owner: &Person, key: &Authenticator, origin: &str, password: &str) -> Answer {
    let page = app.see(PAGE, owner).await.text();
    let form = format!(
        "token={}&nonce={}&name=Ring&passkey-password={password}&{}",
        hidden(&page, "create", "token"),
        hidden(&page, "create", "nonce"),
        key.introduction(&page, origin)
    );
    app.send_form("/dashboard/account/second-factor/passkeys", owner, &form).await
}

async fn show(app: &TestApp, (page, cookie): &(String, String), answer: &str) -> Answer {
    let form = format!(
        "token={}&challenge={}&next={}&{answer}",
        hidden(page, "get", "token"),
        hidden(page, "get", "challenge"),
        hidden(page, "get", "next")
    );
    let request = app.post("/dashboard/login/code").header("cookie", cookie);
    request.body("application/x-www-form-urlencoded", form).send().await
}

fn codes(page: &str) -> Vec<String> {
    let codes = page.split("<code>").nth(1).and_then(|rest| rest.split("</code>").next()).expect("codes");
    codes.lines().map(str::to_owned).collect()
}

on_both! {
    async fn a_passkey_is_added_asked_for_and_removed(app: TestApp) {
        let owner = with_password(&app).await;
        let (key, origin) = (Authenticator::new("one"), ORIGIN);
        for (site, password, why) in [
            (origin, "wrong+horse", "This is not your password."),
            ("https://evil.example", "correct+horse", "meant for another site"),
        ] {
            let refused = add(&app, &owner, &key, site, password).await;
            assert!(refused.status == 422 && refused.text().contains(why), "{}", refused.text());
            assert_eq!(app.count("passkeys").await, 0);
        }
        let added = add(&app, &owner, &key, origin, "correct+horse").await;
        assert_eq!(added.status, 200, "{}", added.text());
        let codes = codes(&added.text());
        assert_eq!((codes.len(), added.text().contains("<strong>Ring</strong>")), (10, true));
        let again = add(&app, &owner, &key, origin, "correct+horse").await;
        assert!(again.status == 422 && again.text().contains("here already"), "{}", again.text());

        let asked = halfway(&app).await;
        let stranger = Authenticator::new("one");
        for (wrong, why) in [
            (stranger.assertion(&asked.0, origin, 1), "not that of this passkey"),
            (Authenticator::new("two").assertion(&asked.0, origin, 1), "not that of this passkey"),
            (key.assertion(&asked.0, "https://evil.example", 1), "another site"),
        ] {
            let refused = show(&app, &asked, &wrong).await;
            assert!(refused.status == 422 && refused.text().contains(why), "{}", refused.text());
        }
        let right = key.assertion(&asked.0, origin, 1);
        let let_in = show(&app, &asked, &right).await;
        assert_eq!((let_in.status, let_in.location()), (303, "/dashboard/w/1/keys"), "{}", let_in.text());
        assert_eq!(show(&app, &asked, &right).await.status, 403, "the question was answered");
        let asked = halfway(&app).await;
        let replayed = show(&app, &asked, &key.assertion(&asked.0, origin, 1)).await;
        assert!(replayed.status == 422 && replayed.text().contains("its counter went back"), "{}", replayed.text());
        assert_eq!(show(&app, &asked, &format!("code={}", codes[0])).await.status, 303, "a recovery code");

        let page = app.see(PAGE, &owner).await.text();
        assert!(page.contains("9 of 10 recovery codes") && page.contains("last used"), "{page}");
        let row = page.split("passkeys/remove").nth(1).expect("a row");
        let form = |password: &str| format!("token={}&id={}&password={password}", value(row, "token"), value(row, "id"));
        let refused = app.send_form(REMOVE, &owner, &form("wrong")).await;
        assert!(refused.status == 422 && refused.text().contains("Nothing was removed"), "{}", refused.text());
        let removed = app.send_form(REMOVE, &owner, &form("correct+horse")).await;
        assert_eq!(removed.status, 303, "{}", removed.text());
        assert_eq!((app.count("passkeys").await, app.count("recovery_codes").await), (0, 0));
        assert_eq!(app.told().await, ["passkey.added", "session.started", "session.started", "passkey.removed"]);
    }

    async fn the_operator_takes_passkeys_away_with_the_rest(app: TestApp) {
        let owner = with_password(&app).await;
        let added = add(&app, &owner, &Authenticator::new("one"), ORIGIN, "correct+horse").await;
        assert_eq!(added.status, 200, "{}", added.text());
        app.app.db.commit(accounts::reset_second_factor(owner.id, &app.clock)).await.expect("reset");
        assert_eq!((app.count("passkeys").await, app.count("recovery_codes").await), (0, 0));
    }
}

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

use super::*;
use crate::secret;

const HEAD: &[u8] = b"Date: Mon, 16 Nov 2026 02:07:25 +0000\r\nFrom: Ada  <a@example.com>\r\nto:b@example.com,\r\n\tc@example.com \r\n\
    Subject: =?utf-8?q?=C3=A4?=\r\n =?utf-8?q?b?=\r\nX-Other: x\r\nReferences: <1@x>\r\nReferences: <2@x>\r\nMIME-Version: 1.0\r\n";

/// The tags of a signature: its own field without the name.
fn tags(field: &str) -> Vec<(String, String)> {
    let value = field.strip_prefix("DKIM-Signature:").expect("its name").replace("\r\n", "");
    let tags = value.split(';').map(|tag| tag.split_once('=').expect("a tag"));
    tags.map(|(name, value)| (name.trim().to_owned(), value.replace(' ', ""))).collect()
}

/// Section 6, with what a stranger has: the message, and the DNS record.
fn verify(signature: &[u8], head: &[u8], record: &str) -> bool {
    let field = std::str::from_utf8(signature).expect("ASCII");
    let tags = tags(field);
    let tag = |name: &str| tags.iter().find(|(tag, _)| tag == name).expect("a tag").1.clone();
    let head = std::str::from_utf8(head).expect("UTF-8").replace("\r\n ", " ").replace("\r\n\t", " ");
    let mut fields: Vec<&str> = head.split_terminator("\r\n").collect();
    let mut signed = String::new();
    for name in tag("h").split(':') {
        let is_it = |field: &&str| field.split(':').next().is_some_and(|found| found.trim().eq_ignore_ascii_case(name));
        if let Some(at) = fields.iter().rposition(is_it) {
            signed.push_str(&relaxed(fields.remove(at)));
            signed.push_str("\r\n");
        }
    }
    let unfolded = field.replace("\r\n", "");
    let without_value = unfolded.rsplit_once("b=").expect("a signature").0.to_owned() + "b=";
    signed.push_str(&relaxed(&without_value));
    let public = STANDARD.decode(record.rsplit_once("p=").expect("a key").1).expect("base64");
    let value = STANDARD.decode(tag("b")).expect("base64");
    match tag("a").as_str() {
        "rsa-sha256" => {
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &public[24..]).verify(signed.as_bytes(), &value)
        }
        _ => UnparsedPublicKey::new(&ED25519, &public).verify(&secret::hash_bytes(signed.as_bytes()), &value),
    }
    .is_ok()
}

fn relaxed(field: &str) -> String {
    let (name, value) = field.split_once(':').expect("a name");
    format!("{}:{}", name.trim().to_lowercase(), value.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn both_kinds_of_keys_sign_and_are_kept() {
    for (key, record) in
        [(DkimKey::generate_rsa(), "v=DKIM1; k=rsa; p="), (DkimKey::generate_ed25519(), "v=DKIM1; k=ed25519; p=")]
    {
        let kept = DkimKey::from_bytes(&key.to_bytes()).expect("a key");
        assert_eq!(kept.algorithm(), key.algorithm());
        assert!(key.dns_value().starts_with(record) && key.dns_value() == kept.dns_value());
        assert_eq!(format!("{key:?}"), format!("DkimKey({})", key.algorithm()));
        let sign = |key: &DkimKey, head: &[u8]| dkim_signature(key, "example.com", "s1", head, &[7; 32], 1_794_794_845);
        let signature = sign(&key, HEAD);
        assert_eq!(signature, sign(&kept, HEAD), "the same to the byte");
        assert!(verify(&signature, HEAD, &key.dns_value()));
        let other = String::from_utf8(HEAD.to_vec()).expect("UTF-8").replace("<2@x>", "<3@x>");
        assert!(!verify(&signature, other.as_bytes(), &key.dns_value()), "what was signed cannot be changed");
        let added = [HEAD, b"Reply-To: eve@example.com\r\n"].concat();
        assert!(!verify(&signature, &added, &key.dns_value()), "what is not there cannot be added");
        let unsigned = String::from_utf8(HEAD.to_vec()).expect("UTF-8").replace("X-Other: x", "X-Other: y");
        assert!(verify(&signature, unsigned.as_bytes(), &key.dns_value()));
    }
    assert!(DkimKey::from_bytes(b"").is_none() && DkimKey::from_bytes(&[0x30; 200]).is_none());
}

#[test]
fn a_field_is_named_once_more_than_it_occurs() {
    let signature = dkim_signature(&DkimKey::generate_ed25519(), "example.com", "s1", HEAD, &[0; 32], 5);
    let field = String::from_utf8(signature).expect("ASCII");
    assert!(field.ends_with("\r\n") && field.split("\r\n").all(|line| line.len() <= 78), "{field}");
    let tags = tags(&field);
    let names: Vec<&str> = tags.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["v", "a", "c", "d", "s", "t", "h", "bh", "b"]);
    assert_eq!(
        tags[6].1,
        "From:From:To:To:Subject:Subject:Date:Date:Reply-To:MIME-Version:MIME-Version:Content-Type:List-Unsubscribe:\
         List-Unsubscribe-Post:References:References"
    );
    assert_eq!(tags[5].1, "5");
}

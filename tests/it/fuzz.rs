//! Short runs of the fuzz targets on the stable toolchain. `fuzz/` has the
//! same targets for `cargo fuzz`, which learns from coverage and runs for hours.
//!
//! A failure prints its seed; `POSTHORN_FUZZ_SEED` repeats it.

use posthorn::contacts;
use posthorn::{emails, events, mime, oauth, render, reports, smtp, smtp_server, tracking, web};

use crate::asking::{CALLBACK, query};
use crate::harness::{TestApp, on_both};

/// Small, fast and good enough to mix bytes (splitmix64).
struct Dice(u64);

impl Dice {
    fn new(what: &str) -> Dice {
        let given = std::env::var("POSTHORN_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given
            .unwrap_or_else(|| u64::from_le_bytes(uuid::Uuid::new_v4().into_bytes()[..8].try_into().expect("8 bytes")));
        println!("{what}: POSTHORN_FUZZ_SEED={seed}");
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }

    /// A sample, cut, doubled, spliced and sprinkled with words and bytes.
    fn mutated(&mut self, samples: &[&[u8]], words: &[&[u8]]) -> Vec<u8> {
        let mut text = self.pick(samples).to_vec();
        for _ in 0..self.below(6) {
            let (at, to) = (self.below(text.len() + 1), self.below(text.len() + 1));
            let (start, end) = (at.min(to), at.max(to));
            match self.below(6) {
                0 => drop(text.drain(start..end)),
                1 => drop(text.splice(at..at, self.pick(words).iter().copied())),
                2 => drop(text.splice(start..end, self.pick(words).iter().copied())),
                3 => {
                    let part = text[start..end].to_vec();
                    drop(text.splice(to..to, part));
                }
                4 => {
                    let byte = self.next() as u8;
                    drop(text.splice(at..at, [byte]));
                }
                _ => {
                    let other = self.pick(samples);
                    let cut = self.below(other.len() + 1);
                    text.truncate(start);
                    text.extend_from_slice(&other[cut..]);
                }
            }
        }
        text
    }
}

const QUERIES: [&[u8]; 3] = [
    b"client_id=0198c5a0-0000-7000-8000-000000000001&response_type=code&redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2Fcb&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&state=xyz&scope=emails%3Asend",
    b"client_id=0198c5a0-0000-7000-8000-000000000001&response_type=code&redirect_uri=https://app.example/cb?tenant=7&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256",
    b"client_id=0198c5a0-0000-7000-8000-000000000001&redirect_uri=com.example.app:/oauth&state=%F0%9F%93%AF+%00%ff",
];
const QUERY_WORDS: [&[u8]; 20] = [
    b"&state=",
    b"&scope=",
    b"&redirect_uri=",
    b"%",
    b"%00",
    b"%ff",
    b"+",
    b"&",
    b"=",
    b"#",
    b"\r\n",
    b"%0d%0a",
    b":8080",
    b":0",
    b"@",
    b"\\",
    b"[::1]",
    b"localhost",
    b"full_access",
    b"\xf0\x9f\x93\xaf",
];

const URIS: [&[u8]; 7] = [
    b"http://127.0.0.1/cb\nhttp://127.0.0.1:8080/cb",
    b"http://localhost\nhttp://localhost:1",
    b"http://[::1]:9000?a\nhttp://[::1]?a",
    b"https://app.example/cb?tenant=7\nhttps://app.example/cb?tenant=7",
    b"com.example.app:/oauth\ncom.example.app:/oauth",
    b"http://127.0.0.1:80@evil/\nhttp://127.0.0.1@evil/",
    b"https://localhost:65535/\nhttps://localhost:65536/",
];
const URI_WORDS: [&[u8]; 16] = [
    b":80",
    b":",
    b":0",
    b":080",
    b":65535",
    b":65536",
    b"@",
    b"/",
    b"//",
    b"?",
    b"#",
    b"\\",
    b"localhost",
    b"127.0.0.1",
    b"[::1]",
    b"%",
];

const BODIES: [&[u8]; 6] = [
    br#"{"name":"user.created","schema":{"plan":"string","at":"date","n":"number","b":"boolean"}}"#,
    br#"{"name":"svc:x"}"#,
    br#"{"name":null,"schema":null}"#,
    br#"{"name":"\u0000\ud83d\udcef","schema":{"":"string"}}"#,
    br#"[{"name":1e400}]"#,
    br#"{"Name":"a","schema":[["x"]],"name":"a"}"#,
];
const BODY_WORDS: [&[u8]; 18] = [
    b"\"name\":",
    b"\"schema\":",
    b"\"svc:",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"1e9",
    b"\"string\"",
    b"\"date\"",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\"nmae\":\"a\"",
];

#[test]
fn fuzz_raw_query() {
    let mut dice = Dice::new("raw_query");
    for _ in 0..20_000 {
        oauth::raw_query(&dice.mutated(&QUERIES, &QUERY_WORDS));
    }
}

#[test]
fn fuzz_redirect_match() {
    let mut dice = Dice::new("redirect_match");
    for _ in 0..30_000 {
        oauth::redirect_match(&dice.mutated(&URIS, &URI_WORDS));
    }
}

#[test]
fn fuzz_event_body() {
    let mut dice = Dice::new("event_body");
    let accepted = (0..30_000).filter(|_| events::event_body(&dice.mutated(&BODIES, &BODY_WORDS))).count();
    assert!(accepted > 100, "the fuzzer hardly ever gets through: {accepted}");
}

#[test]
fn fuzz_json_body() {
    const TEXTS: [&[u8]; 3] = [br#"[{"a":[1,"x,["]},[],{}]"#, br#"{"a":{"b":[null,true]}}"#, br#"[["\"\\",0],[]]"#];
    const WORDS: [&[u8]; 9] = [b"[", b"]", b",", b"\"", b"\\", b"{\"k\":", b"}", b" ", b"0"];
    let mut dice = Dice::new("json_body");
    let arrays = (0..30_000).filter(|_| web::json_body(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(arrays > 100, "the fuzzer hardly ever gets through: {arrays}");
}

#[test]
fn fuzz_form_body() {
    const TEXTS: [&[u8]; 2] = [
        b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--x--\r\n",
        b"--x \t\r\ncontent-disposition: form-data; name=b; filename=\"\\\"\"\r\n\r\n\r\n--x\r\n\r\n\r\n--x--",
    ];
    const WORDS: [&[u8]; 8] = [b"\r\n--x", b"--", b"\r\n\r\n", b"\r\n", b"name=", b"\"", b";", b" "];
    let mut dice = Dice::new("form_body");
    let forms = (0..30_000).filter(|_| web::form_body(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(forms > 100, "the fuzzer hardly ever gets through: {forms}");
}

#[test]
fn fuzz_long_body() {
    const TEXTS: [&[u8]; 3] = [
        br#"{"html":"0123456789","n":[{"content":"x\ud83d\ude00\n0123456789"}]}"#,
        br#"{"content":[1,22,255,0,1,2],"html":["a"],"x":"html","html":"short"}"#,
        "{\"html\" : \"\u{20ac}\u{1f600}\u{20ac}\u{1f600}\"}".as_bytes(),
    ];
    const WORDS: [&[u8]; 10] = [b"\"html\":", b"\"", b"\\", b"\\u0000", b"[", b"]", b"1,", b"{", b"}", b"0123456789"];
    let mut dice = Dice::new("long_body");
    let values: usize = (0..30_000).map(|_| web::long_body(&dice.mutated(&TEXTS, &WORDS))).sum();
    assert!(values > 1000, "the fuzzer hardly ever gets through: {values}");
}

#[test]
fn fuzz_schedule_text() {
    const TEXTS: [&[u8]; 4] = [
        b"in 1 hour and 30 min",
        b"tomorrow at 9am",
        b"Friday at 3:15pm Europe/Berlin",
        b"2026-01-05T10:00:00.5+01:00",
    ];
    const WORDS: [&[u8]; 10] = [b" ", b"in ", b"at ", b"9", b":", b"am", b"days", b"ET", b"999999999", b"-"];
    let mut dice = Dice::new("schedule_text");
    let read = (0..30_000).filter(|_| emails::schedule_text(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(read > 1000, "the fuzzer hardly ever gets through: {read}");
}

#[test]
fn fuzz_rewritten_links() {
    const TEXTS: [&[u8]; 3] = [
        b"\x05<body><a href=\"https://a.example/?x=1&amp;y=2\">a</a><!-- <a href='x'> --></body>",
        b"\x01<a class=b href=http://a/>x<script>'<a href=y>'</script><A HREF = 'https://b'>",
        "\u{7}<p title=\"<a href='\u{e4}'>\"><a href='http://\u{20ac}/&#38;'><style>a</style>".as_bytes(),
    ];
    const WORDS: [&[u8]; 14] = [
        b"<a ",
        b"href=",
        b"\"",
        b"'",
        b">",
        b"<!--",
        b"-->",
        b"<script>",
        b"</script>",
        b"&",
        b"</body>",
        b"=",
        b"/",
        b"\xff",
    ];
    let mut dice = Dice::new("rewritten_links");
    let linked = (0..30_000).filter(|_| tracking::rewritten_links(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(linked > 3_000, "the fuzzer hardly ever gets through: {linked}");
}

#[test]
fn fuzz_smtp_reply() {
    const TEXTS: [&[u8]; 3] = [
        b"220 mx.example ESMTP\r\n250-mx.example\r\n250-SIZE 35882577\r\n250-AUTH PLAIN LOGIN\r\n250 PIPELINING\r\n",
        b"550-5.1.1 no such user\r\n550 5.1.1 here\r\n",
        b"421 4.7.0 caf\xe9 \xf0\x9f\x93\xaf\n354\n",
    ];
    const WORDS: [&[u8]; 9] = [b"\r\n", b"250-", b"550 ", b"5.1.", b"999", b" ", b"AUTH=", b"\xff", b"SIZE 1"];
    let mut dice = Dice::new("smtp_reply");
    let answers: usize = (0..30_000).map(|_| smtp::smtp_reply(&dice.mutated(&TEXTS, &WORDS))).sum();
    assert!(answers > 10_000, "the fuzzer hardly ever gets through: {answers}");
}

#[test]
fn fuzz_report_message() {
    const TEXTS: [&[u8]; 2] = [
        b"Content-Type: multipart/report; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n\
          Reporting-MTA: dns; mx\r\n\r\nFinal-Recipient: rfc822; a@b.example\r\nAction: failed\r\nStatus: 5.0.0\r\n\
          Diagnostic-Code: smtp; 550-5.1.1 no\r\n 550 5.1.1 more\r\n\r\n--b--\r\n",
        b"Content-Type: multipart/report; report-type=feedback-report;\r\n boundary=b\r\n\r\n--b\r\n\
          Content-Type: message/feedback-report\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
          Feedback-Type: abuse=20\r\nOriginal-Rcpt-To: <a@b.example>\r\n\r\n--b--\r\n",
    ];
    const WORDS: [&[u8]; 9] =
        [b"\r\n", b"--b", b"5.1.1", b"Action: delayed\r\n", b";", b"\r\n\r\n", b"\xff", b"base64", b"\0"];
    let mut dice = Dice::new("report_message");
    let reports = (0..30_000).filter(|_| reports::report_message(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(reports > 3_000, "the fuzzer hardly ever gets through: {reports}");
}

#[test]
fn fuzz_relay_report() {
    const TEXTS: [&[u8]; 3] = [
        br#"{"notificationType":"Bounce","mail":{"source":"t@x.example","headers":[{"name":"X-Posthorn-Mail","value":"m"}]},"bounce":{"bounceType":"Permanent","bounceSubType":"General","bouncedRecipients":[{"emailAddress":"a@b.example","status":"5.1.1","diagnosticCode":"smtp; 550 5.1.1 no"}]}}"#,
        br#"{"signature":{"timestamp":"1","token":"t","signature":"00"},"event-data":{"event":"failed","severity":"permanent","recipient":"a@b.example","envelope":{"sender":"t@x.example"},"delivery-status":{"message":"5.1.1 no","code":550}}}"#,
        br#"{"RecordType":"Bounce","Type":"HardBounce","Email":"a@b.example","Details":"smtp;550 5.1.1 no","Metadata":{"posthorn":"m"}}"#,
    ];
    const WORDS: [&[u8]; 9] = [b"\"", b"\\u0000", b"null", b"[", b"{}", b"5.1.1", b"\xff", b"Complaint", b"temporary"];
    let mut dice = Dice::new("relay_report");
    let reports: usize = (0..30_000).map(|_| reports::relay_report(&dice.mutated(&TEXTS, &WORDS))).sum();
    assert!(reports > 3_000, "the fuzzer hardly ever gets through: {reports}");
}

#[test]
fn fuzz_csv_file() {
    const TEXTS: [&[u8]; 2] = [b"email,name\r\na@b,\"x, \"\"y\"\"\"\n\n", b"\"1\n2\",\xff\r,,\n\"never"];
    const WORDS: [&[u8]; 6] = [b"\"", b",", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf"];
    let mut dice = Dice::new("csv_file");
    let rows: usize = (0..30_000).map(|_| contacts::csv_file(&dice.mutated(&TEXTS, &WORDS))).sum();
    assert!(rows > 1000, "the fuzzer hardly ever gets through: {rows}");
}

#[test]
fn fuzz_written_message() {
    const TEXTS: [&[u8]; 3] = [
        b"From: Ada <ada@example.com>\r\nTo: \"Q, N\" <b@example.com>, team: c@d.example;\r\nSubject: =?utf-8?q?H=C3=BC?=\r\n more\r\n\r\nHi\r\n",
        b"From: a@b.example\r\nContent-Type: multipart/mixed; boundary=\"x\"\r\n\r\n--x\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC\r\n--x\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+SGk8L3A+\r\n--x--\r\n",
        b"from : =?utf-8?b?w7w=?= <a@b.example>\r\nContent-Type: message/rfc822\r\n\r\nFrom: c@d.example\r\n\r\nHi\r\n",
    ];
    const WORDS: [&[u8]; 18] = [
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b"\0",
        b":",
        b"--x\r\n",
        b"--x--",
        b"(((",
        b"\"",
        b"<",
        b">",
        b"=?utf-8?b?",
        b"=?utf-16?q?=00?=",
        b"Content-Type: multipart/digest; boundary=x\r\n\r\n--x\r\n\r\n",
        b"charset*0*=utf-8''%00",
        b"\xff\xfe",
        b"From: x@y.example\r\n",
    ];
    let mut dice = Dice::new("written_message");
    let read = (0..30_000).filter(|_| mime::written_message(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(read > 1000, "the fuzzer hardly ever gets through: {read}");
}

#[test]
fn fuzz_received_message() {
    const TEXTS: [&[u8]; 3] = [
        b"From: a@b.example\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/plain; charset=x\r\n\r\nHi\r\n--b\r\nContent-Type: image/png; name=x\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--b--\r\n",
        b"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/simple; d=b.example; s=s; h=from:to; bh=AAAA; b=AAAA\r\nFrom: =?utf-8?q?=C3=BC?= <a@b.example>\r\nReferences: <1@x> <2@x>\r\nMessage-ID: <3@x>\r\n\r\nHi\r\n \r\n",
        b"From: a@b.example, c@d.example\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=BC=\r\n=3D",
    ];
    const WORDS: [&[u8]; 12] = [
        b"\r\n",
        b"\r\n\r\n",
        b"--b",
        b"--b--\r\n",
        b"Content-Type: multipart/x; boundary=b\r\n\r\n",
        b"From: x@y.example\r\n",
        b"=",
        b";",
        b"<",
        b"\xff",
        b"\0",
        b" ",
    ];
    let mut dice = Dice::new("received_message");
    let read = (0..20_000).filter(|_| mime::received_message(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(read > 1000, "the fuzzer hardly ever gets through: {read}");
}

#[test]
fn fuzz_smtp_dialogue() {
    const TEXTS: [&[u8]; 3] = [
        b"EHLO x\r\nAUTH PLAIN AHJlc2VuZAByZV94\r\nMAIL FROM:<a@b.example> SIZE=10 BODY=8BITMIME SMTPUTF8\r\nRCPT TO:<c@d.example>\r\nBDAT 5 LAST\r\n",
        b"Subject: x\r\n\r\nHi\r\n..\r\n.\r\nMAIL FROM:<>\r\nDATA\r\nRSET\r\nNOOP\r\nVRFY a\r\nHELP\r\nQUIT\r\n",
        b".\r\nSTARTTLS\r\nHELO [::1]\r\nRCPT TO:<\xc3\xbc@b\xc3\xbccher.example>\r\n",
    ];
    const WORDS: [&[u8]; 14] = [
        b"\r\n",
        b"\n",
        b"\r",
        b".",
        b"\r\n.\r\n",
        b"<",
        b">",
        b" ",
        b"\0",
        b"=",
        b"\"",
        b"@",
        b"\xff",
        b"99999999999999999999",
    ];
    let mut dice = Dice::new("smtp_dialogue");
    let understood: usize = (0..30_000).map(|_| smtp_server::smtp_dialogue(&dice.mutated(&TEXTS, &WORDS))).sum();
    assert!(understood > 10_000, "the fuzzer hardly ever gets through: {understood}");
}

#[test]
fn fuzz_mailbox_text() {
    const TEXTS: [&[u8]; 4] = [
        b"Ada Lovelace <ada@example.com>",
        b"\"Q, \\\"N\\\"\" <a.b+c@sub.example.org>",
        b"ada@b\xc3\xbccher.example",
        b"<\xe7\x94\xa8\xe6\x88\xb7@xn--fsqu00a.example>",
    ];
    const WORDS: [&[u8]; 14] = [
        b"\r\n",
        b"\"",
        b"\\",
        b"<",
        b">",
        b"@",
        b".",
        b",",
        b" ",
        b"\0",
        b"xn--",
        b"\xe2\x80\xae",
        b"\xc3\xa4",
        b"=?utf-8?q?",
    ];
    let mut dice = Dice::new("mailbox_text");
    let read = (0..30_000).filter(|_| mime::mailbox_text(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(read > 1000, "the fuzzer hardly ever gets through: {read}");
}

#[test]
fn fuzz_composed_message() {
    const TEXTS: [&[u8]; 2] = [
        b"Ada\xffHello\xfftext\n.\r\n\xff<p>html</p>\xffX-A\xffvalue\xffa.pdf\xffimage/png\xffid",
        b"\xc3\x84\xffGr\xc3\xbc\xc3\x9fe\xffB\xc3\xa4r \r\xff\xffList-Id\xff\xf0\x9f\x93\xaf\xff\xc3\xbc.tar.gz\xffa/b; c=d\xff<x@y>",
    ];
    const WORDS: [&[u8]; 14] = [
        b"\r\n",
        b"\r\nBcc: x@example.com\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"=?utf-8?q?a?=",
        b"\"",
        b"\xf0\x9f\x93\xaf",
        b"--=_",
        b".",
        b" ",
        b"\t",
        b"<a href='https://example.com'>",
    ];
    let mut dice = Dice::new("composed_message");
    let with_header = (0..10_000).filter(|_| mime::composed_message(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(with_header > 1000, "the fuzzer hardly ever gets through: {with_header}");
}

#[test]
fn fuzz_template_text() {
    const TEXTS: [&[u8]; 6] = [
        b"<p>Hello {{{FIRST_NAME|there}}}, {{ NAME }} has {{ COUNT }}: {{ contact.properties.plan | upper }}</p>",
        b"{% for one in LIST %}{{ loop.index }}. {{ one }}{% else %}none{% endfor %}",
        b"{% if COUNT > 2 and not NOTHING %}many {{{NAME}}}{% elif YES %}yes{% else %}{{ PRICE | decimals(2) }}{% endif %}",
        b"{% set total = PRICE | times(COUNT) %}{{ total | round(1) }}{% with a = NAME %}{{ a | truncate(3) }}{% endwith %}",
        b"{{ LIST | first | replace(\"f\", NAME) }}{## a note ##}{% raw %}{{{x}}}{% endraw %}{{{ NAME | a \\ \"b\" }}}",
        b"@media{#a{b:c}}{{ \"}}\" }}{{ (YES if COUNT in [1, 3] else NOTHING) | default(\"x\") | urlencode }}",
    ];
    const WORDS: [&[u8]; 30] = [
        b"{{",
        b"}}",
        b"{{{",
        b"}}}",
        b"{%",
        b"%}",
        b"{##",
        b"##}",
        b"{% raw %}",
        b"{% endraw %}",
        b"{% for a in LIST %}",
        b"{% endfor %}",
        b"{% if YES %}",
        b"{% endif %}",
        b"{% set x = NAME %}",
        b" | join(NAME)",
        b" | safe",
        b" ~ ",
        b" * ",
        b"\"",
        b"\\",
        b"-",
        b"not ",
        b"(",
        b"[",
        b".",
        b"\n",
        b"\0",
        b"NAME",
        b"\xf0\x9f\x93\xaf",
    ];
    let mut dice = Dice::new("template_text");
    let rendered = (0..10_000).filter(|_| render::template_text(&dice.mutated(&TEXTS, &WORDS))).count();
    assert!(rendered > 1000, "the fuzzer hardly ever gets through: {rendered}");
}

on_both! {
    /// The same through the gate: what the target judges is what the product does.
    async fn issue_2_any_body_is_answered_as_the_rules_say_and_stored_only_on_201(app: TestApp) {
        let mut dice = Dice::new("bodies");
        let key = app.full_key().await;
        let mut made = 0;
        for _ in 0..300 {
            let body = dice.mutated(&BODIES, &BODY_WORDS);
            let expected = events::event_body(&body);
            let answer = app.post("/events").key(&key).body("application/json", body.clone()).send().await;
            assert_eq!(answer.status == 201, expected, "{:?}: {}", String::from_utf8_lossy(&body), answer.text());
            assert!(
                matches!(answer.status, 201 | 400 | 422),
                "{:?}: {}",
                String::from_utf8_lossy(&body),
                answer.text()
            );
            made += i64::from(answer.status == 201);
        }
        assert_eq!(app.count("events").await, made);
    }

    async fn property_405_one_row_is_stored_for_each_consent_redirect_and_none_otherwise(app: TestApp) {
        let mut dice = Dice::new("queries");
        let client = app.client_for(CALLBACK).await;
        let samples = [query(&client, &[]), query(&client, &[("state", Some("s")), ("scope", Some("full_access"))])];
        let samples: Vec<&[u8]> = samples.iter().map(|sample| sample.as_bytes()).collect();
        let mut pending = 0;
        for _ in 0..300 {
            let target = [b"/oauth/authorize?", &*dice.mutated(&samples, &QUERY_WORDS)].concat();
            if http::Uri::try_from(&*target).is_err() {
                continue;
            }
            let answer = app.get(&target).send().await;
            match answer.status {
                302 if answer.location().starts_with(CALLBACK) => {}
                302 => {
                    answer.consent();
                    pending += 1;
                }
                status => assert_eq!(status, 400, "{:?}", String::from_utf8_lossy(&target)),
            }
        }
        assert_eq!(app.count("authorization_requests").await, pending);
    }
}

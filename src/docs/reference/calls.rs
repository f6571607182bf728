//! A call of an operation that can be pasted: in the languages that most programs are written in, and as commands.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::super::markdown::snippet;
use super::operation::list;
use super::schema::Schemas;
use super::text;
use crate::app::App;

const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'/');

/// The same call in one language.
pub struct Sample {
    pub language: &'static str,
    pub code: String,
}

impl Sample {
    pub fn html(&self) -> String {
        snippet("", &self.code)
    }
}

/// What is sent, with the real address, and examples where values belong.
pub struct Call {
    method: String,
    base: String,
    path: String,
    needs_key: bool,
    /// Its answer is where to go.
    redirects: bool,
    body: Option<Body>,
}

enum Body {
    Json(Value),
    /// A file in a form.
    Form,
    /// A file as it is.
    Csv,
}

/// The file that examples send.
const FILE: &str = "contacts.csv";

impl Call {
    /// A call of this server with a key, for a page that does the same.
    pub fn to(app: &App, method: &str, path: &str, json: Option<Value>) -> Call {
        Call {
            method: method.to_owned(),
            base: app.addresses.base.as_str().to_owned(),
            path: path.to_owned(),
            needs_key: true,
            redirects: false,
            body: json.map(Body::Json),
        }
    }

    pub(super) fn new<'a>(
        schemas: Schemas<'a>,
        base: &str,
        method: &str,
        path: &str,
        operation: &'a Value,
        json: Option<Value>,
    ) -> Call {
        let mut called = path.to_owned();
        let mut separator = '?';
        for parameter in list(&operation["parameters"]).filter(|parameter| parameter["required"] == true) {
            let name = text(&parameter["name"]);
            let value = parameter.get("example").cloned().unwrap_or_else(|| schemas.example(&parameter["schema"]));
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let value = utf8_percent_encode(&value, ENCODED).to_string();
            if parameter["in"] == "path" {
                called = called.replace(&format!("{{{name}}}"), &value);
            } else {
                called.push_str(&format!("{separator}{name}={value}"));
                separator = '&';
            }
        }
        let content = &operation["requestBody"]["content"];
        let form = || content.get("multipart/form-data").map(|_| Body::Form);
        let csv = || content.get("text/csv").map(|_| Body::Csv);
        Call {
            method: method.to_uppercase(),
            base: base.to_owned(),
            path: called,
            needs_key: list(&operation["security"]).any(|way| way.get("api_key").is_some()),
            redirects: operation["responses"].get("302").is_some(),
            body: json.map(Body::Json).or_else(form).or_else(csv),
        }
    }

    /// The same call in every language.
    pub fn samples(&self) -> Vec<Sample> {
        let sample = |language, code| Sample { language, code };
        vec![
            sample("curl", self.curl()),
            sample("Node", self.node()),
            sample("Python", self.python()),
            sample("Rust", self.rust()),
            sample("Command line", self.command()),
        ]
    }

    fn address(&self) -> String {
        format!("{}{}", self.base, self.path)
    }

    fn curl(&self) -> String {
        let verb = match (self.method.as_str(), &self.body) {
            ("GET", _) | ("POST", Some(_)) => String::new(),
            (method, _) => format!(" -X {method}"),
        };
        let shown = if self.redirects { " -i" } else { "" };
        let mut parts = vec![format!("curl{shown}{verb} {}", quoted(&self.address()))];
        if self.needs_key {
            parts.push("-H \"Authorization: Bearer $POSTHORN_KEY\"".into());
        }
        match &self.body {
            Some(Body::Json(body)) => {
                parts.push("-H \"Content-Type: application/json\"".into());
                parts.push(format!("-d {}", in_quotes(&body.to_string())));
            }
            Some(Body::Form) => parts.push(format!("-F file=@{FILE}")),
            Some(Body::Csv) => {
                parts.push("-H \"Content-Type: text/csv\"".into());
                parts.push(format!("--data-binary @{FILE}"));
            }
            None => {}
        }
        parts.join(" \\\n  ")
    }

    fn node(&self) -> String {
        let mut options = Vec::new();
        if self.method != "GET" {
            options.push(format!("method: \"{}\"", self.method));
        }
        if self.redirects {
            options.push("redirect: \"manual\"".into());
        }
        let mut headers = Vec::new();
        if self.needs_key {
            headers.push("Authorization: `Bearer ${process.env.POSTHORN_KEY}`".to_owned());
        }
        let mut before = String::new();
        match &self.body {
            Some(Body::Json(body)) => {
                headers.push("\"Content-Type\": \"application/json\"".into());
                options.push(format!("body: JSON.stringify({})", indented(&written(body, JSON), "  ")));
            }
            Some(Body::Form) => {
                before = format!(
                    "import {{ openAsBlob }} from \"node:fs\";\n\nconst form = new FormData();\n\
                     form.set(\"file\", await openAsBlob(\"{FILE}\"), \"{FILE}\");\n"
                );
                options.push("body: form".into());
            }
            Some(Body::Csv) => {
                before = "import { readFile } from \"node:fs/promises\";\n\n".into();
                headers.push("\"Content-Type\": \"text/csv\"".into());
                options.push(format!("body: await readFile(\"{FILE}\")"));
            }
            None => {}
        }
        if !headers.is_empty() {
            options.insert(0, format!("headers: {{ {} }}", headers.join(", ")));
        }
        let options = match options.is_empty() {
            true => String::new(),
            false => format!(", {{\n  {},\n}}", options.join(",\n  ")),
        };
        let shown = if self.redirects { "answer.headers.get(\"location\")" } else { "await answer.text()" };
        format!(
            "{before}const answer = await fetch({}{options});\nconsole.log(answer.status, {shown});",
            Value::from(self.address())
        )
    }

    fn python(&self) -> String {
        let mut arguments = vec![Value::from(self.address()).to_string()];
        let mut headers = Vec::new();
        if self.needs_key {
            headers.push("\"Authorization\": f\"Bearer {os.environ['POSTHORN_KEY']}\"");
        }
        if let Some(Body::Csv) = self.body {
            headers.push("\"Content-Type\": \"text/csv\"");
        }
        if !headers.is_empty() {
            arguments.push(format!("headers={{{}}}", headers.join(", ")));
        }
        match &self.body {
            Some(Body::Json(body)) => arguments.push(format!("json={}", indented(&written(body, PYTHON), "    "))),
            Some(Body::Form) => arguments.push(format!("files={{\"file\": open(\"{FILE}\", \"rb\")}}")),
            Some(Body::Csv) => arguments.push(format!("data=open(\"{FILE}\", \"rb\")")),
            None => {}
        }
        if self.redirects {
            arguments.push("allow_redirects=False".into());
        }
        let imports = if self.needs_key { "import os\n\nimport requests" } else { "import requests" };
        let shown = if self.redirects { "answer.headers[\"location\"]" } else { "answer.text" };
        format!(
            "{imports}\n\nanswer = requests.{}(\n    {},\n)\nprint(answer.status_code, {shown})",
            self.method.to_lowercase(),
            arguments.join(",\n    ")
        )
    }

    fn rust(&self) -> String {
        let client = match self.redirects {
            true => "reqwest::Client::builder()\n    .redirect(reqwest::redirect::Policy::none())\n    .build()?",
            false => "reqwest::Client::new()",
        };
        let mut lines = vec![format!(".{}({})", self.method.to_lowercase(), Value::from(self.address()))];
        if self.needs_key {
            lines.push(".bearer_auth(std::env::var(\"POSTHORN_KEY\")?)".into());
        }
        match &self.body {
            Some(Body::Json(body)) => {
                lines.push(format!(".json(&serde_json::json!({}))", indented(&written(body, RUST), "    ")));
            }
            Some(Body::Form) => {
                lines.push(format!(".multipart(reqwest::multipart::Form::new().file(\"file\", \"{FILE}\").await?)"));
            }
            Some(Body::Csv) => {
                lines.push(".header(\"Content-Type\", \"text/csv\")".into());
                lines.push(format!(".body(std::fs::read(\"{FILE}\")?)"));
            }
            None => {}
        }
        lines.push(".send()".into());
        lines.push(".await?;".into());
        let shown = if self.redirects { "answer.headers()[\"location\"]" } else { "answer.text().await?" };
        format!(
            "let answer = {client}\n    {}\nprintln!(\"{{}} {{:?}}\", answer.status(), {shown});",
            lines.join("\n    ")
        )
    }

    fn command(&self) -> String {
        let key = if self.needs_key { "" } else { " --no-key" };
        let called = format!("posthorn api {} {}", self.method, quoted(&self.path));
        let mut parts = vec![format!("{called} --url {}{key}", quoted(&self.base))];
        match &self.body {
            Some(Body::Json(body)) => parts.push(format!("--body {}", in_quotes(&body.to_string()))),
            Some(Body::Form) => parts.push(format!("--form file=@{FILE}")),
            Some(Body::Csv) => parts.push(format!("--body @{FILE} --type text/csv")),
            None => {}
        }
        parts.join(" \\\n  ")
    }
}

/// How a language writes what is not a number.
#[derive(Clone, Copy)]
pub(super) struct Words {
    null: &'static str,
    yes: &'static str,
    no: &'static str,
    text: fn(&str) -> String,
    /// Behind the last of several lines.
    trail: &'static str,
}

pub(super) const JSON: Words = Words { null: "null", yes: "true", no: "false", text: json_text, trail: "" };
const PYTHON: Words = Words { null: "None", yes: "True", no: "False", text: json_text, trail: "," };
/// It writes control characters in its own way.
const RUST: Words = Words { text: |text| format!("{text:?}"), ..JSON };

fn json_text(text: &str) -> String {
    Value::from(text).to_string()
}

/// How long a value may be that stands on one line.
const LINE: usize = 72;

/// A value in a few lines: what is short stands on one.
pub(super) fn written(value: &Value, words: Words) -> String {
    let (open, close, parts): (&str, &str, Vec<String>) = match value {
        Value::Null => return words.null.into(),
        Value::Bool(true) => return words.yes.into(),
        Value::Bool(false) => return words.no.into(),
        Value::Array(items) => ("[", "]", items.iter().map(|item| written(item, words)).collect()),
        Value::Object(fields) => {
            let pair = |(key, value): (&String, &Value)| format!("{}: {}", (words.text)(key), written(value, words));
            ("{", "}", fields.iter().map(pair).collect())
        }
        Value::String(text) => return (words.text)(text),
        Value::Number(number) => return number.to_string(),
    };
    let is_long = parts.iter().map(|part| part.len() + 2).sum::<usize>() > LINE;
    if is_long || parts.iter().any(|part| part.contains('\n')) {
        let lines = parts.join(",\n");
        return format!("{open}\n  {}{}\n{close}", indented(&lines, "  "), words.trail);
    }
    format!("{open}{}{close}", parts.join(", "))
}

fn indented(text: &str, by: &str) -> String {
    text.replace('\n', &format!("\n{by}"))
}

/// Quoted for a shell where it needs to be.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/%[]=@".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { in_quotes(word) }
}

/// Quoted for a shell.
fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call() -> Call {
        let operation = json!({
            "parameters": [
                {"name": "id", "in": "path", "required": true, "example": "a b/c"},
                {"name": "q", "in": "query", "required": true, "schema": {"type": "string", "example": "x&y"}},
                {"name": "limit", "in": "query", "schema": {"type": "integer"}},
            ],
            "security": [{"api_key": []}],
        });
        let body = json!({"name": "it's", "on": true, "none": null});
        let nothing = Value::Null;
        Call::new(Schemas::of(&nothing), "http://h", "patch", "/events/{id}", &operation, Some(body))
    }

    #[test]
    fn a_call_can_be_pasted_into_a_shell() {
        let wanted = [
            "curl -X PATCH 'http://h/events/a%20b/c?q=x%26y' \\",
            "  -H \"Authorization: Bearer $POSTHORN_KEY\" \\",
            "  -H \"Content-Type: application/json\" \\",
            r#"  -d '{"name":"it'\''s","on":true,"none":null}'"#,
        ];
        assert_eq!(call().curl(), wanted.join("\n"));
        let wanted = [
            "posthorn api PATCH '/events/a%20b/c?q=x%26y' --url http://h \\",
            r#"  --body '{"name":"it'\''s","on":true,"none":null}'"#,
        ];
        assert_eq!(call().command(), wanted.join("\n"));
    }

    #[test]
    fn a_command_says_what_it_sends_and_whether_a_key_is_needed() {
        let nothing = Value::Null;
        let command = |method, path, operation: Value| {
            Call::new(Schemas::of(&nothing), "http://h", method, path, &operation, None).command()
        };
        assert_eq!(command("get", "/readyz", json!({})), "posthorn api GET /readyz --url http://h --no-key");
        let key = json!([{"api_key": []}]);
        let form = json!({"security": key, "requestBody": {"content": {"multipart/form-data": {}}}});
        let wanted = "posthorn api POST /imports --url http://h \\\n  --form file=@contacts.csv";
        assert_eq!(command("post", "/imports", form), wanted);
        let csv = json!({"security": key, "requestBody": {"content": {"text/csv": {}}}});
        let wanted = "posthorn api POST /imports --url http://h \\\n  --body @contacts.csv --type text/csv";
        assert_eq!(command("post", "/imports", csv), wanted);
    }

    #[test]
    fn values_are_written_as_the_language_has_them() {
        let python = call().python();
        assert!(python.contains("requests.patch(\n    \"http://h/events/a%20b/c?q=x%26y\","), "{python}");
        assert!(python.contains("json={\"name\": \"it's\", \"on\": True, \"none\": None},\n"), "{python}");
        let node = call().node();
        assert!(node.contains("method: \"PATCH\"") && node.contains("\"on\": true"), "{node}");
        let rust = call().rust();
        assert!(rust.contains(".patch(\"http://h/") && rust.contains("serde_json::json!({\"name\""), "{rust}");
    }

    #[test]
    fn whatever_a_name_holds_can_be_pasted() {
        let value = json!({"event": "\u{1}it's \"so\""});
        assert_eq!(written(&value, JSON), r#"{"event": "\u0001it's \"so\""}"#);
        assert_eq!(written(&value, RUST), r#"{"event": "\u{1}it's \"so\""}"#);
        assert_eq!(quoted("/contacts/o'hara@example.com"), r"'/contacts/o'\''hara@example.com'");
    }

    #[test]
    fn what_is_long_stands_on_several_lines() {
        let value = json!({"a": [1, 2], "b": {}, "c": "x".repeat(80)});
        let wanted = format!("{{\n  \"a\": [1, 2],\n  \"b\": {{}},\n  \"c\": \"{}\"\n}}", "x".repeat(80));
        assert_eq!(written(&value, JSON), wanted);
        assert_eq!(serde_json::from_str::<Value>(&written(&value, JSON)).expect("JSON"), value);
    }
}

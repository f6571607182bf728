//! A call of an operation that can be pasted: as a command, and in the languages that most programs are written in.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::super::markdown::snippet;
use super::operation::list;
use super::schema::Schemas;
use super::text;

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
pub(super) struct Call {
    method: String,
    address: String,
    needs_key: bool,
    /// Its answer is where to go.
    redirects: bool,
    body: Option<Body>,
}

enum Body {
    Json(Value),
    /// What is sent as a form, by name.
    Form(Vec<(String, String)>),
    /// A file, under this name.
    File(&'static str),
}

impl Call {
    pub(super) fn new<'a>(
        schemas: Schemas<'a>,
        base: &str,
        method: &str,
        path: &str,
        operation: &'a Value,
        json: Option<Value>,
    ) -> Call {
        let mut address = format!("{base}{path}");
        let mut separator = '?';
        for parameter in list(&operation["parameters"]).filter(|parameter| parameter["required"] == true) {
            let name = text(&parameter["name"]);
            let value = parameter.get("example").cloned().unwrap_or_else(|| schemas.example(&parameter["schema"]));
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let value = utf8_percent_encode(&value, ENCODED).to_string();
            if parameter["in"] == "path" {
                address = address.replace(&format!("{{{name}}}"), &value);
            } else {
                address.push_str(&format!("{separator}{name}={value}"));
                separator = '&';
            }
        }
        let content = &operation["requestBody"]["content"];
        let form = || {
            let schema = content.get("application/x-www-form-urlencoded")?.get("schema")?;
            let example = schemas.example(schema);
            let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let pairs = example.as_object()?.iter().map(|(name, value)| (name.clone(), shown(value)));
            Some(Body::Form(pairs.collect()))
        };
        let file = || content.get("multipart/form-data").map(|_| Body::File("file"));
        Call {
            method: method.to_uppercase(),
            address,
            needs_key: list(&operation["security"]).any(|way| way.get("api_key").is_some()),
            redirects: operation["responses"].get("302").is_some(),
            body: json.map(Body::Json).or_else(form).or_else(file),
        }
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        let sample = |language, code| Sample { language, code };
        vec![
            sample("curl", self.curl()),
            sample("Node", self.node()),
            sample("Python", self.python()),
            sample("Rust", self.rust()),
        ]
    }

    fn curl(&self) -> String {
        let verb = match (self.method.as_str(), &self.body) {
            ("GET", _) | ("POST", Some(_)) => String::new(),
            (method, _) => format!(" -X {method}"),
        };
        let shown = if self.redirects { " -i" } else { "" };
        let mut parts = vec![format!("curl{shown}{verb} {}", quoted(&self.address))];
        if self.needs_key {
            parts.push("-H \"Authorization: Bearer $POSTHORN_KEY\"".into());
        }
        match &self.body {
            Some(Body::Json(body)) => {
                parts.push("-H \"Content-Type: application/json\"".into());
                parts.push(format!("-d '{}'", body.to_string().replace('\'', r"'\''")));
            }
            Some(Body::Form(pairs)) => {
                parts.extend(pairs.iter().map(|(name, value)| format!("-d {}", quoted(&format!("{name}={value}")))));
            }
            Some(Body::File(name)) => parts.push(format!("-F {name}=@contacts.csv")),
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
                options.push(format!("body: JSON.stringify({})", indented(&format!("{body:#}"), "  ")));
            }
            Some(Body::Form(pairs)) => {
                let pairs = serde_json::to_value(pairs).unwrap_or_default();
                options.push(format!("body: new URLSearchParams({pairs})"));
            }
            Some(Body::File(name)) => {
                before = format!(
                    "import {{ openAsBlob }} from \"node:fs\";\n\nconst form = new FormData();\n\
                     form.set(\"{name}\", await openAsBlob(\"contacts.csv\"), \"contacts.csv\");\n"
                );
                options.push("body: form".into());
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
            Value::from(self.address.as_str())
        )
    }

    fn python(&self) -> String {
        let mut arguments = vec![Value::from(self.address.as_str()).to_string()];
        if self.needs_key {
            arguments.push("headers={\"Authorization\": f\"Bearer {os.environ['POSTHORN_KEY']}\"}".into());
        }
        match &self.body {
            Some(Body::Json(body)) => arguments.push(format!("json={}", indented(&python(body, 0), "    "))),
            Some(Body::Form(pairs)) => {
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(name, value)| format!("{}: {}", Value::from(&**name), Value::from(&**value)))
                    .collect();
                arguments.push(format!("data={{{}}}", pairs.join(", ")));
            }
            Some(Body::File(name)) => arguments.push(format!("files={{\"{name}\": open(\"contacts.csv\", \"rb\")}}")),
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
        let mut lines = vec![format!(".{}({})", self.method.to_lowercase(), Value::from(self.address.as_str()))];
        if self.needs_key {
            lines.push(".bearer_auth(std::env::var(\"POSTHORN_KEY\")?)".into());
        }
        match &self.body {
            Some(Body::Json(body)) => {
                lines.push(format!(".json(&serde_json::json!({}))", indented(&format!("{body:#}"), "    ")));
            }
            Some(Body::Form(pairs)) => {
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(name, value)| format!("({}, {})", Value::from(&**name), Value::from(&**value)))
                    .collect();
                lines.push(format!(".form(&[{}])", pairs.join(", ")));
            }
            Some(Body::File(name)) => lines
                .push(format!(".multipart(reqwest::multipart::Form::new().file(\"{name}\", \"contacts.csv\").await?)")),
            None => {}
        }
        lines.push(".send()".into());
        lines.push(".await?;".into());
        let shown = if self.redirects { "answer.headers()[\"location\"]" } else { "answer.text().await?" };
        format!("let answer = {client}\n    {}\nprintln!(\"{{:?}}\", {shown});", lines.join("\n    "))
    }
}

/// JSON as Python writes it.
fn python(value: &Value, depth: usize) -> String {
    let inner = "    ".repeat(depth + 1);
    let outer = "    ".repeat(depth);
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Array(items) if !items.is_empty() => {
            let items: Vec<String> = items.iter().map(|item| format!("{inner}{}", python(item, depth + 1))).collect();
            format!("[\n{},\n{outer}]", items.join(",\n"))
        }
        Value::Object(fields) if !fields.is_empty() => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {}", Value::from(key.as_str()), python(value, depth + 1))
            };
            format!("{{\n{},\n{outer}}}", fields.iter().map(pair).collect::<Vec<_>>().join(",\n"))
        }
        other => other.to_string(),
    }
}

fn indented(text: &str, by: &str) -> String {
    text.replace('\n', &format!("\n{by}"))
}

/// Quoted for a shell where it needs to be.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/%[]=".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
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
    }

    #[test]
    fn values_are_written_as_the_language_has_them() {
        let python = call().python();
        assert!(python.contains("requests.patch(\n    \"http://h/events/a%20b/c?q=x%26y\","), "{python}");
        assert!(python.contains("\"on\": True,\n") && python.contains("\"none\": None,\n"), "{python}");
        let node = call().node();
        assert!(node.contains("method: \"PATCH\"") && node.contains("\"on\": true"), "{node}");
        let rust = call().rust();
        assert!(rust.contains(".patch(\"http://h/") && rust.contains("serde_json::json!({"), "{rust}");
    }
}

use std::thread;

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use serde_json::{Map, Value, json};

use super::{Error, Kind, MOST_OUTPUT, MOST_SOURCE, Template};

fn given(values: Value) -> Map<String, Value> {
    values.as_object().cloned().expect("an object")
}

fn rendered(source: &str, kind: Kind, values: Value) -> Result<String, Error> {
    Template::parse(source, kind)?.render(&given(values))
}

fn html(source: &str, values: Value) -> String {
    rendered(source, Kind::Html, values).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn refusal(source: &str, values: Value) -> String {
    rendered(source, Kind::Html, values).expect_err(source).to_string()
}

#[test]
fn triple_braces_name_a_value_and_a_fallback() {
    let values = json!({"FIRST_NAME": "Ada", "EMPTY": "", "NOTHING": null, "contact": {"properties": {"plan": "pro"}}});
    for (source, expected) in [
        ("Hello {{{FIRST_NAME}}}!", "Hello Ada!"),
        ("Hello {{{ FIRST_NAME | there }}}!", "Hello Ada!"),
        ("{{{EMPTY|there}}} {{{NOTHING|you}}} {{{MISSING|all}}}", "there you all"),
        ("{{{MISSING|a \"b\" \\ c|d}}}", "a &quot;b&quot; \\ c|d"),
        ("{{{MISSING|}}}.", "."),
        ("{{{contact.properties.plan|free}}} {{{contact.other.plan|free}}}", "pro free"),
        ("{% raw %}{{{FIRST_NAME}}}{% endraw %}", "{{{FIRST_NAME}}}"),
        ("{## {{{FIRST_NAME}}} ##}{{ \"{{{x}}}\" }}", "{{{x}}}"),
        ("{{{FIRST_NAME}}}}", "Ada}"),
        ("@media(max-width:9px){#main{width:100%}}{{{EMPTY}}}", "@media(max-width:9px){#main{width:100%}}"),
    ] {
        assert_eq!(html(source, values.clone()), expected, "{source}");
    }
    for (source, line, word) in [
        ("a\n\n{{{FIRST_NAME", "line 3", "}}}"),
        ("{{{}}}", "line 1", "name"),
        ("{{{1ST}}}", "line 1", "name"),
        ("{{{a b}}}", "line 1", "name"),
        ("{{{a..b}}}", "line 1", "name"),
        ("{{{true}}}", "line 1", "name"),
        ("\n{{{A|{b}}}}", "line 2", "braces"),
    ] {
        let message = refusal(source, json!({}));
        assert!(message.starts_with(line) && message.contains(word), "{source}: {message}");
    }
}

#[test]
fn values_are_escaped_in_html_and_raw_only_where_it_is_asked_for() {
    let values = json!({"NAME": "<b>\"Tom\" & 'Jo'</b>"});
    let escaped = "&lt;b&gt;&quot;Tom&quot; &amp; &#39;Jo&#39;&lt;/b&gt;";
    for source in [
        "{{{NAME}}}",
        "{{ NAME }}",
        "{{{X|<b>\"Tom\" & 'Jo'</b>}}}",
        "{{ NAME | trim }}",
        "{{ [1] | first | default(1) and NAME }}",
    ] {
        assert_eq!(html(source, values.clone()), escaped, "{source}");
    }
    let upper = html("{{ NAME | safe | upper }}", values.clone());
    assert!(!upper.contains('<'), "what is made of a raw value is escaped again: {upper}");
    assert_eq!(html("{{ NAME | safe }}", values.clone()), "<b>\"Tom\" & 'Jo'</b>");
    assert_eq!(rendered("{{ NAME }}", Kind::Text, values).expect("text"), "<b>\"Tom\" & 'Jo'</b>");
}

#[test]
fn a_line_has_no_line_ends() {
    let values = json!({"NAME": "Ada\r\nBcc: x@example.com\n"});
    assert_eq!(rendered("Hi {{{NAME}}}\t!\n", Kind::Line, values).expect("line"), "Hi Ada Bcc: x@example.com  !");
}

#[test]
fn conditions_loops_and_filters_do_what_they_say() {
    let values = json!({
        "items": [{"name": "Pen", "price": 1.5, "count": 2}, {"name": "Ink & paper", "price": 10, "count": 1}],
        "plan": "pro", "n": 3, "yes": true, "tags": ["a", "b"],
    });
    for (source, expected) in [
        (
            "{% for i in items %}{{ loop.index }}:{{ i.name }}={{ i.price | times(i.count) | decimals(2) }};{% endfor %}",
            "1:Pen=3.00;2:Ink &amp; paper=10.00;",
        ),
        ("{% for i in items if i.count > 1 %}{{ i.name }}{% else %}none{% endfor %}", "Pen"),
        ("{% for i in missing %}x{% else %}none{% endfor %}", "none"),
        ("{% if plan == 'pro' and n >= 3 %}a{% elif yes %}b{% else %}c{% endif %}", "a"),
        ("{% if plan in ['free', 'trial'] %}a{% else %}b{% endif %}", "b"),
        ("{% if coupon %}a{% endif %}{% if coupon is defined %}b{% endif %}.", "."),
        ("{% set total = n | plus(4) %}{{ total }} {{ n - 1 }} {{ n / 2 }} {{ n % 2 }}", "7 2 1.5 1"),
        ("{% with x = plan | upper %}{{ x }}{% endwith %}", "PRO"),
        ("{{ tags | join(', ') }} {{ tags | length }} {{ tags | first }} {{ tags | reverse | last }}", "a, b 2 a a"),
        (
            "{{ 'ada lovelace' | capitalize }} {{ 'über' | truncate(2) }} {{ 'a b&c' | urlencode }}",
            "Ada lovelace üb… a%20b%26c",
        ),
        ("{{ 2.345 | round(2) }} {{ 'a-b' | replace('-', '+') }} {{ yes }}", "2.35 a+b true"),
        ("{{ items[0].name }} {{ tags.1 }}", "Pen b"),
    ] {
        assert_eq!(html(source, values.clone()), expected, "{source}");
    }
}

#[test]
fn a_variable_without_a_value_is_named_with_its_line() {
    let values = json!({"A": "a", "items": [{"name": "x"}], "contact": {"email": "a@b.c"}});
    for (source, line, name) in [
        ("{{ A }}\n{{ A }} {{{ORDER_ID}}}", "line 2", "ORDER_ID"),
        ("{{ contact.email }}{{ contact.company.name }}", "line 1", "contact.company.name"),
        ("{% for item in items %}\n{{ item.name }}{{ MISSING }}\n{% endfor %}", "line 2", "MISSING"),
        ("{% for item in items %}\n{{ item.price }}\n{% endfor %}", "line 2", "item.price"),
        ("{{ MISSING | upper }}", "line 1", "MISSING"),
        ("{{ A | replace('a', MISSING | trim) }}", "line 1", "MISSING"),
    ] {
        let error = rendered(source, Kind::Html, values.clone()).expect_err(source);
        assert_eq!(error.missing(), Some(name), "{source}: {error}");
        assert!(error.to_string().starts_with(line) && error.to_string().contains(name), "{source}: {error}");
    }
    assert!(refusal("{{ items }}", values.clone()).contains("cannot be written as text"));
    assert!(refusal("{{ A - 1 }}", values).starts_with("line 1"));
}

#[test]
fn the_keys_are_the_names_that_come_from_outside() {
    let source = "{{{B|x}}}{{ a.b.c }}{% for i in list %}{{ i.x }}{{ loop.index }}{{ A }}{% endfor %}{% set s = A %}{{ s }}\
                  {{ x | default(y) }}";
    let template = Template::parse(source, Kind::Html).expect("a template");
    assert_eq!(template.keys().collect::<Vec<_>>(), ["A", "B", "a", "list", "x", "y"]);
}

#[test]
fn what_could_grow_without_bounds_is_refused_when_it_is_read() {
    for source in [
        "{{ 'x' * 100000000 }}",
        "{{ a + a }}",
        "{{ a ~ a }}",
        "{{ 2 ** 8 }}",
        "{% for b in [a, a] %}{% endfor %}",
        "{% for b in (a, a) %}{% endfor %}",
        "{{ {'a': 1} }}",
        "{% set x %}text{% endset %}",
        "{% filter upper %}text{% endfilter %}",
        "{% autoescape false %}x{% endautoescape %}",
        "{% for a in b recursive %}{{ loop(a) }}{% endfor %}",
        "{{ range(1000000) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}",
        "{% include 'x' %}",
        "{% extends 'x' %}",
        "{% import 'x' as y %}",
        "{% do x %}",
        "{{ a[::-1] }}",
        "{{ a | indent(9) }}",
        "{{ a is even }}",
        "{{ a | join(*b) }}",
        "{{ a | truncate(most=3) }}",
        "{% set a.b = 1 %}",
    ] {
        let message = Template::parse(source, Kind::Html).err().unwrap_or_else(|| panic!("{source}")).to_string();
        assert!(message.starts_with("line 1: "), "{source}: {message}");
    }
    let long = "x".repeat(MOST_SOURCE + 1);
    assert!(Template::parse(&long, Kind::Html).is_err());
    assert!(Template::parse(&long[..MOST_SOURCE], Kind::Html).is_ok());
}

#[test]
fn what_is_little_but_braces_is_refused_before_it_takes_memory() {
    let parsed = |count: usize| Template::parse(&"{{a}}".repeat(count), Kind::Html);
    assert!(parsed(33_000).is_ok());
    let message = parsed(34_000).err().expect("a refusal").to_string();
    assert!(message.contains("more than 100000 words, signs and pieces of text"), "{message}");
}

/// On a thread as small as those that answer requests.
#[test]
fn what_is_nested_deeply_is_refused_and_does_not_overflow_the_stack() {
    let sources = [
        format!("{{{{ {}a }}}}", "not ".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("{{{{ 1{} }}}}", " - 1".repeat(100_000)),
        format!("{{{{ a{} }}}}", ".b".repeat(100_000)),
        format!("{{{{ a{} }}}}", "|upper".repeat(100_000)),
        format!("{{{{ {}a{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{{{{ {} }}}}", "[".repeat(100_000)),
        format!("{{{{ {}a }}}}", "a if b else ".repeat(10_000)),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(10_000)),
        "{% if a %}".repeat(10_000),
        format!("{}{}", "{% if a %}".repeat(1_000), "{% endif %}".repeat(1_000)),
    ];
    for source in sources {
        let head = source[..40].to_owned();
        let small = thread::Builder::new().stack_size(2 << 20);
        let read = small.spawn(move || Template::parse(&source, Kind::Html).is_ok()).expect("a thread");
        assert!(!read.join().expect("no overflow"), "{head}");
    }
    // Just within the bounds.
    let widest = [
        format!("{{{{ {}a }}}}", "not ".repeat(190)),
        format!("{{{{ {}1 }}}}", "-".repeat(190)),
        format!("{{{{ a{} }}}}", "|upper".repeat(90)),
        format!("{{{{ {}a }}}}", "a if b else ".repeat(45)),
        format!("{{% if b %}}{}{{% endif %}}", "{% elif b %}".repeat(100)),
        format!("{}{}", "{% if a %}".repeat(100), "{% endif %}".repeat(100)),
    ];
    for source in widest {
        let small = thread::Builder::new().stack_size(2 << 20);
        let values = json!({"a": "x", "b": false});
        small.spawn(move || html(&source, values)).expect("a thread").join().expect("no overflow");
    }
}

#[test]
fn time_memory_and_output_are_bounded() {
    let list: Vec<u32> = (0..1_000).collect();
    let looped = "{% for a in list %}{% for b in list %}{% for c in list %}{% endfor %}{% endfor %}{% endfor %}";
    assert!(refusal(looped, json!({"list": list})).contains("too many steps"));
    let long = json!({"text": "x".repeat(200_000), "list": list});
    assert!(refusal("{% for a in list %}{{ text }}{% endfor %}", long.clone()).contains("longer than 2048 KiB"));
    assert!(refusal("{% for a in list %}{% set x = text | upper %}{% endfor %}", long.clone()).contains("8 MiB"));
    let doubled = "{% set a = list | join(text) %}";
    assert!(refusal(doubled, long).contains("8 MiB"));
    assert!(
        refusal("{{ a | replace('x', a) | replace('x', a) | replace('x', a) }}", json!({"a": "x".repeat(1000)}))
            .contains("8 MiB")
    );
    let line = rendered("{{ a }}", Kind::Line, json!({"a": "x".repeat(20_000)})).expect_err("too long");
    assert!(line.to_string().contains("longer than 16 KiB"), "{line}");
}

#[test]
fn values_are_bounded_where_they_are_used() {
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    assert!(refusal("{{ a.b }}", json!({"a": deep})).contains("nested"));
    assert!(refusal("{{ a.b }}", json!({"a": vec![1; 10_001]})).contains("too large"));
    assert!(refusal("{{ a.b }}", json!({"a": "x".repeat(300_000)})).contains("too large"));
    assert_eq!(html("b", json!({"a": "x".repeat(300_000)})), "b", "what is not used costs nothing");
}

/// In the documentation stand a template, its values, and what comes of them, one behind the other.
#[test]
fn the_documentation_shows_what_happens() {
    let text = include_str!("../../docs/templates.md");
    let parts: Vec<(&str, &str)> =
        text.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect();
    let mut shown = 0;
    for three in parts.windows(3) {
        let [("html", source), ("json", values), ("text", expected)] = three else { continue };
        let values = serde_json::from_str(values).expect(values);
        assert_eq!(html(source, values), *expected, "{source}");
        shown += 1;
    }
    let count = |wanted: &str| parts.iter().filter(|(kind, _)| *kind == wanted).count();
    assert_eq!(["html", "json", "text"].map(count), [shown; 3], "none stands alone");
    assert!(shown >= 4, "{shown} examples");
}

fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "{{ A }}",
        "{{{A}}}",
        "{{{B|x}}}",
        "{{ L | join(A) }}",
        "{% for i in L %}",
        "{{ i }}",
        "{% endfor %}",
        "{% if A %}",
        "{% else %}",
        "{% endif %}",
        "{{ A | safe }}",
        "{% set A = A | upper %}",
        "{{ A | replace('a', A) }}",
        "<p>",
        "\n",
        "{{",
        "}}",
        "{%",
        "%}",
        "{{{",
        "}}}",
        "{##",
        "##}",
        "|",
        "\"",
        "'",
        "{% raw %}",
        "{% endraw %}",
    ];
    prop::sample::select(pieces.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn property_any_text_without_braces_is_left_as_it_is(source in "[^{\u{0}]{0,200}") {
        prop_assert_eq!(rendered(&source, Kind::Html, json!({})), Ok(source.clone()));
    }

    #[test]
    fn property_a_value_is_escaped_whatever_it_holds(value in any::<String>()) {
        let escaped = html("{{{A}}}", json!({"A": value}));
        prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
        let back = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
        prop_assert_eq!(back.replace("&amp;", "&"), value.replace('\0', ""));
    }

    #[test]
    fn property_nothing_panics_or_grows_beyond_its_bounds(pieces in prop::collection::vec(piece(), 0..12), value in ".{0,40}") {
        let source = pieces.concat();
        let values = json!({"A": value, "L": [value, "b", 3]});
        for kind in [Kind::Html, Kind::Text, Kind::Line] {
            match rendered(&source, kind, values.clone()) {
                Ok(text) => prop_assert!(text.len() <= MOST_OUTPUT && (kind != Kind::Line || !text.contains('\n'))),
                Err(error) => prop_assert!(!error.to_string().contains(char::is_control)),
            }
        }
    }
}

#!/usr/bin/env python3
"""The API's types, as others make them of its description.

    tests/clients/types/check.py BASE_URL NODE_MODULES

Makes TypeScript of the description with openapi-typescript, and has `tsc --strict` read every request of the
documentation (the reference, README.md and docs/) as well as requests that are wrong, which it must refuse. Redocly
must find nothing to complain about, by the rules of redocly.yaml.
"""

import html
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fences import ROOT, fenced, texts

HEAD = """import type { components, paths } from "./api";
type Schemas = components["schemas"];
type Body<P extends keyof paths, M extends keyof paths[P]> =
    paths[P][M] extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;
"""

TRIGGER = {"key": "a", "type": "trigger", "config": {"event_name": "e"}}
RULE = {"type": "rule", "field": "event.a", "operator": "gt", "value": 1}

# What a program shall not be able to say: the type, and a value that is not one.
WRONG = [
    ('Schemas["AutomationStep"]', TRIGGER | {"type": "triger"}),
    ('Schemas["AutomationStep"]', TRIGGER | {"config": {"eventName": "e"}}),
    ('Schemas["AutomationStep"]', {"key": "a", "type": "delay", "config": {}}),
    ('Schemas["AutomationStep"]', {"key": "a", "type": "webhook", "config": {"duration": "1 day"}}),
    ('Schemas["Rule"]', RULE | {"operator": "greater"}),
    ('Schemas["Rule"]', RULE | {"value": "1"}),
    ('Schemas["Rule"]', {"type": "and", "rules": [RULE | {"type": "not"}]}),
    ('Schemas["SegmentFilter"]', RULE | {"field": "contact.a", "operator": "like"}),
    ('Body<"/automations", "post">', {"name": "x", "status": "on", "steps": [TRIGGER], "connections": []}),
    ('Body<"/automations", "post">', {"name": "x", "steps": [TRIGGER]}),
    ('Body<"/events", "post">', {"name": "x", "schema": {"a": "text"}}),
    ('Body<"/events/send", "post">', {"event": "x", "email": "a@b.example", "payLoad": {}}),
]

# What the documentation shows because it is refused, where types can tell.
REFUSED = [
    {"name": "order.placed", "schema": {"total": "money"}},
    {"name": "order.paid", "schema": {"total": "money"}},
    {"name": "order.paid", "shcema": {"total": "number"}},
]

# What it shall be able to say, beside what the documentation shows.
RIGHT = [
    ('Schemas["AutomationStep"]', {"key": "a", "type": "condition", "config": {"type": "or", "rules": [RULE, RULE]}}),
    ('Schemas["AutomationStep"]', {"key": "a", "type": "exit"}),
    ('Body<"/events/send", "post">', {"event": "x", "email": "a@b.example", "payload": {"any": ["thing", 1, None]}}),
    ('Body<"/contacts", "post">', {"email": "a@b.example", "properties": {"plan": "pro"}}),
]


def main():
    base, modules = sys.argv[1], Path(sys.argv[2])
    description = json.loads(fetch(f"{base}/openapi.json"))
    shown = list(documented(description, base))
    requests = [one for one in shown if one[1] not in REFUSED]
    wrong = WRONG + [one for one in shown if one[1] in REFUSED]
    assert len(wrong) == len(WRONG) + len(REFUSED), "a request that is refused is not shown any more"
    assert len(requests) > 90, f"only {len(requests)} requests were found in the documentation"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        # A server that others reach, which is where the description is published.
        published = description | {"servers": [{"url": "https://posthorn.invalid"}]}
        (folder / "openapi.json").write_text(json.dumps(published))
        run(modules, "openapi-typescript", "openapi.json", "-o", "api.ts", cwd=folder)
        lines = [f"const right{at}: {kind} = {json.dumps(value)};" for at, (kind, value) in enumerate(RIGHT + requests)]
        for at, (kind, value) in enumerate(wrong):
            lines += ["// @ts-expect-error", f"const wrong{at}: {kind} = {json.dumps(value)};"]
        (folder / "requests.ts").write_text(HEAD + "\n".join(lines) + "\nexport {};\n")
        run(modules, "tsc", "--strict", "--noEmit", "--skipLibCheck", "requests.ts", cwd=folder)
        lint(modules, folder)
    print(f"{len(requests)} documented requests fit the types, {len(wrong)} wrong ones do not; Redocly complains of nothing")


def lint(modules, folder):
    rules = Path(__file__).resolve().parent / "redocly.yaml"
    said = run(modules, "redocly", "lint", "openapi.json", f"--config={rules}", "--format=json", cwd=folder)
    found = json.loads(said[said.index("{") :])
    assert not found["problems"], json.dumps(found["problems"], indent=1)
    assert not any(found["totals"].values()), f"nothing is to be passed over either: {found['totals']}"


def documented(description, base):
    """Every request with a JSON body in the documentation, with the type of its body."""
    paths = sorted(set(re.findall(r'href="(/docs/api/[^"#]+)"', fetch(f"{base}/docs"))))
    page = "".join(fetch(f"{base}{path}") for path in paths)
    blocks = [html.unescape(re.sub(r"<[^>]+>", "", block)) for block in re.findall(r"<pre.*?</pre>", page, re.S)]
    for name in texts():
        blocks += [code for kind, code in fenced((ROOT / name).read_text()) if kind in ("sh", "sh error")]
    for block in blocks:
        for command in commands(block):
            found = request(shlex.split(command))
            if found:
                method, path, body = found
                yield f"Body<{json.dumps(route(description, path, method))}, {json.dumps(method)}>", body


def commands(text):
    """Every call of curl in the text of a shell, to its end: what ends it may stand within quotes."""
    return re.findall(r"""\bcurl\s(?:[^'"\\\n|;)]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*""", text.replace("\\\n", " "))


def request(words):
    """Method, path and body of a call; None where it has no body in JSON."""
    if not any(word.lower() == "content-type: application/json" for word in words):
        return None
    behind = {word: words[at + 1] for at, word in enumerate(words[:-1])}
    body = json.loads(behind["-d"])
    address = next(word for word in words if re.match(r"https?://|\$", word))
    path = re.sub(r"^(https?://[^/]+|\$\{?\w+\}?)", "", address).split("?")[0]
    return behind.get("-X", "POST").lower(), path, body


def route(description, path, method):
    """The path of the description that a path is about: the one with the fewest parameters."""

    def fits(route):
        pattern = "/".join("[^/]+" if part.startswith("{") else re.escape(part) for part in route.split("/"))
        return method in description["paths"][route] and re.fullmatch(pattern, path)

    return min(filter(fits, description["paths"]), key=lambda route: route.count("{"))


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def run(modules, program, *words, cwd):
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}
    done = subprocess.run([modules / ".bin" / program, *words], cwd=cwd, env=os.environ | quiet, capture_output=True, text=True)
    if done.returncode != 0 and program != "redocly":
        sys.exit(f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()

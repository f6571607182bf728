"""Every block of code in README.md and docs/, as a reader would paste it, against the started binary.

Blocks of `sh` run one after the other in one shell for each text; every curl among them must succeed, and those of
`sh error` must be refused. Guides are taken from the server, so the addresses in them are its own; in other texts,
names of hosts, ports and folders that only their writer has are replaced by those of this test. What a reader does
between two blocks, or has before the first, is done here. What cannot be run is in NOT_RUN, with the reason.
"""

import functools
import json
import re
import subprocess
import tempfile
from pathlib import Path

from clients.installed import node_22, node_modules, venv
from fences import ROOT, fenced, texts
from programs import IN_TEXTS, signed, signed_in_env
from samples import environment
from server import binary, clean_env, free_port, serving

PERSON = Path(__file__).resolve().parent.parent / "person.py"
OWNER = ("owner@example.com", "correct horse battery staple")
LIMIT = 120  # seconds for the shell of one text

# curl as the texts call it, but loud: what is refused ends the shell, or must not succeed. A server that a text
# starts must come up, and is stopped again.
PRELUDE = """
set -e -u -o pipefail
curl() { command curl --silent --show-error --fail-with-body "$@"; }
echo() { LAST="$*"; builtin echo "$@"; }
approve() { "$PERSON" "$LAST" | sed 's/.*[?&]code=\\([^&]*\\).*/\\1/'; }
cargo() {
  [ "$1 $2 $3" = "run --release --" ] || { echo "cargo $* is not run" >&2; exit 1; }
  posthorn "${@:4}"
}
posthorn() {
  if [ "$1" != serve ]; then command posthorn "$@"; return; fi
  local server at
  env -u POSTHORN_DATABASE_URL -u POSTHORN_BASE_URL "POSTHORN_LISTEN=127.0.0.1:$SERVE_PORT" \\
    "POSTHORN_DATA_DIR=${SERVED:-$(mktemp -d -p "$PWD")}" posthorn "$@" >serve.log 2>&1 &
  server=$!
  for at in $(seq 300); do
    ! command curl --silent --fail --output /dev/null "http://127.0.0.1:$SERVE_PORT/readyz" || break
    kill -0 $server || { cat serve.log >&2; exit 1; }
    sleep 0.1
  done
  kill $server
  wait $server
}
"""
REFUSED = """
curl() {
  local status
  status=$(command curl --silent --show-error --output /dev/stderr --write-out '%{http_code}' "$@")
  [ "$status" -ge 400 ] || { echo "it was not refused: $status" >&2; exit 1; }
}
"""

# What a reader has, or does, before a block: by the text, and by how the block begins.
BEFORE = {
    ("docs/guides/oauth.md", "TOKENS=$(curl"): "CODE=$(approve)",
    ("docs/erasing.md", "curl"): """
for name in ada grace; do
  command curl --silent "$BASE/contacts" -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
    -d "{\\"email\\":\\"$name@example.com\\"}"
done""",
    ("docs/segments.md", "curl"): """
curl "$BASE/contact-properties" -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
  -d '{"key":"plan","type":"string"}'""",
    ("docs/templates.md", "curl"): """
command curl --silent -X DELETE "$BASE/templates/order" -H "Authorization: Bearer $KEY" """,
    ("docs/operations.md", "posthorn backup"): """
mkdir backups
unset POSTHORN_DATABASE_URL
export POSTHORN_DATA_DIR=$PWD/store
posthorn migrate""",
    ("docs/operations.md", "posthorn restore"): "export POSTHORN_DATA_DIR=$PWD/restored SERVED=$PWD/restored",
}

# What the blocks of a text print, where that can be told beforehand.
PRINTED = {"docs/webhooks.md": lambda env: env["SIGNATURE"].rpartition("v1,")[2]}

# Blocks that are not run, by the text and by how they begin, and why.
NOT_RUN = {
    ("README.md", "cargo run --release    #"): "builds Posthorn and runs all tests, of which this is one",
    ("docs/domains.md", "accepted  "): "tells what a mail server elsewhere answered",
    ("docs/operations.md", "useradd"): "makes a user of the system",
    ("docs/operations.md", "mail.example.com {"): "is for Caddy, which is not here",
    ("docs/operations.md", "posthorn serve --database-url 'postgres://posthorn:secret@db.example.com"): (
        "names a database of somebody else; the tests of faults start servers on PostgreSQL"
    ),
    ("docs/operations.md", "posthorn serve --database-url 'postgres://posthorn:secret@db1"): (
        "names two databases of somebody else; the tests of faults let one take over from the other"
    ),
    ("docs/operations.md", 'posthorn hold --reason "nightly dump" && pg_dump …'): "leaves out what pg_dump is given",
    ("docs/operations.md", "ok      settings"): "tells what the doctor found on somebody else's machine",
}

# Blocks that another test runs: by the text and their kinds, and that test.
ELSEWHERE = {("docs/templates.md", ("html", "json", "text")): "src/render/tests.rs"}


def check(engine, only=()):
    """Runs the blocks of all texts, or of those named; returns what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, submission = make_certificate(folder), free_port()
        with serving(engine, "--submission-listen", f"127.0.0.1:{submission}", *certificate) as server:
            checker = Checker(server, Path(folder), submission)
            problems = [f"{name} on {engine}: {problem}" for name in only or texts() for problem in checker.check(name)]
    return problems + list(stale())


def make_certificate(folder):
    """What a reader has from Let's Encrypt, as the settings that name it."""
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mail.example.com"
    key, certificate = f"{folder}/privkey.pem", f"{folder}/fullchain.pem"
    subprocess.run([*make.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return "--submission-cert", certificate, "--submission-key", key


def stale():
    """Entries of the lists above that are about nothing."""
    known = {name: [code for _, code in fenced((ROOT / name).read_text())] for name in texts()}
    for name, start in [*NOT_RUN, *BEFORE]:
        if not any(code.startswith(start) for code in known.get(name, ())):
            yield f"no block of {name} begins with {start!r}"
    for name in PRINTED.keys() - known.keys():
        yield f"there is no {name}"
    for (name, _), test in ELSEWHERE.items():
        if name not in (ROOT / test).read_text():
            yield f"{test} does not read {name}"


class Checker:
    """Tries what texts show: with a server, a key, and the commands that they name."""

    def __init__(self, server, folder, submission):
        self.server, self.folder, self.submission = server, folder, submission
        self.key = server.create_key()
        server.create_user(*OWNER)

    @functools.cached_property
    def description(self):
        return json.loads(self.server.ask("GET", "/openapi.json")[2])

    def read(self, name):
        """A text with what its reader has in place of what its writer had."""
        if name.startswith("docs/guides/"):
            address = f"/docs/{Path(name).stem}.md"
            status, _, body = self.server.ask("GET", address)
            assert status == 200, f"{address} is {status}"
            return body.decode()
        text = (ROOT / name).read_text()
        for theirs, ours in (
            ("http://127.0.0.1:8080", self.server.base),
            ("/etc/letsencrypt/live/mail.example.com", str(self.folder)),
            ("mail.example.com:587", f"127.0.0.1:{self.submission}"),
            ("--auth-password re_…", f"--auth-password {self.key}"),
            (" /backups/", " backups/"),
            ("CODE=paste-the-code-here", "CODE=$(approve)"),
        ):
            text = text.replace(theirs, ours)
        # Ports below 1024 are not everybody's, and others may be taken.
        return re.sub(r"0\.0\.0\.0:\d+", lambda _: f"127.0.0.1:{free_port()}", text)

    def check(self, name):
        blocks, problems, ran = fenced(self.read(name)), [], 0
        with tempfile.TemporaryDirectory() as folder:
            env = environment(self.server, self.key, folder) | signed_in_env() | {
                "BASE": self.server.base,
                "KEY": self.key,
                "RESEND_API_KEY": self.key,
                "RESEND_API_URL": self.server.base,
                "RESEND_BASE_URL": self.server.base,
                "PERSON": str(PERSON),
                "PERSON_EMAIL": OWNER[0],
                "PERSON_PASSWORD": OWNER[1],
                "SERVE_PORT": str(free_port()),
            }
            shell = [PRELUDE]
            for kind, code in blocks:
                reason = first(NOT_RUN, name, code)
                if reason is not None:
                    print(f"{name}: not run, because it {reason}: {code.splitlines()[0]}", flush=True)
                    continue
                ran += 1
                if kind in ("sh", "sh error"):
                    before = first(BEFORE, name, code) or ""
                    shell.append(f"{before}\n{code}" if kind == "sh" else f"(\n{REFUSED}\n{code})\n")
                elif not any(name == text and kind in kinds for text, kinds in ELSEWHERE):
                    problems += KINDS.get(kind, unknown)(self, code, env, Path(folder))
            if len(shell) > 1:
                run = started(["bash", "-c", "\n".join(shell)], env, folder)
                problems += told(run)
                if name in PRINTED and PRINTED[name](env) not in run.stdout:
                    problems.append(f"{PRINTED[name](env)} is not in {run.stdout}")
        if blocks:
            print(f"{name}: {ran} of {len(blocks)} blocks", flush=True)
        return problems

    def ask(self, method, path, body):
        return self.server.ask(method, path, body, {"Authorization": f"Bearer {self.key}"})


def first(known, name, code):
    return next((value for (text, start), value in known.items() if text == name and code.startswith(start)), None)


def started(command, env, folder):
    command = list(map(str, command))
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, timeout=LIMIT)


def told(run):
    if run.returncode == 0:
        return []
    return [f"{run.args[0]} ended with {run.returncode}\n{run.stdout[-600:]}\n{run.stderr[-900:]}"]


def unknown(checker, code, env, folder):
    return [f"nothing runs this block:\n{code}"]


# ---- by their kinds --------------------------------------------------------


def read_json(checker, code, env, folder):
    """JSON, of what it shows: a rule that automations take, an error or a page of a list as the API answers them, or
    an event that webhooks may listen to."""
    try:
        value = json.loads(code)
    except ValueError as problem:
        return [f"{problem} in {code}"]
    match value:
        case {"type": "rule" | "and" | "or"}:
            return is_taken_as_rule(checker, value)
        case {"statusCode": _}:
            return fits(value, {"$ref": "#/components/schemas/Error"}, checker.description, folder)
        case {"object": "list"}:
            # What stands in the list is shortened there.
            page = checker.description["components"]["schemas"]["List_ListedContact"]
            page = page | {"properties": page["properties"] | {"data": {"type": "array"}}}
            return fits(value, page, checker.description, folder)
        case {"type": kind, "data": _}:
            events = checker.description["components"]["schemas"]["NewWebhook"]["properties"]["events"]
            return fits([kind], events, checker.description, folder)
        case _:
            return []


def is_taken_as_rule(checker, rule):
    steps = [{"key": "start", "type": "trigger", "config": {"event_name": "e"}}, {"key": "if", "type": "condition", "config": rule}]
    graph = {"name": "Example", "steps": steps, "connections": [{"from": "start", "to": "if"}]}
    status, _, answer = checker.ask("POST", "/automations/validate", graph)
    told = json.loads(answer)
    return [] if status == 200 and told.get("valid") else [f"a rule is refused: {told}"]


def fits(value, schema, description, folder):
    """What a value lacks to be what the description says it is."""
    asked = json.dumps([schema | {"components": description["components"]}, value])
    code = f"import json, jsonschema_rs\nschema, value = json.loads({asked!r})\njsonschema_rs.validate(schema, value)"
    (folder / "fits.py").write_text(code)
    return told(started([venv("python"), folder / "fits.py"], clean_env(), folder))


def run_python(checker, code, env, folder):
    """What sends is run as it is; what verifies is tried on a delivery, and on others that are none."""
    secret, headers, body = signed()
    if "def verify" in code:
        code += (
            f"\nassert verify({secret!r}, {headers!r}, {body.encode()!r})"
            f"\nassert not verify({secret!r}, {headers!r}, b'other')"
            f"\nassert not verify({secret!r}, {headers!r} | {{'webhook-timestamp': '1'}}, {body.encode()!r})\n"
        )
    elif "Webhooks.verify" in code:
        older = {name.replace("webhook", "svix"): value for name, value in headers.items()}
        given = f"import resend\nsecret, headers, body = {(secret, older, body)!r}\n"
        again = f"try:\n{indented(code)}\nexcept ValueError:\n    pass\nelse:\n    raise SystemExit(1)\n"
        code = f"{given}{code}\nbody = 'other'\n{again}"
    return told(started([venv("python"), "-c", code], env, folder))


def indented(code):
    return "\n".join(f"    {line}" for line in code.rstrip().splitlines())


def run_node(checker, code, env, folder):
    """The same; what sends would only print what was refused, so that is made a failure."""
    prints = "console.log(error ?? data.id)"
    secret, headers, body = map(json.dumps, signed())
    if "export function verify" in code:
        code += (
            f"\nif (!verify({secret}, {headers}, {body})) throw new Error('a good signature is refused');"
            f"\nif (verify({secret}, {headers}, 'other')) throw new Error('another body is taken');"
            f"\nconst old = {{...{headers}, 'webhook-timestamp': '1'}};"
            f"\nif (verify({secret}, old, {body})) throw new Error('an old one is taken');\n"
        )
    elif "webhooks.verify" in code:
        code = (
            'import { Resend } from "resend";\nconst resend = new Resend(process.env.RESEND_API_KEY);\n'
            f"const secret = {secret}, headers = {headers};\nfunction taken(body) {{\n{code}\nreturn event;\n}}\n"
            f"if (taken({body}).type !== 'email.sent') throw new Error('a good signature is refused');\n"
            "let refused = false;\ntry { taken('{}'); } catch { refused = true; }\n"
            "if (!refused) throw new Error('another body is taken');\n"
        )
    elif prints in code:
        code = code.replace(prints, "if (error) throw new Error(error.message)")
    else:
        return unknown(checker, code, env, folder)
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(node_modules())
    (folder / "example.mjs").write_text(code)
    return told(started([node_22(), "example.mjs"], env, folder))


def run_php(checker, code, env, folder):
    calls = """
$headers = ['webhook-id' => getenv('ID'), 'webhook-timestamp' => getenv('TIMESTAMP'),
    'webhook-signature' => getenv('SIGNATURE')];
$old = ['webhook-timestamp' => '1'] + $headers;
[$secret, $body] = [getenv('SECRET'), getenv('BODY')];
exit(verify($secret, $headers, $body) && !verify($secret, $headers, 'other') && !verify($secret, $old, $body) ? 0 : 1);
"""
    return told(started(["php", "-r", code + calls], env, folder))


def in_rust(checker, code, env, folder):
    """`programs.py` compiles what it knows, together with all examples in Rust, and tries it on a delivery."""
    return [] if code in IN_TEXTS else unknown(checker, code, env, folder)


def preview(checker, code, env, folder):
    """A template that can be read, and that something comes of."""
    fields = {"name": "Example", "from": "Acme <hello@acme.example>", "subject": "Hello", "html": code}
    status, _, answer = checker.ask("POST", "/templates", fields)
    if status != 201:
        return [f"a template is refused: {status} {answer}: {code}"]
    address = f"/templates/{json.loads(answer)['id']}/preview"
    values = {"plan": "pro", "seats": 2, "items": [{"name": "Pen"}, {"name": "Ink"}]}
    status, _, answer = checker.ask("POST", address, {"variables": values})
    if status != 200 or "Your team" not in answer.decode() or "2. Ink" not in answer.decode():
        return [f"a preview: {status} {answer}"]
    return []


def push(checker, code, env, folder):
    """A template as a file, with the head that is shown."""
    place = folder / "templates"
    place.mkdir()
    (place / "order.html").write_text(code)
    return told(started(["posthorn", "templates", "push", place], env, folder))


def read_unit(checker, code, env, folder):
    """A unit of systemd: sections of settings, of which those for Posthorn are some that it knows."""
    known = subprocess.run([binary(), "serve", "--help"], capture_output=True, text=True, env=clean_env()).stdout
    problems = []
    for line in code.splitlines():
        if line and not re.fullmatch(r"#.*|\[\w+\]|\w+=\S.*", line):
            problems.append(f"{line!r} is no line of a unit")
        for variable in re.findall(r"POSTHORN_\w+", line):
            if variable not in known:
                problems.append(f"Posthorn knows no {variable}")
    return problems


def read_nginx(checker, code, env, folder):
    """Blocks that are closed, and settings that end, for the address that Posthorn listens on."""
    lines = [line.strip() for line in code.splitlines()]
    wrong = [line for line in lines if not re.fullmatch(r"\w+( [^;{}]+)?;|[\w]+ [^;{}]+ \{|\}", line)]
    problems = [f"{line!r} is no line for nginx" for line in wrong]
    if code.count("{") != code.count("}"):
        problems.append("a block is not closed")
    if f"proxy_pass {checker.server.base};" not in code:
        problems.append("it does not lead to Posthorn")
    return problems


KINDS = {
    "json": read_json,
    "python": run_python,
    "js": run_node,
    "php": run_php,
    "rust": in_rust,
    "text": preview,
    "": push,
    "ini": read_unit,
    "nginx": read_nginx,
}

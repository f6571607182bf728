"""Every command of the vendor's command line, once. What there is is what `resend commands` prints.

Started by ../run, which sets RESEND_BASE_URL, RESEND_API_KEY, RESEND_CLI, NODE and METHODS, the file that takes
what came of each: null, or what went wrong. The browser that commands open is `xdg-open` on their PATH, which
does nothing; the list of releases that `update` reads at GitHub is a file that Node loads before it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
os.environ.setdefault("RESEND_API_URL", os.environ["RESEND_BASE_URL"])

from grant import grant

# What is not run, and why.
LEFT_OUT = {
    "careers": "asks for open positions at the vendor, and applies for them; no other server has any",
    "domains claim": "moves a domain between accounts of the vendor; the API has no such claims here",
}
NOBODY = str(uuid.uuid4())
LIMIT = 60  # seconds for one command

folder = tempfile.TemporaryDirectory(prefix="posthorn-cli-")
HOME = Path(folder.name)
ENV = {name: value for name, value in os.environ.items() if name not in ("CI", "GITHUB_ACTIONS")} | {
    "HOME": str(HOME),
    "XDG_CONFIG_HOME": str(HOME),
    "RESEND_CREDENTIAL_STORE": "file",
    "RESEND_TELEMETRY_DISABLED": "1",
    "DO_NOT_TRACK": "1",
    "RESEND_NO_UPDATE_NOTIFIER": "1",
    "PATH": f"{HOME}:{os.environ['PATH']}",
}
(HOME / "xdg-open").write_text("#!/bin/sh\n")
(HOME / "xdg-open").chmod(0o755)

RELEASES = """
const { fetch } = globalThis;
globalThis.fetch = (address, ...rest) =>
  String(address) === 'https://api.github.com/repos/resend/resend-cli/releases/latest'
    ? Promise.resolve(Response.json({ tag_name: 'v999.0.0' }))
    : fetch(address, ...rest);
"""


def run(*arguments, env=ENV):
    command = [os.environ["NODE"], os.environ["RESEND_CLI"], *arguments]
    return subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, cwd=HOME
    )


def commands():
    """The commands that lead no further. Says which are left out."""
    found, left_out = set(), {group: [] for group in LEFT_OUT}

    def walk(node, path):
        for below in node["subcommands"]:
            walk(below, [*path, below["name"]])
        if not node["subcommands"]:
            name = " ".join(path)
            group = next((group for group in LEFT_OUT if f"{name} ".startswith(f"{group} ")), None)
            (found.add if group is None else left_out[group].append)(name)

    walk(json.loads(run("commands").stdout), [])
    for group, names in left_out.items():
        print(f"resend-cli: left out: {', '.join(sorted(names))}: {LEFT_OUT[group]}", flush=True)
    return found


outcome = dict.fromkeys(sorted(commands()), "nobody calls it here")


def tell(command, problem):
    if command not in outcome:
        raise AssertionError(f"there is no command {command}")
    if outcome[command] is not None:
        outcome[command] = problem


def call(command, *arguments, env=ENV):
    """What a command prints, which is JSON; nothing where it failed."""
    ran = run(*command.split(), *arguments, "--json", env=env)
    if ran.returncode != 0:
        tell(command, shortened(ran.stderr or ran.stdout))
        return {}
    tell(command, None)
    try:
        answer = json.loads(ran.stdout)
    except json.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {"data": answer}


def shortened(text):
    return " ".join(text.split())[:300]


def listens(command, *arguments):
    """A command that goes on until it is interrupted: it must not have ended before."""
    process = subprocess.Popen(
        [os.environ["NODE"], os.environ["RESEND_CLI"], *command.split(), *arguments, "--json"],
        env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HOME,
    )
    try:
        printed, complaint = process.communicate(timeout=5)
        tell(command, shortened(complaint or printed) or "it ended by itself")
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        tell(command, None)


def id_of(answer):
    return answer.get("id", NOBODY)


def first_id(answer):
    return next((one["id"] for one in answer.get("data", [])), NOBODY)


def somebody():
    return f"ada+{uuid.uuid4()}@example.com"


def in_days(days):
    return (datetime.now(timezone.utc) + timedelta(days=days)).isoformat()


def file(name, contents):
    (HOME / name).write_text(contents)
    return str(HOME / name)


FROM = "Ada <ada@example.com>"
MAIL = ("--from", FROM, "--to", "delivered@resend.dev", "--subject", "Hello", "--text", "Hello.")


def people():
    segment = id_of(call("segments create", "--name", "Everybody"))
    call("segments list")
    call("segments get", segment)
    call("segments update", segment, "--name", "All")
    contact = id_of(call("contacts create", "--email", somebody(), "--first-name", "Ada"))
    call("contacts list")
    call("contacts get", contact)
    call("contacts update", contact, "--no-unsubscribed")
    call("contacts add-segment", contact, "--segment-id", segment)
    call("contacts segments", contact)
    call("segments contacts", segment)
    topic = id_of(call("topics create", "--name", "News", "--default-subscription", "opt_in"))
    call("topics list")
    call("topics get", topic)
    call("topics update", topic, "--name", "Product news")
    call("contacts update-topics", contact, "--topics", json.dumps([{"id": topic, "subscription": "opt_out"}]))
    call("contacts topics", contact)
    made = id_of(call("contact-properties create", "--key", f"plan_{time.time_ns()}", "--type", "string"))
    call("contact-properties list")
    call("contact-properties get", made)
    call("contact-properties update", made, "--fallback-value", "free")
    call("contact-properties delete", made, "--yes")
    started = id_of(call("contacts imports create", "--file", file("people.csv", f"email\n{somebody()}\n")))
    call("contacts imports list")
    call("contacts imports get", started)
    broadcasts(segment)
    call("contacts remove-segment", contact, segment)
    call("contacts delete", contact, "--yes")
    call("topics delete", topic, "--yes")
    call("segments delete", segment, "--yes")


def broadcasts(segment):
    content = ("--from", FROM, "--subject", "News", "--html", "<p>News.</p>")
    broadcast = id_of(call("broadcasts create", *content, "--segment-id", segment))
    call("broadcasts list")
    call("broadcasts get", broadcast)
    call("broadcasts open", broadcast)
    call("broadcasts update", broadcast, "--subject", "Old news")
    call("broadcasts delete", id_of(call("broadcasts duplicate", broadcast)), "--yes")
    call("broadcasts send", broadcast, "--scheduled-at", in_days(1))
    call("broadcasts recipients", broadcast, "--type", "delivered")
    call("broadcasts clicked-links", broadcast)
    call("broadcasts cancel", broadcast)


def emails():
    email = id_of(call("emails send", *MAIL, "--attachment", file("a.txt", "a")))
    call("emails list")
    call("emails get", email)
    call("emails share", email)
    call("emails attachment", email, first_id(call("emails attachments", email)))
    later = id_of(call("emails send", *MAIL, "--scheduled-at", in_days(1)))
    call("emails update", later, "--scheduled-at", in_days(2))
    call("emails cancel", later)
    mail = {"from": FROM, "to": ["delivered@resend.dev"], "subject": "Hello", "text": "Hello."}
    call("emails batch", "--file", file("batch.json", json.dumps([mail, mail])))
    call("emails metrics", "--metrics", "sent", "--dimensions", "period")
    received = first_id(call("emails receiving list"))
    call("emails receiving get", received)
    call("emails receiving attachment", received, first_id(call("emails receiving attachments", received)))
    call("emails receiving forward", received, "--to", "delivered@resend.dev", "--from", FROM)
    listens("emails receiving listen", "--interval", "2")


def templates():
    template = id_of(call("templates create", "--name", "Welcome", "--html", "<p>Hello.</p>", "--subject", "Hello"))
    call("templates list")
    call("templates get", template)
    call("templates open", template)
    call("templates update", template, "--subject", "Welcome")
    call("templates publish", template)
    call("templates delete", id_of(call("templates duplicate", template)), "--yes")


def events():
    name = f"user.created.{time.time_ns()}"
    event = id_of(call("events create", "--name", name, "--schema", '{"plan":"string"}'))
    call("events list")
    call("events get", name)
    call("events open")
    call("events update", event, "--schema", '{"plan":"string","seats":"number"}')
    steps = json.dumps([{"key": "t", "type": "trigger", "config": {"eventName": name}}])
    fields = ("--name", "Welcome", "--status", "enabled", "--steps", steps, "--connections", "[]")
    automation = id_of(call("automations create", *fields))
    call("automations list")
    call("automations get", automation)
    call("automations open", automation)
    call("events send", "--event", name, "--email", somebody(), "--payload", '{"plan":"pro"}')
    run_id = NOBODY
    for _ in range(20):
        if (run_id := first_id(call("automations runs list", automation))) != NOBODY:
            break
    call("automations runs get", "--automation-id", automation, "--run-id", run_id)
    call("automations update", automation, "--status", "disabled")
    copy = id_of(call("automations duplicate", automation))
    call("automations stop", automation)
    call("automations delete", copy, "--yes")
    call("events delete", event, "--yes")


def domains_and_keys():
    domain = id_of(call("domains create", "--name", f"mail-{time.time_ns()}.example.com"))
    call("domains list")
    call("domains get", domain)
    call("domains update", domain, "--tls", "enforced")
    call("domains verify", domain)
    call("domains delete", domain, "--yes")
    key = id_of(call("api-keys create", "--name", "Another"))
    call("api-keys list")
    call("api-keys update", key, "--name", "The other")
    call("api-keys delete", key, "--yes")
    grant()
    grants = call("oauth-grants list").get("data", [])
    call("oauth-grants revoke", next((one["id"] for one in grants if one["revoked_at"] is None), NOBODY), "--yes")
    call("logs get", first_id(call("logs list")))
    call("logs open")


def suppressions():
    email = somebody()
    call("suppressions add", email)
    call("suppressions list")
    call("suppressions get", email)
    call("suppressions delete", email, "--yes")
    many = file("suppressed.json", json.dumps([email]))
    call("suppressions batch add", "--file", many)
    call("suppressions batch remove", "--file", many)


def webhooks():
    endpoint = os.environ["RESEND_BASE_URL"] + "/healthz"
    webhook = id_of(call("webhooks create", "--endpoint", endpoint, "--events", "contact.created"))
    call("webhooks list")
    call("webhooks get", webhook)
    call("webhooks update", webhook, "--events", "contact.created", "contact.deleted")
    call("contacts create", "--email", somebody())
    event = NOBODY
    for _ in range(20):
        if (event := first_id(call("webhooks events list", webhook))) != NOBODY:
            break
    call("webhooks events get", webhook, event)
    call("webhooks events attempts", webhook, event)
    call("webhooks events replay", webhook, event)
    call("webhooks rotate-signing-secret", webhook)
    call("webhooks delete", webhook, "--yes")
    listens("webhooks listen", "--url", "http://127.0.0.1:9", "--events", "contact.created")


def profiles():
    """Who is logged in, by the file of profiles alone."""
    env = {name: value for name, value in ENV.items() if name != "RESEND_API_KEY"}
    key = os.environ["RESEND_API_KEY"]
    call("login", "--key", key, env=env)
    call("whoami", env=env)
    call("doctor", env=env)
    call("auth login", "--key", key, "--profile", "other", env=env)
    call("auth list", env=env)
    call("auth switch", "default", env=env)
    call("auth rename", "other", "another", env=env)
    call("auth remove", "another", env=env)
    call("auth logout", env=env)
    call("login", "--key", key, env=env)
    call("logout", env=env)


def alone():
    call("open")
    call("docs")
    call("commands")
    call("completion", "bash")
    found = call("update", env=ENV | {"NODE_OPTIONS": f"--require {file('releases.cjs', RELEASES)}"})
    if (found.get("latest"), found.get("update_available")) != ("999.0.0", True):
        outcome["update"] = outcome["update"] or f"it did not find the release: {found}"


for part in (people, emails, templates, events, domains_and_keys, suppressions, webhooks, profiles, alone):
    part()
Path(os.environ["METHODS"]).write_text(json.dumps(outcome))

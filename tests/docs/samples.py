"""Every example of the API reference and of the dashboard, in every language, against the started binary.

Each language has a server and a store of its own, so that what an example makes is in nobody else's way.
"""

import json
import os
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

from clients.installed import node_modules
from person import Browser, visit
from programs import Example, run_all
from seeds import OWNER, UUID, Seeds, replaced, stale
from served import examples
from server import ROOT, binary, clean_env, free_port, serving

LANGUAGES = ("curl", "Node", "Python", "Rust", "Command line")
FEWEST_OPERATIONS = 150
CONTACTS = "email,first_name\nada.file@example.com,Ada\ngrace.file@example.com,Grace\n"


def check(engine, languages=LANGUAGES):
    """Runs all examples of these languages on an engine, as many beside each other as there are processors; returns
    what went wrong."""
    node_modules()  # before two of them would install it at once
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for each in pool.map(partial(check_language, engine), languages) for problem in each]


def check_language(engine, language):
    inbound, began = free_port(), time.monotonic()
    with serving(engine, "--inbound-listen", f"127.0.0.1:{inbound}") as server:
        key = server.create_key()
        seeds = Seeds(server, key, inbound)
        found, problems = of_dashboard(seeds, language)
        more, others = of_reference(seeds, language)
        found, problems = found + more, problems + others
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "contacts.csv").write_text(CONTACTS)
            problems += run_all(language, found, server.base, environment(server, key, folder), folder)
        print(f"{language} on {engine}: {len(found)} examples, {time.monotonic() - began:.0f} s", flush=True)
        if problems:
            print(server.tail(), flush=True)
    return [f"{problem} on {engine}" for problem in problems]


def environment(server, key, folder):
    """What a reader has: a key, and the command that examples name, beside the server's store."""
    commands = Path(folder) / "commands"
    commands.mkdir()
    (commands / "posthorn").symlink_to(binary())
    settings = zip(server.store.args[::2], server.store.args[1::2])
    return (
        clean_env()
        | {f"POSTHORN_{name[2:].replace('-', '_').upper()}": value for name, value in settings}
        | {
            "POSTHORN_KEY": key,
            "POSTHORN_BASE_URL": server.base,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "HOME": str(folder),
        }
    )


def ends(language, statuses):
    """What an example may end with: one of the statuses, or a command with success, which any of them is."""
    return (0,) if language == "Command line" else statuses


# ---- the reference ---------------------------------------------------------


def of_reference(seeds, language):
    """An example for every operation, and the operations that have none or more than one."""
    operations = described(seeds.server)
    found, problems, seen = [], list(stale(operations)), []
    for page in pages(seeds.server):
        for operation, shown_in, code in examples(page):
            if shown_in != language:
                continue
            seen.append(operation)
            path, wanted = operations[operation]
            try:
                pairs = replaced(seeds, operation, path, code)
                found.append(Example(operation, language, code, pairs, ends(language, wanted)))
            except AssertionError as problem:
                problems.append(f"{operation}: {problem}")
    if len(operations) < FEWEST_OPERATIONS or sorted(seen) != sorted(operations):
        problems.append(f"{len(operations)} operations, shown: {sorted(set(operations) ^ set(seen))} in {language}")
    return found, problems


def described(server):
    """By the name of each operation: its path, and the statuses that it answers where all is well."""
    document = json.loads(server.ask("GET", "/openapi.json")[2])
    return {
        operation["operationId"]: (path, {int(status) for status in operation["responses"] if status[0] in "23"})
        for path, methods in document["paths"].items()
        for operation in methods.values()
    }


def pages(server):
    home = server.ask("GET", "/docs")[2].decode()
    for address in dict.fromkeys(re.findall(r'href="[^"]*?(/docs/api/[^"#]+)', home)):
        status, _, body = server.ask("GET", address)
        assert status == 200, f"{address} is {status}"
        yield body.decode()


# ---- the dashboard ---------------------------------------------------------


def of_dashboard(seeds, language):
    """The examples of all pages that have one, and the pages that should."""
    browser, base = Browser(), seeds.server.base
    form = visit(browser, f"{base}/dashboard/login").form(field="password")
    typed = dict(form["fields"]) | {"email": OWNER[0], "password": OWNER[1]}
    status, _, body = browser.open(urljoin(f"{base}/dashboard/login", form["action"]), typed)
    assert status == 303, f"logging in answered {status}: {body}"

    found, problems, seen = [], [], set()
    for template, place, path in pages_with_example(seeds):
        seen.add(template)
        status, away, body = browser.open(address := base + path)
        while away:
            status, away, body = browser.open(address := urljoin(address, away))
        assert status == 200, f"{address} is {status}"
        shown = examples(body)
        if [one for _, one, _ in shown] != list(LANGUAGES):
            problems.append(f"the page {place} has examples in {[one for _, one, _ in shown]}")
        found += [known(place, language, code) for _, one, code in shown if one == language]
    if seen != with_example():
        problems.append(f"pages_with_example does not know all pages that have one: {sorted(seen ^ with_example())}")
    return found, problems


def with_example():
    """The templates of pages that show an example."""
    folder = ROOT / "templates"
    shows = re.compile(r"ui::(languages|as_code)\(")
    return {str(path.relative_to(folder)) for path in folder.rglob("*.html") if shows.search(path.read_text())}


def known(place, language, code):
    """An example whose ids are the same on every store until it runs."""
    replaced = []
    for one in dict.fromkeys(UUID.findall(code)):
        name = f"00000000-0000-7000-8000-{len(replaced):012}"
        replaced.append((name, one))
        code = code.replace(one, name)
    return Example(f"the page {place}", language, code, replaced, ends(language, (200, 201, 202)))


def pages_with_example(seeds):
    """Of each its template, what it is of and where it is; empty lists come before there is anything."""
    yield "home/welcome.html", "of the server", "/"
    yield "home/overview.html", "of the workspace", "/dashboard"
    yield "events/list.html", "of no events", "/dashboard/events"
    yield "contacts/list.html", "of no contacts", "/dashboard/contacts"
    yield "automations/list.html", "of no automations", "/dashboard/automations"
    yield "emails/send.html", "that sends a mail", "/dashboard/emails/new"
    contact = seeds.id("/contacts", {"email": "copied@example.com"})
    event = seeds.id("/events", {"name": "copied.once", "schema": {"total": "number", "at": "date"}})
    own = seeds.automation(name="copied.once")
    system = seeds.automation(name="svc:contact.created")
    given = {"name": "Copied", "from": "Acme <hello@acme.example>", "subject": "Hi", "html": "<p>{{{NAME}}}</p>"}
    given |= {"alias": "copied", "variables": [{"key": "NAME", "type": "string"}]}
    published = seeds.id("/templates", given)
    seeds.id(f"/templates/{published}/publish")
    draft = seeds.id("/templates", {"name": "Draft", "from": "a@acme.example", "subject": "Hi", "html": "<p>Hi</p>"})
    yield "contacts/one.html", "of a contact", f"/dashboard/contacts/{contact}"
    yield "events/one.html", "of an event", f"/dashboard/events/{event}"
    yield "automations/one.html", "of an automation", f"/dashboard/automations/{own}"
    yield "automations/one.html", "of one that a system event starts", f"/dashboard/automations/{system}"
    yield "templates/one.html", "of a template", f"/dashboard/templates/{published}"
    yield "templates/one.html", "of a draft", f"/dashboard/templates/{draft}"

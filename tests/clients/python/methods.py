"""Every public method of the PyPI client `resend`, once as it is and once as a coroutine. What there is is read
from the package itself, and so is what an answer must hold: the keys that its types require.

Started by ../run, which sets RESEND_API_URL, RESEND_API_KEY and METHODS, the file that takes what came of each:
null, or what went wrong.
"""

import asyncio
import base64
import functools
import hashlib
import hmac
import http.server
import inspect
import json
import os
import threading
import time
import typing
import uuid
from datetime import datetime, timedelta, timezone

import resend
import typing_extensions

from grant import grant

resend.api_key = os.environ["RESEND_API_KEY"]
NOBODY = str(uuid.uuid4())
ELSEWHERE = ("Inbox", "DomainClaims", "Domains.Claims")
# Types that the client has for several answers, short and long: all of these have an id.
SHARED = ("Broadcast", "Domain", "Email")
# What is left out where there is none; and what the client adds itself.
MAY_LACK = ("description", "http_headers")


def methods():
    """Each public method by the first name that leads to it, and whether it is a coroutine."""
    found, named = {}, {}
    waiting = [(name, value) for name, value in vars(resend).items() if not name.startswith("_")]
    while waiting:
        path, cls = waiting.pop(0)
        if not inspect.isclass(cls) or not cls.__module__.startswith("resend.") or issubclass(cls, (dict, Exception)):
            continue
        for name, value in inspect.getmembers(cls, inspect.ismethod):
            if not name.startswith("_") and not path.startswith(ELSEWHERE):
                found.setdefault(value.__func__, f"{path}.{name}")
                named[f"{path}.{name}"] = value
        nested = [(f"{path}.{name}", value) for name, value in vars(cls).items() if not name.startswith("_")]
        waiting += [one for one in nested if inspect.isclass(one[1])]
    return set(found.values()), {name: found[method.__func__] for name, method in named.items()}


NAMES, CANONICAL = methods()
outcome = dict.fromkeys(sorted(NAMES), "nobody calls it here")


def flaw(value, kind, path="answer"):
    """What an answer lacks of what its type promises."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if typing_extensions.is_typeddict(kind):
        if not isinstance(value, dict):
            return f"{path} is no object"
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        for name, inner in hints.items():
            inner_origin = typing_extensions.get_origin(inner)
            is_required = name in kind.__required_keys__ and inner_origin is not typing_extensions.NotRequired
            is_required = is_required and name not in MAY_LACK and (kind.__name__ not in SHARED or name == "id")
            if inner_origin in (typing_extensions.NotRequired, typing_extensions.Required):
                inner = typing_extensions.get_args(inner)[0]
            if name not in value:
                if is_required and not is_optional(inner):
                    return f"{path} has no `{name}`"
                continue
            if problem := flaw(value[name], inner, f"{path}.{name}"):
                return problem
        return None
    if origin in (list, typing.List) and isinstance(value, list) and arguments:
        return next((problem for one in value[:3] if (problem := flaw(one, arguments[0], f"{path}[]"))), None)
    return None


def is_optional(kind):
    return type(None) in typing.get_args(kind)


def resolve(name):
    return functools.reduce(getattr, name.split("."), resend)


class Calls:
    """The methods, called as they are or as coroutines, which are named with `_async` behind."""

    def __init__(self, suffix, loop):
        self.suffix, self.loop = suffix, loop

    def __call__(self, name, *args, **kwargs):
        if name + self.suffix not in CANONICAL:
            if name == "Webhooks.verify" and self.suffix:
                return {}
            raise AssertionError(f"the client has no method {name}{self.suffix}")
        called = CANONICAL[name + self.suffix]
        method = resolve(name + self.suffix)
        try:
            answer = method(*args, **kwargs)
            if inspect.isawaitable(answer):
                answer = self.loop.run_until_complete(answer)
            problem = flaw(answer, self.returns(method)) if name != "Webhooks.verify" else None
        except Exception as error:  # whatever the client raises is what went wrong
            answer, problem = {}, f"{type(error).__name__}: {error}"
        if outcome[called] is not None:
            outcome[called] = problem
        return answer

    @staticmethod
    def returns(method):
        names = vars(inspect.getmodule(method.__func__))
        try:
            return typing_extensions.get_type_hints(method.__func__, globalns=names)["return"]
        except (NameError, KeyError):
            return None

    def soon(self, look):
        for _ in range(40):
            if found := look():
                return found
            time.sleep(0.25)
        return None


def id_of(answer):
    return answer.get("id", NOBODY)


def first_id(answer):
    return next((one["id"] for one in answer.get("data", [])), NOBODY)


def somebody():
    return f"ada+{uuid.uuid4()}@example.com"


def in_days(days):
    return (datetime.now(timezone.utc) + timedelta(days=days)).isoformat()


MAIL = {"from": "Ada <ada@example.com>", "to": "delivered@resend.dev", "subject": "Hello", "text": "Hello."}


def people(call):
    segment = id_of(call("Segments.create", {"name": "Everybody"}))
    call("Segments.list")
    call("Segments.get", segment)
    call("Segments.update", segment, {"name": "All"})
    email = somebody()
    contact = id_of(call("Contacts.create", {"email": email, "first_name": "Ada"}))
    call("Contacts.list")
    call("Contacts.get", email=email)
    call("Contacts.update", {"id": contact, "last_name": "Lovelace"})
    call("ContactSegments.add", {"contact_id": contact, "segment_id": segment})
    call("ContactSegments.list", {"contact_id": contact})
    topic = id_of(call("Topics.create", {"name": "News", "default_subscription": "opt_in"}))
    call("Topics.list")
    call("Topics.get", topic)
    call("Topics.update", topic, {"name": "Product news"})
    call("ContactsTopics.update", {"id": contact, "topics": [{"id": topic, "subscription": "opt_out"}]})
    call("ContactsTopics.list", contact_id=contact)
    made = call("ContactProperties.create", {"key": f"plan_{time.time_ns()}", "type": "string", "fallback_value": "free"})
    call("ContactProperties.list")
    call("ContactProperties.get", id_of(made))
    call("ContactProperties.update", {"id": id_of(made), "fallback_value": "paid"})
    call("ContactProperties.remove", id_of(made))
    started = call("ContactImports.create", {"file": f"email\n{somebody()}\n".encode()})
    call("ContactImports.list")
    call("ContactImports.get", id_of(started))
    broadcasts(call, segment)
    call("ContactSegments.remove", {"contact_id": contact, "segment_id": segment})
    call("Contacts.remove", id=contact)
    call("Topics.remove", topic)
    call("Segments.remove", segment)
    audience = id_of(call("Audiences.create", {"name": "Everybody"}))
    call("Audiences.list")
    call("Audiences.get", audience)
    call("Audiences.remove", audience)


def broadcasts(call, segment):
    draft = {"segment_id": segment, "from": MAIL["from"], "subject": "News", "html": "<p>News.</p>", "name": "News"}
    broadcast = id_of(call("Broadcasts.create", draft))
    call("Broadcasts.list")
    call("Broadcasts.get", broadcast)
    call("Broadcasts.update", {"broadcast_id": broadcast, "subject": "Old news"})
    call("Broadcasts.remove", id_of(call("Broadcasts.duplicate", broadcast)))
    call("Broadcasts.send", {"broadcast_id": broadcast, "scheduled_at": in_days(1)})
    call("Broadcasts.recipients", broadcast, {"type": "delivered"})
    call("Broadcasts.clicked_links", broadcast)
    call("Broadcasts.cancel", broadcast)


def emails(call):
    attachment = {"filename": "a.txt", "content": list(b"a")}
    email = id_of(call("Emails.send", MAIL | {"attachments": [attachment]}))
    call("Emails.list")
    call("Emails.get", email)
    call("Emails.share", email)
    attached = first_id(call("EmailAttachments.list", email))
    call("EmailAttachments.get", email, attached)
    later = id_of(call("Emails.send", MAIL | {"scheduled_at": in_days(1)}))
    call("Emails.update", {"id": later, "scheduled_at": in_days(2)})
    call("Emails.cancel", later)
    call("Batch.send", [MAIL, MAIL])
    call("Emails.metrics", {"dimensions": ["period"], "metrics": ["sent", "delivered"]})
    call("Usage.get")


def receiving(call):
    email = first_id(call("EmailsReceiving.list"))
    call("EmailsReceiving.get", email)
    attached = first_id(call("EmailsReceiving.Attachments.list", email))
    call("EmailsReceiving.Attachments.get", email, attached)


def templates(call):
    variables = [{"key": "NAME", "type": "string", "fallback_value": "you"}]
    made = call("Templates.create", {"name": "Welcome", "html": "<p>Hello {{{NAME}}}.</p>", "variables": variables})
    call("Templates.list")
    call("Templates.get", id_of(made))
    call("Templates.update", {"id": id_of(made), "subject": "Welcome"})
    call("Templates.publish", id_of(made))
    call("Templates.remove", id_of(call("Templates.duplicate", id_of(made))))


def events(call):
    name = f"user.created.{time.time_ns()}"
    event = id_of(call("Events.create", {"name": name, "schema": {"plan": "string"}}))
    call("Events.list")
    call("Events.get", name)
    call("Events.update", {"identifier": event, "schema": {"plan": "string", "seats": "number"}})
    steps = [{"key": "t", "type": "trigger", "config": {"event_name": name}}]
    fields = {"name": "Welcome", "status": "enabled", "steps": steps, "connections": []}
    automation = id_of(call("Automations.create", fields))
    call("Automations.list")
    call("Automations.get", automation)
    call("Events.send", {"event": name, "email": somebody(), "payload": {"plan": "pro"}})
    run = call.soon(lambda: call("Automations.Runs.list", automation).get("data")) or [{"id": NOBODY}]
    call("Automations.Runs.get", automation, run[0]["id"])
    call("Automations.update", {"automation_id": automation, "status": "disabled"})
    copy = id_of(call("Automations.duplicate", automation))
    call("Automations.stop", automation)
    call("Automations.remove", copy)
    call("Events.remove", event)


def domains_and_keys(call):
    domain = id_of(call("Domains.create", {"name": f"mail-{time.time_ns()}.example.com"}))
    call("Domains.list")
    call("Domains.get", domain)
    call("Domains.update", {"id": domain, "tls": "enforced"})
    call("Domains.verify", domain)
    call("Domains.remove", domain)
    key = id_of(call("ApiKeys.create", {"name": "Another"}))
    call("ApiKeys.list")
    call("ApiKeys.update", {"id": key, "name": "The other"})
    call("ApiKeys.remove", key)
    grant()
    grants = call("OAuthGrants.list").get("data", [])
    call("OAuthGrants.revoke", next((one["id"] for one in grants if one["revoked_at"] is None), NOBODY))
    call("Logs.get", first_id(call("Logs.list")))


def suppressions(call):
    email = somebody()
    call("Suppressions.add", {"email": email})
    call("Suppressions.list")
    call("Suppressions.get", email)
    call("Suppressions.remove", email)
    call("SuppressionsBatch.add", {"emails": [email]})
    call("SuppressionsBatch.remove", {"emails": [email]})


class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def webhooks(call):
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{sink.server_port}/hook"
    webhook = id_of(call("Webhooks.create", {"endpoint": endpoint, "events": ["contact.created"]}))
    call("Webhooks.list")
    call("Webhooks.get", webhook)
    call("Webhooks.update", {"webhook_id": webhook, "events": ["contact.created", "contact.deleted"]})
    call("Contacts.create", {"email": somebody()})
    listed = call.soon(lambda: call("Webhooks.list_events", webhook).get("data")) or [{"id": NOBODY}]
    event = listed[0]["id"]
    call("Webhooks.get_event", webhook, event)
    call("Webhooks.list_event_attempts", webhook, event)
    call("Webhooks.replay_event", webhook, event)
    call("Webhooks.rotate_signing_secret", webhook)
    call("Webhooks.remove", webhook)
    secret, now, payload = b"a secret of many characters", str(int(time.time())), '{"type":"contact.created"}'
    signed = hmac.new(secret, f"msg_1.{now}.{payload}".encode(), hashlib.sha256).digest()
    headers = {"id": "msg_1", "timestamp": now, "signature": "v1," + base64.b64encode(signed).decode()}
    secret = "whsec_" + base64.b64encode(secret).decode()
    call("Webhooks.verify", {"payload": payload, "headers": headers, "webhook_secret": secret})
    sink.shutdown()


loop = asyncio.new_event_loop()
for suffix in ("", "_async"):
    for part in (people, emails, receiving, templates, events, domains_and_keys, suppressions, webhooks):
        part(Calls(suffix, loop))
with open(os.environ["METHODS"], "w", encoding="utf-8") as file:
    json.dump(outcome, file)

#!/usr/bin/env python3
"""Mail to real servers, over real DNS: Postfix, Exim, OpenSMTPD, Knot and Unbound from Debian, on loopback.

    tests/mail/servers.py [--engine sqlite|postgres]

A domain is verified against signed zones behind a resolver that validates. Letters of a corpus go
straight to both mail servers, and through one of them as a relay with STARTTLS and a log-in; what
lies in the mailboxes is verified by `dkimpy` and by npm's `mailauth`. Then what DNS and servers say no
to: a null MX, no MX, names of names, a zone whose signatures are wrong, unknown users, a certificate
for somebody else, and what domains say of their servers by MTA-STS and DANE. What servers take and cannot
deliver comes back in a report of each of them. `posthorn doctor` and `posthorn send` look at the same world.

Needs root: mail servers change users, and listen on port 25 of an address of their own (on another
one where somebody listens on port 25 of all addresses). Ends with 1 if something is not as it should be.
"""

import argparse
import base64
import email
import email.policy
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dkim

from corpus import LETTERS
from daemons import Exim
from server import ENGINES, ROOT
from web import TextServer
from world import HELO, SENDER, WITHIN, World

# ---- what is played --------------------------------------------------------


def a_domain_is_verified(world):
    """Its records are published as the API tells them, and found."""
    domain = world.ask("POST", "/domains", {"name": SENDER})
    world.domain = domain["id"]
    early = world.ask("POST", f"/domains/{world.domain}/verify")
    assert world.ask("GET", f"/domains/{early['id']}")["status"] != "verified", "nothing is published yet"
    for record in domain["records"]:
        if record["type"] == "TXT":
            world.knot.txt("test", record["name"], record["value"])
        else:
            world.knot.add("test", record["name"], record["type"], f"{record['priority']} {record['value']}.")
    world.knot.txt("test", domain["dmarc"]["name"], domain["dmarc"]["value"])
    world.ask("POST", f"/domains/{world.domain}/verify")
    began = time.monotonic()
    while (found := world.ask("GET", f"/domains/{world.domain}"))["status"] != "verified":
        assert time.monotonic() - began < WITHIN, f"not verified: {json.dumps(found['records'], indent=1)}"
        time.sleep(0.2)
    return f"{len(domain['records'])} records"


def the_corpus_arrives(world):
    """Straight to both servers, encrypted, and signed so that strangers believe it."""
    sent = {name: world.send(["Ada <ada@postfix.test>", "bob@exim.test"], **letter) for name, letter in LETTERS.items()}
    for id in sent.values():
        world.expect(id, "delivered")
    messages = []
    for server, person in ((world.postfix, "ada"), (world.exim, "bob")):
        arrived = until(lambda: server.mails(person), lambda mails: len(mails) >= len(sent))
        for name, id in sent.items():
            (message,) = arrived[f"<{id}@{SENDER}>"]
            same(name, LETTERS[name], message)
            assert b"TLS" in message.split(b"\r\n\r\n")[0], f"{name} came in clear:\n{message[:600]!r}"
            messages.append(message)
    judge(world, messages, "127.0.0.1")
    return f"{len(messages)} messages"


def names_lead_where_dns_says(world):
    """Without MX, by names of names, and to the second server where the first is dead."""
    wanted = {
        "ada@bare.test": world.postfix,
        "ada@alias.test": world.postfix,
        "bob@aliased.test": world.exim,
        "bob@backup.test": world.exim,
    }
    sent = {to: world.send(to) for to in wanted}
    for to, id in sent.items():
        world.expect(id, "delivered")
        person, key = to.split("@")[0], f"<{id}@{SENDER}>"
        until(lambda: wanted[to].mails(person), lambda mails: key in mails)
    return f"{len(sent)} ways"


def what_cannot_arrive_bounces(world):
    """And what nobody knows for sure waits."""
    for to, said in {
        "ada@null.test": "5.1.10",
        "ada@absent.test": "5.1.2",
        "ada@nomail.test": "5.1.2",
        "nobody@postfix.test": "550",
        "nobody@exim.test": "550",
    }.items():
        events, reasons = world.expect(world.send(to), "bounced")
        assert said in str(events), f"{to}: {events} {reasons}"
    # Exim says 550 without the code that would tell whether it means the recipient.
    suppressed = world.store.query("SELECT email_key FROM suppressions")
    assert suppressed == [("nobody@postfix.test",)], f"{suppressed}"
    bogus = world.send("ada@bogus.test")
    _, reasons = until(lambda: world.fate(bogus), lambda fate: fate[1])
    assert "cannot be looked up" in reasons[0], f"{reasons}"
    assert world.ask("GET", f"/emails/{bogus}")["last_event"] == "queued", "a zone that is signed wrongly has said nothing"
    return "5 bounced, 1 waits"


def encryption_is_enforced(world):
    """Where a domain asks for it, a certificate for somebody else is not good enough."""
    set_tls(world, "enforced")
    world.expect(world.send("ada@postfix.test"), "delivered")
    id = world.send("bob@othername.test")
    _, reasons = until(lambda: world.fate(id), lambda fate: fate[1])
    assert "certificate" in reasons[0].lower(), f"{reasons}"
    set_tls(world, "opportunistic")
    world.expect(world.send("bob@othername.test"), "delivered")
    return "1 waits"


def set_tls(world, policy):
    world.ask("PATCH", f"/domains/{world.domain}", {"tls": policy})
    time.sleep(1.2)  # delivery looks every second what its domains want


def commands_tell_the_same(world):
    """`posthorn doctor` finds nothing wrong, and `posthorn send` tells how it went."""
    found = doctor(world, "--reach", "postfix.test")
    for check in ("mail", "port 25", "server name", f"domain {SENDER}"):
        assert found[check]["status"] == "ok", f"{check}: {found[check]}"
    run = world.command("send", "--from", f"hello@{SENDER}", "--to", "ada@postfix.test", "--text", "by command")
    assert run.returncode == 0 and "mx.postfix.test answered 250" in run.stdout, f"{run.stdout}{run.stderr}"
    for to, said in (("nobody@exim.test", "550"), ("nobody@postfix.test", "suppressed")):
        run = world.command("send", "--from", f"hello@{SENDER}", "--to", to, "--text", "by command")
        assert run.returncode == 1 and said in run.stderr, f"{to}: {run.stdout}{run.stderr}"
    run = world.command("send", "--from", "hello@elsewhere.test", "--to", "ada@postfix.test", "--text", "by command")
    assert run.returncode == 1 and "not verified" in run.stderr, f"{run.stdout}{run.stderr}"
    return "5 commands"


def policies_are_held_to(world):
    """MTA-STS: a domain says over HTTPS which servers are its own, and that they have to prove it."""
    certificate = world.authority.certificate("mta-sts.strict.test", "mta-sts.astray.test")
    policy = "version: STSv1\nmode: enforce\nmx: mx.postfix.test\nmax_age: 86400\n"
    web = TextServer(world.web_address, certificate, policy)
    try:
        for domain in ("strict.test", "astray.test"):
            world.knot.add("test", f"mta-sts.{domain}", "A", world.web_address)
            world.knot.txt("test", f"_mta-sts.{domain}", "v=STSv1; id=1;")
        assert secured(world, "ada@strict.test") == "verified", "its policy asks for more"
        reason = waits(world, "bob@astray.test")
        assert "MTA-STS policy of astray.test names none" in reason, reason
        assert web.asked[0] == ("mta-sts.strict.test", "/.well-known/mta-sts.txt"), f"{web.asked}"
    finally:
        web.end()
    return "1 arrived, 1 waits"


def dnssec_names_certificates(world):
    """DANE: by their keys and by who vouches for them; where they are not as named, nothing is sent."""
    anchor = f"2 0 0 {world.authority.whole()}"
    for host, record in {
        "mx.postfix.test": f"3 1 1 {world.authority.key_hash('mx.postfix.test')}",
        "wrong.postfix.test": f"3 1 1 {'00' * 32}",
        "mx.exim.test": anchor,
        "other.exim.test": anchor,
    }.items():
        world.knot.add("test", f"_{world.postfix.port}._tcp.{host}", "TLSA", record)
    world.serve("--transport", "direct", "--dane", world.resolver)
    for to in ("ada@postfix.test", "bob@exim.test", "bob@aliased.test"):
        assert secured(world, to) == "dane", f"{to}: what DNSSEC says of the certificate was not used"
    for to in ("ada@wrongkey.test", "bob@othername.test"):
        reason = waits(world, to)
        assert "certificate" in reason, f"{to}: {reason}"
    assert "cannot be looked up" in waits(world, "ada@bogus.test")
    return "3 arrived, 3 wait"


def secured(world, to):
    """How the connection was kept from others by which a mail arrived."""
    events, _ = world.expect(world.send(to), "delivered")
    return json.loads(events[0][1])["tls"]


def waits(world, to):
    id = world.send(to)
    _, reasons = until(lambda: world.fate(id), lambda fate: fate[1])
    assert world.ask("GET", f"/emails/{id}")["last_event"] == "queued", f"{to}: {world.fate(id)}"
    return reasons[0]


def a_relay_passes_on(world):
    """With STARTTLS and a log-in; signatures hold over two servers."""
    _, password = Exim.LOGIN
    world.serve("--transport", "relay", "--smtp-url", world.relay(password))
    sent = [world.send("ada@postfix.test", **letter) for letter in LETTERS.values()]
    messages = []
    for id in sent:
        events, _ = world.expect(id, "delivered")
        assert events[0][0] == "sent" and world.exim.address in events[0][1], f"{events}"
        key = f"<{id}@{SENDER}>"
        (message,) = until(lambda: world.postfix.mails("ada"), lambda mails: key in mails)[key]
        assert message.count(b"\r\nReceived:") >= 2, f"it did not take the way by the relay:\n{message[:800]!r}"
        messages.append(message)
    judge(world, messages, ip=None)
    found = doctor(world)
    assert found[f"relay {world.exim.address}"]["status"] == "ok", f"{found}"
    found = doctor(world, settings=("--smtp-url", world.relay("wrong")))
    relay = found[f"relay {world.exim.address}"]
    assert relay["status"] == "failed" and "535" in relay["came"] and "password" in relay["next"], f"{relay}"
    return f"{len(messages)} messages"


def what_a_relay_cannot_deliver_comes_back(world):
    """Exim takes a mail that Postfix then refuses, and reports that to the mail's return path."""
    _, password = Exim.LOGIN
    _, address, port = world.inbound
    world.serve("--transport", "relay", "--smtp-url", world.relay(password), "--inbound-listen", f"{address}:{port}")
    id = world.send("gone@postfix.test")
    until(lambda: world.ask("GET", f"/emails/{id}")["last_event"], lambda event: event == "bounced")
    events, _ = world.fate(id)
    assert [kind for kind, _ in events] == ["sent", "delivered", "bounced"], f"{events}"
    bounce = json.loads(events[-1][1])["bounce"]
    assert bounce["type"] == "Permanent" and "5.1.1" in str(bounce["diagnosticCode"]), f"{bounce}"
    entry = world.ask("GET", "/suppressions/gone@postfix.test")
    assert (entry["origin"], entry["source_id"]) == ("bounce", id), f"{entry}"
    return "1 report"


def what_servers_take_and_cannot_deliver_comes_back(world):
    """Postfix and OpenSMTPD take a mail that Exim then refuses, and report that in their own words."""
    _, address, port = world.inbound
    world.serve("--transport", "direct", "--inbound-listen", f"{address}:{port}")
    for server in ("postfix", "opensmtpd"):
        id = world.send(f"gone@late.{server}.test")
        until(lambda: world.ask("GET", f"/emails/{id}")["last_event"], lambda event: event == "bounced")
        events, _ = world.fate(id)
        assert [kind for kind, _ in events] == ["sent", "delivered", "bounced"], f"{events}"
        detail = json.loads(events[-1][1])
        assert detail["host"] == f"mx.{server}.test" and detail["bounce"]["type"] == "Permanent", f"{detail}"
        assert "550" in str(detail["bounce"]["diagnosticCode"]), f"{detail}"
    return "2 reports"


SCENES = [
    a_domain_is_verified,
    the_corpus_arrives,
    names_lead_where_dns_says,
    what_cannot_arrive_bounces,
    encryption_is_enforced,
    commands_tell_the_same,
    policies_are_held_to,
    dnssec_names_certificates,
    a_relay_passes_on,
    what_a_relay_cannot_deliver_comes_back,
    what_servers_take_and_cannot_deliver_comes_back,
]


# ---- how it is judged ------------------------------------------------------


def until(look, is_there):
    began = time.monotonic()
    while not is_there(found := look()):
        assert time.monotonic() - began < WITHIN, f"it did not come about: {str(found)[:2000]}"
        time.sleep(0.1)
    return found


def doctor(world, *args, settings=()):
    run = world.command("doctor", "--json", *args, settings=settings)
    return {check["check"]: check for check in json.loads(run.stdout)["checks"]}


def same(name, letter, message):
    """What was handed in is what is read."""
    read = email.message_from_bytes(message, policy=email.policy.default)
    assert read["Subject"] == letter.get("subject", "Hello"), f"{name}: {read['Subject']!r}"
    for kind, field in (("plain", "text"), ("html", "html")):
        if field in letter:
            text = read.get_body((kind,)).get_content().replace("\r\n", "\n")
            assert text.rstrip() == letter[field].rstrip(), f"{name}: {text[:200]!r}"
    files = [part.get_payload(decode=True) for part in read.iter_attachments()]
    wanted = [base64.b64decode(file["content"]) for file in letter.get("attachments", []) if "content_id" not in file]
    assert all(file in files for file in wanted), f"{name}: its files are not what they were"


def judge(world, messages, ip):
    """Both signatures hold for dkimpy and for mailauth; SPF and DMARC where the sender's address is known."""

    def texts(name, timeout=5):
        (text,) = world.unbound.texts(name.decode())
        return text

    for message in messages:
        for number in range(2):
            assert dkim.DKIM(message).verify(idx=number, dnsfunc=texts), f"signature {number}:\n{message[:1500]!r}"
        changed = message.replace(b"\r\nSubject:", b"\r\nSubject: not", 1)
        assert not holds(changed, texts), "a signature holds over a subject that was changed"
    asked = []
    for number, message in enumerate(messages):
        file = world.folder / f"message-{number}"
        file.write_bytes(message)
        path = email.message_from_bytes(message)["Return-Path"].strip("<>")
        asked.append({"file": str(file), "sender": path, "ip": ip or "127.0.0.1", "helo": HELO})
    for found in mailauth(world, asked):
        algorithms = sorted(found["dkim"])
        assert algorithms == ["ed25519-sha256 pass", "rsa-sha256 pass"], f"{found}"
        assert found["dmarc"] == "pass", f"{found}"
        assert ip is None or found["spf"] == "pass", f"{found}"


def holds(message, texts):
    try:
        return any(dkim.DKIM(message).verify(idx=number, dnsfunc=texts) for number in range(2))
    except dkim.ValidationError:
        return False


def mailauth(world, asked):
    tools = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools" / "mailauth"
    here = Path(__file__).resolve().parent
    lock = here / "package-lock.json"
    if not (tools / "complete").exists() or (tools / "complete").read_bytes() != lock.read_bytes():
        shutil.rmtree(tools, ignore_errors=True)
        tools.mkdir(parents=True)
        for file in (here / "package.json", lock):
            shutil.copy(file, tools)
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=tools, check=True)
        shutil.copy(lock, tools / "complete")
    resolver = f"{world.unbound.address}:{world.unbound.port}"
    env = dict(os.environ, NODE_PATH=str(tools / "node_modules"))
    run = subprocess.run(
        ["node", here / "mailauth.cjs", resolver], input=json.dumps(asked), capture_output=True, text=True, env=env, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, default="sqlite")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("mail servers can only be started by root: run this with sudo")
    folder = tempfile.mkdtemp(prefix="posthorn-servers-")
    os.chmod(folder, 0o755)
    world, scene, began = None, "setting up", time.monotonic()
    try:
        world = World(folder, options.engine)
        print(f"knot, unbound, postfix, exim and opensmtpd run; mail on port {world.postfix.port}", flush=True)
        world.serve("--transport", "direct")
        for play in SCENES:
            scene, at = play.__name__.replace("_", " "), time.monotonic()
            print(f"{scene}: {play(world)}, {time.monotonic() - at:.1f} s", flush=True)
        world.server.stop()
        print(f"all is as it should be, after {time.monotonic() - began:.0f} s")
    except (AssertionError, OSError, http.client.HTTPException, subprocess.SubprocessError) as problem:
        print(f"{scene}: FAILED: {problem}", flush=True)
        for one in (world.server, world.postfix, world.exim, world.opensmtpd) if world else ():
            if one:
                print(f"the log of {type(one).__name__}:\n{one.tail()}", flush=True)
        sys.exit(1)
    finally:
        if world:
            world.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

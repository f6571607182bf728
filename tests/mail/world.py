"""Names, mail servers and the product, all on loopback, for `servers.py`."""

import json
import random
import socket
import subprocess
import time
from pathlib import Path

import dns.flags
import dns.rcode

from certificates import Authority
from daemons import Exim, Knot, Postfix, Unbound
from opensmtpd import OpenSmtpd
from server import ENGINES, Server, binary, clean_env, free_port

SENDER = "sender.test"
HELO = "mail.posthorn.test"
PEOPLE = ["ada", "bob"]
WITHIN = 60.0  # seconds until a mail is at its end
REVERSE = "100.51.198.in-addr.arpa"  # resolvers have answers of their own for loopback addresses


class World:
    """All servers, each at its address."""

    def __init__(self, folder, engine):
        net = f"127.{random.SystemRandom().randrange(64, 250)}.{random.SystemRandom().randrange(250)}"
        self.folder = Path(folder)
        self.authority = Authority(self.folder / "certificates")
        port = mail_port(f"{net}.3")
        self.knot = Knot(self.folder / "knot", f"{net}.1", free_port())
        self.unbound = Unbound(self.folder / "unbound", f"{net}.2", free_port())
        self.postfix = Postfix(self.folder / "postfix", f"{net}.3", port)
        self.exim = Exim(self.folder / "exim", f"{net}.4", port)
        self.opensmtpd = OpenSmtpd(self.folder / "opensmtpd", f"{net}.6", port)
        self.web_address = f"{net}.5"
        self.dead = f"{net}.9"
        self.submission_port = free_port()
        self.inbound = (f"send.{SENDER}", f"{net}.5", free_port())  # the domain of return paths, and where it leads
        self._start_dns()
        self._start_mail()
        self.store = ENGINES[engine]()
        self.resolver = f"{self.unbound.address}:{self.unbound.port}"
        self.common = ["--dns-server", self.resolver, "--smtp-ca", str(self.authority.file)]
        self.common += ["--private-mx", "--mx-port", str(port), "--helo", HELO, "--spf", "ip4:127.0.0.1"]
        self.server = None

    def _start_dns(self):
        self.knot.run(signed=["test", "bogus.test"], plain=[REVERSE])
        wrong = "bogus.test. DS 4711 13 2 " + "00" * 32
        self.unbound.run(self.knot, ["test", "bogus.test", REVERSE], [self.knot.anchor("test"), wrong])
        postfix, exim = self.postfix.address, self.exim.address
        for name, kind, *values in [
            (HELO, "A", "198.51.100.25"),
            ("mx.postfix.test", "A", postfix),
            ("postfix.test", "MX", "10 mx.postfix.test."),
            ("mx.exim.test", "A", exim),
            ("exim.test", "MX", "10 mx.exim.test."),
            ("mx.opensmtpd.test", "A", self.opensmtpd.address),
            ("late.postfix.test", "MX", "10 mx.postfix.test."),
            ("late.opensmtpd.test", "MX", "10 mx.opensmtpd.test."),
            ("bare.test", "A", postfix),
            ("alias.test", "CNAME", "postfix.test."),
            ("www.exim.test", "CNAME", "mx.exim.test."),
            ("aliased.test", "MX", "10 www.exim.test."),
            ("dead.test", "A", self.dead),
            ("backup.test", "MX", "10 dead.test.", "20 mx.exim.test."),
            ("null.test", "MX", "0 ."),
            ("other.exim.test", "A", exim),
            ("othername.test", "MX", "10 other.exim.test."),
            ("wrong.postfix.test", "A", postfix),
            ("wrongkey.test", "MX", "10 wrong.postfix.test."),
            ("strict.test", "MX", "10 mx.postfix.test."),
            ("astray.test", "MX", "10 mx.exim.test."),
            ("nomail.test", "TXT", '"there is a name, and no server"'),
        ]:
            self.knot.add("test", name, kind, *values)
        self.knot.add("bogus.test", "bogus.test", "MX", "10 mx.postfix.test.")
        self.knot.add(REVERSE, f"25.{REVERSE}", "PTR", f"{HELO}.")
        answer = self.unbound.ask("postfix.test", "MX")
        assert answer.answer and answer.flags & dns.flags.AD, f"what is signed is not believed: {answer}\n{self.unbound.tail()}"
        answer = self.unbound.ask("bogus.test", "MX")
        assert answer.rcode() == dns.rcode.SERVFAIL, f"what is signed wrongly is believed: {answer}"

    def _start_mail(self):
        certificate = self.authority.certificate
        domains = ["postfix.test", "bare.test", "alias.test", "bogus.test", "strict.test"]
        # What these take for domains that are called late, Exim refuses, and they have to report it.
        domain, *inbound = self.inbound
        onward = (self.exim.address, self.exim.port)
        routes = {"late.postfix.test": onward, domain: inbound}
        self.postfix.run("mx.postfix.test", domains, PEOPLE, certificate("mx.postfix.test"), routes)
        self.opensmtpd.run("mx.opensmtpd.test", {"late.opensmtpd.test": onward, domain: inbound})
        domains = ["exim.test", "aliased.test", "backup.test", "othername.test"]
        ours = certificate("mx.exim.test", self.exim.address)
        self.exim.run("mx.exim.test", domains, PEOPLE, ours, self.submission_port, onward=self.postfix, back=self.inbound)

    def serve(self, *options):
        """The product with these settings, on the same store as before."""
        if self.server:
            self.server.stop()
        self.options = [*self.common, *options]
        self.server = Server(self.store, *self.options, "--log", "warn").start()
        self.server.wait()
        self.key = getattr(self, "key", None) or self.server.create_key()

    def relay(self, password):
        user, _ = Exim.LOGIN
        return f"smtp://{user}:{password.replace(' ', '%20')}@{self.exim.address}:{self.submission_port}?tls=required"

    def ask(self, method, path, body=None):
        # Making keys takes long on a busy machine.
        status, _, answer = self.server.ask(method, path, body, {"Authorization": f"Bearer {self.key}"}, timeout=120)
        assert 200 <= status < 300, f"{method} {path}: {status} {answer[:500]!r}"
        return json.loads(answer)

    def send(self, to, **fields):
        fields = {"from": f"Sender <hello@{SENDER}>", "to": to, "subject": "Hello", "text": "Hello\n"} | fields
        return self.ask("POST", "/emails", fields)["id"]

    def fate(self, id):
        """What is told of a mail, and why its recipients wait."""
        events = self.store.query(f"SELECT type, detail FROM email_events WHERE email_id = {self._id(id)} ORDER BY id")
        reasons = self.store.query(f"SELECT reason FROM email_recipients WHERE email_id = {self._id(id)}")
        return events, [reason for (reason,) in reasons if reason]

    def _id(self, id):
        return f"X'{id.replace('-', '')}'" if self.store.engine == "sqlite" else f"'{id}'"

    def expect(self, id, event):
        """Waits until this is what became of a mail."""
        began = time.monotonic()
        while (found := self.ask("GET", f"/emails/{id}")["last_event"]) != event:
            if time.monotonic() - began > WITHIN or found in ("bounced", "failed", "delivered"):
                raise AssertionError(f"{id} is {found}, not {event}: {self.fate(id)}")
            time.sleep(0.1)
        return self.fate(id)

    def command(self, *args, settings=()):
        command = [binary(), *args, *self.store.args, "--listen", f"127.0.0.1:{self.server.port}", *self.options, *settings]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=clean_env(), timeout=120)

    def end(self):
        for one in (self.exim, self.postfix, self.opensmtpd, self.unbound, self.knot):
            if hasattr(one, "process"):
                one.end()
        if self.server and self.server.process.poll() is None:
            self.server.kill()
        self.store.remove()


def mail_port(address):
    """Port 25 where it can be had."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 25))
            return 25
        except OSError:
            return free_port()

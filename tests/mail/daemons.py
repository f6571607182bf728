"""Real servers on loopback addresses of their own: Knot and Unbound for names, Postfix and Exim for mail.

Each lives in a folder of its own and ends with the test, whatever happens: it is started as the
head of a group of processes, and the group is ended by its number.
"""

import atexit
import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import dns.update

from debian import Package

STARTS_WITHIN = 20.0  # seconds
OWNER = pwd.getpwnam("daemon")  # whom servers run as that must not be root


class Daemon:
    """A process that runs in the foreground."""

    def __init__(self, folder, address, port):
        self.folder, self.address, self.port = Path(folder), address, port
        self.folder.mkdir()
        self.logs = [self.folder / "log"]  # what it prints, and then what it writes itself

    def start(self, command, env):
        with self.logs[0].open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.folder, start_new_session=True
            )
        atexit.register(self.end)
        began = time.monotonic()
        while not self.answers():
            assert self.process.poll() is None, f"{command[0]} ended with {self.process.returncode}\n{self.tail()}"
            assert time.monotonic() - began < STARTS_WITHIN, f"{command[0]} does not answer\n{self.tail()}"
            time.sleep(0.05)
        return self

    def answers(self):
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self.address, self.port)) == 0

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def tail(self, lines=15):
        text = "".join(log.read_text(errors="replace") for log in self.logs if log.exists())
        return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def own(self, *names, mode=0o700, group=OWNER.pw_gid):
        for name in names:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            os.chown(self.folder / name, OWNER.pw_uid, group)
            (self.folder / name).chmod(mode)


class Knot(Daemon):
    """Answers for zones, which it signs; records are added while it runs."""

    def run(self, signed, plain):
        self.package = Package("knot")
        (self.folder / "db").mkdir()
        zones = ""
        for name in (*signed, *plain):
            file = self.write(f"{name}.zone", f"$TTL 5\n@ SOA ns.{name}. x.{name}. 1 60 60 600 5\n@ NS ns.{name}.\nns A {self.address}\n")
            signing = "on" if name in signed else "off"
            zones += f'  - domain: {name}\n    file: "{file}"\n    dnssec-signing: {signing}\n    acl: loopback\n'
            zones += "    journal-content: all\n    zonefile-load: difference-no-serial\n    zonefile-sync: -1\n"
        self.config = self.write(
            "knot.conf",
            f'server:\n  rundir: "{self.folder}"\n  listen: {self.address}@{self.port}\n'
            f"log:\n  - target: stderr\n    any: info\n"
            f'database:\n  storage: "{self.folder}/db"\n'
            f"acl:\n  - id: loopback\n    address: 127.0.0.0/8\n    action: update\n"
            f"zone:\n{zones}",
        )
        return self.start([self.package.file("usr/sbin/knotd"), "-c", str(self.config)], self.package.env())

    def add(self, zone, name, kind, *values, ttl=5):
        """Adds records to a name, which is whole."""
        update = dns.update.Update(zone)
        for value in values:
            update.add(name.rstrip(".") + ".", ttl, kind, value)
        answer = dns.query.tcp(update, self.address, port=self.port, timeout=5)
        assert answer.rcode() == dns.rcode.NOERROR, f"{kind} {name}: {dns.rcode.to_text(answer.rcode())}\n{self.tail()}"

    def txt(self, zone, name, text):
        # A string of DNS has at most 255 bytes.
        self.add(zone, name, "TXT", " ".join(f'"{text[at : at + 255]}"' for at in range(0, len(text), 255)))

    def anchor(self, zone):
        """What a resolver has to trust to believe the zone."""
        command = [self.package.file("usr/sbin/keymgr"), "-c", str(self.config), f"{zone}.", "ds"]
        began = time.monotonic()
        while True:  # keys are made while the zone is loaded
            run = subprocess.run(command, env=self.package.env(), capture_output=True, text=True)
            for line in run.stdout.splitlines():
                if " DS " in line:
                    return line
            assert time.monotonic() - began < STARTS_WITHIN, f"{zone} has no keys: {run.stderr}\n{self.tail()}"
            time.sleep(0.1)


class Unbound(Daemon):
    """Resolves, and believes only what is signed as it should be."""

    def run(self, knot, zones, anchors):
        package = Package("unbound")
        stubs = "".join(f'stub-zone:\n  name: "{zone}."\n  stub-addr: {knot.address}@{knot.port}\n' for zone in zones)
        local = "".join(f'  local-zone: "{zone}." nodefault\n' for zone in zones)
        trusted = "".join(f'  trust-anchor: "{anchor}"\n' for anchor in anchors)
        config = self.write(
            "unbound.conf",
            f'server:\n  interface: {self.address}@{self.port}\n  directory: "{self.folder}"\n  pidfile: ""\n'
            f'  chroot: ""\n  username: ""\n  use-syslog: no\n  do-daemonize: no\n  do-ip6: no\n  verbosity: 1\n'
            f'  module-config: "validator iterator"\n  do-not-query-localhost: no\n  access-control: 127.0.0.0/8 allow\n'
            f"  cache-max-ttl: 0\n  cache-max-negative-ttl: 0\n  aggressive-nsec: no\n  val-log-level: 2\n{local}{trusted}"
            f"{stubs}remote-control:\n  control-enable: no\n",
        )
        return self.start([package.file("usr/sbin/unbound"), "-d", "-p", "-c", str(config)], package.env())

    def ask(self, name, kind):
        """The answer as it came, with what the resolver thinks of its signatures."""
        question = dns.message.make_query(name, kind, want_dnssec=True)
        return dns.query.tcp(question, self.address, port=self.port, timeout=5)

    def texts(self, name):
        """The TXT records of a name, each put together from its strings."""
        found = [record for set in self.ask(name, "TXT").answer for record in set if record.rdtype == dns.rdatatype.TXT]
        return [b"".join(record.strings) for record in found]


class MailServer(Daemon):
    """Takes mail for its domains and its people, and puts it into a Maildir for each of them."""

    def mails(self, person):
        """What came for somebody, by Message-ID, with the line ends that travelled."""
        found = {}
        for path in (self.folder / "mail" / person / "new").glob("*"):
            message = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            ids = [line.split(b":", 1)[1].strip() for line in message.split(b"\r\n\r\n")[0].split(b"\r\n") if line.lower().startswith(b"message-id:")]
            assert len(ids) == 1, f"{path}: {ids}"
            found.setdefault(ids[0].decode(), []).append(message)
        return found


class Postfix(MailServer):
    def run(self, host, domains, people, certificate, routes):
        """`routes`: where mail for other domains goes, an address and a port."""
        package = Package("postfix")
        group = "mail"
        programs = package.root / "usr/lib/postfix/sbin"
        libraries = package.root / "usr/lib/postfix"
        private = ("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private", "saved", "trace")
        self.own(*(f"queue/{name}" for name in private), "data", "mail")
        self.own("queue/public", mode=0o710, group=grp.getgrnam(group).gr_gid)
        self.own("queue/maildrop", mode=0o730, group=grp.getgrnam(group).gr_gid)
        (self.folder / "queue/pid").mkdir()
        os.chown(self.folder / "queue", 0, 0)
        (self.folder / "queue").chmod(0o755)
        for person in people:
            self.own(f"mail/{person}")
        self.write("people", "".join(f"{person}@{domain} {person}/\n" for person in people for domain in domains))
        self.write("routes", "".join(f"{domain} smtp:[{address}]:{port}\n" for domain, (address, port) in routes.items()))
        self.write("main.cf", self._settings(host, domains, package, programs, libraries, group, certificate))
        self.write("master.cf", self._services())
        self.logs.append(self.folder / "postfix.log")
        env = package.env(LD_LIBRARY_PATH=f"{libraries}:{package.libraries}", MAIL_CONFIG=str(self.folder))
        return self.start([str(programs / "master"), "-c", str(self.folder), "-d"], env)

    def _settings(self, host, domains, package, programs, libraries, group, certificate):
        settings = {
            "compatibility_level": "3.6",
            "queue_directory": self.folder / "queue",
            "data_directory": self.folder / "data",
            "command_directory": package.root / "usr/sbin",
            "daemon_directory": programs,
            "shlib_directory": libraries,
            "meta_directory": package.root / "etc/postfix",
            "mail_owner": OWNER.pw_name,
            "setgid_group": group,
            "default_privs": "nobody",
            "import_environment": f"MAIL_CONFIG={self.folder} LD_LIBRARY_PATH={libraries}:{package.libraries}",
            "maillog_file": self.folder / "postfix.log",
            "maillog_file_prefixes": self.folder,
            "myhostname": host,
            "mydestination": "",
            "mynetworks": "",
            "inet_protocols": "ipv4",
            "inet_interfaces": "all",  # services name the one that they listen on
            "alias_maps": "",
            "alias_database": "",
            "default_database_type": "texthash",
            "virtual_mailbox_domains": " ".join(domains),
            "virtual_mailbox_base": self.folder / "mail",
            "virtual_mailbox_maps": f"texthash:{self.folder}/people",
            "virtual_minimum_uid": "1",
            "virtual_uid_maps": f"static:{OWNER.pw_uid}",
            "virtual_gid_maps": f"static:{OWNER.pw_gid}",
            "transport_maps": f"texthash:{self.folder}/routes",
            "relay_domains": f"texthash:{self.folder}/routes",
            "smtpd_relay_restrictions": "reject_unauth_destination",
            "smtpd_peername_lookup": "no",
            "smtpd_tls_security_level": "may",
            "smtpd_tls_chain_files": certificate,
            "smtpd_tls_received_header": "yes",
            "smtp_dns_support_level": "disabled",
            "smtp_host_lookup": "native",
            "message_size_limit": "60000000",
            "virtual_mailbox_limit": "0",
            "mailbox_size_limit": "0",
        }
        return "".join(f"{name} = {value}\n" for name, value in settings.items())

    def _services(self):
        lines = [f"{self.address}:{self.port} inet n - n - - smtpd"]
        lines += [
            "cleanup unix n - n - 0 cleanup",
            "qmgr unix n - n 300 1 qmgr",
            "tlsmgr unix - - n 1000? 1 tlsmgr",
            "rewrite unix - - n - - trivial-rewrite",
            "bounce unix - - n - 0 bounce",
            "defer unix - - n - 0 bounce",
            "trace unix - - n - 0 bounce",
            "verify unix - - n - 1 verify",
            "flush unix n - n 1000? 0 flush",
            "proxymap unix - - n - - proxymap",
            "smtp unix - - n - - smtp",
            "relay unix - - n - - smtp",
            "error unix - - n - - error",
            "retry unix - - n - - error",
            "discard unix - - n - - discard",
            "virtual unix - n n - - virtual",
            "anvil unix - - n - 1 anvil",
            "scache unix - - n - 1 scache",
            "postlog unix-dgram n - n - 1 postlogd",
        ]
        return "".join(f"{line}\n" for line in lines)


class Exim(MailServer):
    """Also a relay for whoever logs in, on a port of its own: what it has no mailbox for goes to another server."""

    LOGIN = ("mailer", "pass word")

    def run(self, host, domains, people, certificate, submission_port, onward, back):
        package = Package("exim4-daemon-light")
        names = Package("libnss-wrapper")
        self.own("spool", "mail", "logs")
        os.chown(self.folder, OWNER.pw_uid, OWNER.pw_gid)
        # Exim looks for a user of its own before it reads its settings, and installing it would make him.
        user = f"Debian-exim:x:{OWNER.pw_uid}:{OWNER.pw_gid}::{self.folder}:/bin/false\n"
        passwd = self.write("passwd", Path("/etc/passwd").read_text() + user)
        group = self.write("group", Path("/etc/group").read_text() + f"Debian-exim:x:{OWNER.pw_gid}:\n")
        # It starts itself anew as that user, who need not be able to look into target/.
        program = shutil.copy(package.file("usr/sbin/exim4"), self.folder)
        libraries = self.folder / "lib"
        libraries.mkdir()
        for library in [*package.root.rglob("*.so*"), *names.root.rglob("*.so*")]:
            shutil.copy(library, libraries)
        env = package.env(LD_LIBRARY_PATH=str(libraries), LD_PRELOAD=str(libraries / "libnss_wrapper.so"))
        env |= {"NSS_WRAPPER_PASSWD": str(passwd), "NSS_WRAPPER_GROUP": str(group)}
        self.logs.append(self.folder / "logs" / "main")
        config = self.write("exim.conf", self._settings(host, domains, people, certificate, submission_port, onward, back, env, program))
        return self.start([program, "-C", str(config), "-bdf"], env)

    def _settings(self, host, domains, people, certificate, submission_port, onward, back, env, program):
        user, password = self.LOGIN
        known = " : ".join(people)
        return f"""
exim_path = {program}
primary_hostname = {host}
spool_directory = {self.folder}/spool
log_file_path = {self.folder}/logs/%s
local_interfaces = {self.address}
daemon_smtp_ports = {self.port} : {submission_port}
deliver_drop_privilege = true
keep_environment = {" : ".join(name for name in env if name != "PATH")}
host_lookup =
tls_advertise_hosts = *
tls_certificate = {certificate}
auth_advertise_hosts = ${{if eq{{$tls_in_cipher}}{{}}{{}}{{*}}}}
smtputf8_advertise_hosts = *
message_size_limit = 60M
acl_smtp_connect = check_host
acl_smtp_rcpt = check_recipient
domainlist local_domains = {" : ".join(domains)}

begin acl
check_host:
  accept control = dkim_disable_verify
check_recipient:
  accept authenticated = *
  require message = relay not permitted
          domains = +local_domains
  require message = no such user
          verify = recipient
  accept

begin routers
mailbox:
  driver = accept
  domains = +local_domains
  local_parts = {known}
  transport = maildir
back:
  driver = manualroute
  domains = {back[0]}
  transport = back
  route_list = * {back[1]}
  self = send
onward:
  driver = manualroute
  domains = ! +local_domains
  transport = remote
  route_list = * {onward.address}
  self = send

begin transports
maildir:
  driver = appendfile
  directory = {self.folder}/mail/$local_part_data
  maildir_format
  create_directory
  envelope_to_add
  return_path_add
remote:
  driver = smtp
  port = {onward.port}
back:
  driver = smtp
  port = {back[2]}

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = ${{if and{{{{eq{{$auth2}}{{{user}}}}}{{eq{{$auth3}}{{{password}}}}}}}}}
  server_set_id = $auth2
"""

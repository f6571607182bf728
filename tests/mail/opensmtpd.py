"""OpenSMTPD on a loopback address of its own."""

from daemons import OWNER, Daemon
from debian import Package

# Its folders are where it was built for, and its users those that installing it would make. Both are there
# for itself alone, in a view of the file system that ends with it.
OWN_VIEW = """
set -e
for folder in /var/spool /var/lib /run; do mount -t tmpfs none "$folder"; done
for file in passwd group; do mount --bind "$1/$file" "/etc/$file"; done
mkdir -p -m 755 /var/lib/opensmtpd
mkdir -m 711 /var/spool/smtpd /var/lib/opensmtpd/empty
exec "$2" -d -f "$1/smtpd.conf"
"""


class OpenSmtpd(Daemon):
    """A relay: it takes any mail for some domains, and hands it to the servers that it was told of."""

    def run(self, host, routes):
        """`routes`: where mail for a domain goes, an address and a port."""
        program = Package("opensmtpd").file("usr/sbin/smtpd")
        for name in ("passwd", "group"):
            of_user = f"{OWNER.pw_gid}::/:/bin/false" if name == "passwd" else ""
            users = "".join(f"{user}:x:{900 + at}:{of_user}\n" for at, user in enumerate(("opensmtpd", "opensmtpq")))
            with open(f"/etc/{name}") as own:
                self.write(name, own.read() + users)
        lines = [f"listen on {self.address} port {self.port} hostname {host}"]
        for number, (domain, (address, port)) in enumerate(routes.items()):
            lines.append(f'action "to{number}" relay host smtp://{address}:{port}')
            lines.append(f'match from any for domain "{domain}" action "to{number}"')
        self.write("smtpd.conf", "".join(f"{line}\n" for line in lines))
        return self.start(["unshare", "--mount", "sh", "-c", OWN_VIEW, "sh", str(self.folder), program], None)

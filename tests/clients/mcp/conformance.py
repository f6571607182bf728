"""The official conformance runner of the Model Context Protocol, against the endpoint at `/mcp`.

Started by ../run, which sets RESEND_BASE_URL, RESEND_API_KEY, NODE, CONFORMANCE (the runner), CONFORMANCE_CLIENT
(a public client of OAuth) and who the PERSON is. The runner shows no credential, so it talks to a door before
the server that adds one; whatever it says of itself, hosts and origins included, passes as it is.
"""

import http.client
import http.server
import os
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from server import free_port

BASE = os.environ["RESEND_BASE_URL"]
AUTHORITY = urllib.parse.urlsplit(BASE).netloc
# The revisions of the protocol, each with what it requires of a server.
REVISIONS = ("2025-11-25", "2026-07-28")
# Of one hop, not of the message.
OF_HOP = ("connection", "transfer-encoding", "keep-alive", "content-length")


class Door(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        mine = f"127.0.0.1:{self.server.server_port}", f"localhost:{self.server.server_port}"
        headers = {}
        for name, value in self.headers.items():
            for authority in mine:
                if name.lower() in ("host", "origin") and value.removeprefix("http://") == authority:
                    value = value.replace(authority, AUTHORITY)
            if name.lower() not in OF_HOP:
                headers[name] = value
        headers["Authorization"] = f"Bearer {os.environ['RESEND_API_KEY']}"
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        server = http.client.HTTPConnection(AUTHORITY, timeout=60)
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            server.putheader(name, value)
        server.endheaders(body)
        answer = server.getresponse()
        told = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OF_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)
        server.close()

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


class Doors(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """The runner leaves some of its connections without a word."""


def runner(*arguments):
    return [os.environ["NODE"], os.environ["CONFORMANCE"], *arguments]


def authorization():
    """Its suite for authorization servers; the person answers at the address that it prints."""
    port = free_port()
    command = runner("authorization", "--url", BASE, "--client-id", os.environ["CONFORMANCE_CLIENT"])
    command += ["--resource", f"{BASE}/mcp", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        print(line, end="", flush=True)
        if line.startswith(f"{BASE}/oauth/authorize?"):
            subprocess.run([os.environ["PERSON"], "--visit", line.strip()], check=True, stdout=subprocess.DEVNULL)
    return process.wait() == 0


def server(revision, door):
    """What a revision of the protocol requires of servers."""
    command = runner("server", "--url", f"http://127.0.0.1:{door}/mcp", "--requirements", revision)
    command += ["--expected-failures", str(HERE / f"expected-{revision}.yml")]
    return subprocess.run(command).returncode == 0


def main():
    door = Doors(("127.0.0.1", 0), Door)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    results = {"authorization": authorization()}
    results |= {revision: server(revision, door.server_port) for revision in REVISIONS}
    if failed := [name for name, passed in results.items() if not passed]:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()

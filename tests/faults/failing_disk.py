"""A disk that fails when it is told to, writers that know they may be refused, and what must hold afterwards."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from load import Load, WRITERS, exchange, verify
from scene import ask

ENDED_WITHIN = 10.0  # seconds after the store has failed
PAUSE = 0.05  # seconds for which a writer waits that was refused


class Disk:
    """The disk under every process that is started from here on, and what makes it fail."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="posthorn-disk-"))
        markers = ("full", "broken", "flush", "pretend", "lost", "open", "power")
        self.markers = {name: self.dir / name for name in markers}
        self.full, self.flush, self.power = (self.markers[name] for name in ("full", "flush", "power"))
        source, library = Path(__file__).resolve().with_name("failing_disk.c"), self.dir / "failing_disk.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        os.environ |= {f"FAILING_DISK_{name.upper()}": str(path) for name, path in self.markers.items()}
        os.environ["LD_PRELOAD"] = str(library)

    def mend(self):
        for path in self.markers.values():
            path.unlink(missing_ok=True)

    def remove(self):
        del os.environ["LD_PRELOAD"]
        shutil.rmtree(self.dir, ignore_errors=True)


class Writers(Load):
    """The writers of `load.py`, who here only create events and know that they may be refused."""

    def __init__(self, server, key):
        super().__init__(server.port, key, client_id=None)
        self.acknowledged = []  # (sent, answered), by the monotonic clock
        self.refused = {}  # name -> (sent, answered)
        self.served = [0.0] * WRITERS  # when each sent the last request that was acknowledged

    async def _create(self, history, reader, writer, mark):
        history.sent_events.add(mark)
        sent = time.monotonic()
        request = ask(self.key, "/events", mark, {"name": mark, "schema": {"plan": "string"}})
        status, head, body = await exchange(reader, writer, request)
        times = (sent, time.monotonic())
        if status == 201:
            history.events[json.loads(body)["id"]] = mark
            self.acknowledged.append(times)
            self.served[int(mark.split(".")[1])] = sent
        elif is_refusal(status, re.search(r"\r\nretry-after: *\d+\r\n", head, re.I), body):
            self.refused[mark] = times
            await asyncio.sleep(PAUSE)
        else:
            history.wrong.append(f"{mark}: {status} {head!r} {body[:200]!r}")

    _authorize = _create


def is_refusal(status, retry_after, body):
    """Whether an answer is a 503 as it should be: in the envelope, and with the header that says when to come back."""
    if status != 503 or not retry_after:
        return False
    envelope = json.loads(body)
    return list(envelope) == ["statusCode", "name", "message"] and envelope["statusCode"] == 503


def compare(store, history, problems):
    """Holds the store against what the writers remember; fails with all that is wrong."""
    problems = problems + verify(store, history, client_id=None)
    assert not problems, f"{len(problems)} problems, the first of them:\n  " + "\n  ".join(problems[:20])


def sound(store):
    assert (integrity := store.integrity()) == "ok", f"integrity check: {integrity}"


def stop_whole(server, events):
    """Stops the server; all these events of its processes must be there, in a sound store."""
    server.stop()
    stored = dict(server.store.query("SELECT id, name FROM events"))
    lost = [name for event, name in events.items() if stored.get(event) != name]
    assert not lost, f"{len(lost)} events were lost later, the first of them {lost[0]}"
    sound(server.store)


def ended(server, since):
    """Waits for the end of a process that nobody told to stop; returns the seconds."""
    try:
        code = server.process.wait(ENDED_WITHIN)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"still running {ENDED_WITHIN:.0f} s after the store failed") from None
    assert code > 0, f"exit code {code} after the store failed"
    return time.monotonic() - since

"""Scenarios of `disk.py` in which a process must not trust what it has: its log, its disk, its files."""

import asyncio
import signal
import subprocess
import time
from pathlib import Path

from failing_disk import ENDED_WITHIN, Writers, compare, ended, sound, stop_whole
from load import History

LOAD = 1.0  # seconds of writing before each fault
ENOUGH = 100  # events acknowledged before it, or it proves nothing
AT_MOST = 60.0  # seconds that a slow machine is given for them
FLUSHES = 4  # that fail and seem to succeed later

# ---- pretend ----------------------------------------------------------------


def pretend(disk, server):
    """What a flush could not keep is shown to the next process, which must not build on it."""
    key = server.create_key()
    events, starts = {}, []
    for number in range(1, FLUSHES + 1):
        first, second = History(f"before{number}"), History(f"after{number}")
        _, late = asyncio.run(under_load(server, key, first, disk.markers["pretend"].touch))
        assert not late, f"{late} writes sent and acknowledged after the failed flush"
        note = noted(server)
        assert note.exists(), "no note was left for the next start"
        server.start()
        starts.append(server.wait())
        assert not note.exists(), "the note was not heeded"
        asyncio.run(under_load(server, key, second, disk.power.touch, end=cut_off))
        server.start().wait()
        for history in (first, second):
            compare(server.store, history, [])
            assert len(history.events) >= ENOUGH, f"only {len(history.events)} events acknowledged: that proves nothing"
            events |= history.events
    stop_whole(server, events)
    return (
        f"{FLUSHES} flushes failed that seemed to succeed later, the power cut after each, {len(events)} events"
        f" acknowledged, missing=0, checked and ready again after {max(starts) * 1000:.0f} ms at worst"
    )


def noted(server):
    """What a process leaves behind when the disk has failed."""
    return Path(server.store.dir) / "posthorn.db-failed"


async def under_load(server, key, history, injure, end=ended):
    """Lets writers write, does something to the store, and waits for the end of the process; returns the
    seconds that took, and how many requests were sent after it and acknowledged all the same."""
    writers = Writers(server, key)
    injured = took = 0.0

    async def until():
        nonlocal injured, took
        await until_enough(history)
        injure()
        injured = time.monotonic()
        took = await asyncio.to_thread(end, server, injured)

    await writers.run(history, until)
    return took, sum(sent > injured for sent, _ in writers.acknowledged)


async def until_enough(history):
    began = time.monotonic()
    await asyncio.sleep(LOAD)
    while len(history.events) < ENOUGH and time.monotonic() - began < AT_MOST:
        await asyncio.sleep(0.05)


def cut_off(server, since):
    """Waits for the end that a power cut brings; returns the seconds."""
    code = server.process.wait(ENDED_WITHIN)
    assert code == -signal.SIGKILL, f"exit code {code} instead of a power cut"
    return time.monotonic() - since


# ---- open -------------------------------------------------------------------


def open_(disk, server):
    """A process is killed before it has flushed; the next one flushes first, or does not start."""
    key, history = server.create_key(), History("open")

    async def end():
        await until_enough(history)
        server.kill()

    asyncio.run(Writers(server, key).run(history, end))
    disk.markers["open"].touch()
    server.start()
    try:
        code = server.process.wait(ENDED_WITHIN)
    except subprocess.TimeoutExpired:
        raise AssertionError("it serves from a log that it has not flushed") from None
    assert code > 0 and not disk.markers["open"].exists(), f"exit code {code}"
    assert "Dashboard" not in server.log.read_text(), "it was open for business before it had flushed"
    server.start().wait()
    compare(server.store, history, [])
    stop_whole(server, history.events)
    return f"a start without a flush refused, {len(history.events)} events acknowledged, missing=0"


# ---- gone -------------------------------------------------------------------


def gone(disk, server):
    """Whatever takes the store away, nothing is acknowledged after it and the process ends with an error."""
    folder, moved = Path(server.store.dir), Path(f"{server.store.dir}-moved")
    broken = disk.markers["broken"]

    def unlink(suffix):
        (folder / f"posthorn.db{suffix}").unlink()

    cases = {
        "eio": (lambda: broken.touch(), lambda: broken.unlink()),
        "read-only": (lambda: broken.write_text("read-only"), lambda: broken.unlink()),
        "folder": (lambda: folder.rename(moved), lambda: moved.rename(folder)),
        "log": (lambda: unlink("-wal"), None),
        "store": (lambda: unlink(""), None),
    }
    figures = []
    for name, (injure, mend) in cases.items():
        key, history = server.create_key(), History(name.replace("-", ""))
        took, late = asyncio.run(under_load(server, key, history, injure))
        assert not late, f"{name}: {late} writes sent and acknowledged after it"
        assert len(history.events) >= ENOUGH, f"{name}: only {len(history.events)} events acknowledged: that proves nothing"
        if mend:
            mend()
        else:  # nobody can bring back what somebody deleted
            for path in folder.iterdir():
                path.unlink()
        server.start().wait()
        if mend:
            compare(server.store, history, [])
            sound(server.store)
        figures.append(f"{name} {took * 1000:.0f} ms")
    server.stop()
    sound(server.store)
    return f"ended with an error after: {', '.join(figures)}; acknowledged afterwards=0, missing=0"

"""The history checker: what the store holds after all runs have ended, against what the senders were told.

Everything acknowledged is there, whole and once; whatever it starts has come to its
end, by the right way, and has had its effect once. Every row is looked at.
"""

import json
import time
from collections import Counter, defaultdict

from scene import DELAY, HIGH, PAID, PLACED, TIMEOUT

# The wait for the end: a claim of a killed process is free after 20 seconds, the rest is work.
DRAIN_LIMIT = 90.0

# Microseconds by which the time of two processes on one store may differ: a run that one of them
# began and another one goes on with is late or early by no more.
APART = 20_000


def drain(store):
    """Waits until no run and no mail is under way; returns the seconds until the last run ended."""
    began = time.monotonic()
    drained = until_none(store, began, "runs", "SELECT count(*) FROM runs WHERE status = 'running'")
    until_none(store, began, "mails", "SELECT count(*) FROM email_recipients WHERE due_at IS NOT NULL")
    return drained


def until_none(store, began, what, sql):
    while True:
        left = int(store.query(sql)[0][0])
        elapsed = time.monotonic() - began
        if left == 0:
            return elapsed
        if elapsed > DRAIN_LIMIT:
            raise AssertionError(f"{left} {what} have not ended after {DRAIN_LIMIT:.0f} s: {stuck(store)}")
        time.sleep(0.5)


def stuck(store):
    """Some of the runs that do not end, for the message about it."""
    return store.query("SELECT id, attempt, settled, due_at, waiting_for, state FROM runs WHERE status = 'running' LIMIT 3")


def when_made(id_):
    """The microseconds of the millisecond in which an id was made."""
    return int(id_.replace("-", "")[:12], 16) * 1000


class Check:
    """One look at everything; `problems` is empty when all is well, `figures` says how much there was."""

    def __init__(self, store, scene, told):
        self.scene, self.told = scene, told
        self.problems = list(told.wrong)
        self.figures = Counter()
        self._read(store)
        self._occurrences()
        self._runs()
        self._mail()
        self._contacts()
        integrity = store.integrity()
        if integrity != "ok":
            self.problems.append(f"integrity check: {integrity}")

    def _read(self, store):
        self.contacts, self.addresses = {}, {}
        for contact, email, sequence, name in store.query("SELECT id, email, sequence, first_name FROM contacts"):
            self.contacts[contact] = (email, int(sequence), name)
            if self.addresses.setdefault(email, contact) != contact:
                self.problems.append(f"twice: contact {email}")
        self.occurrences, self.histories = {}, defaultdict(list)
        sql = "SELECT id, name, contact_id, seq, payload, created_at FROM occurrences"
        for occurrence, name, contact, seq, payload, created in store.query(sql):
            row = {"id": occurrence, "name": name, "contact": contact, "seq": int(seq), "at": int(created)}
            row |= {"payload": json.loads(payload)}
            self.occurrences[occurrence] = row
            self.histories[contact].append(row)
        for rows in self.histories.values():
            rows.sort(key=lambda row: row["seq"])
        self.runs = {}
        sql = "SELECT id, automation_id, contact_id, occurrence_id, since, status, due_at, attempt, state FROM runs"
        for run, automation, contact, occurrence, since, status, due, attempt, state in store.query(sql):
            row = {"automation": automation, "contact": contact, "occurrence": occurrence, "since": int(since)}
            row |= {"status": status, "due": due, "attempt": int(attempt), "state": json.loads(state)}
            if run in self.runs:
                self.problems.append(f"twice: run {run}")
            self.runs[run] = row
        sql = "SELECT e.id, e.run_id, e.step, r.address, e.text FROM emails e JOIN email_recipients r ON r.email_id = e.id"
        self.mails = store.query(sql)
        self.delivered = Counter(
            mail for (mail,) in store.query("SELECT email_id FROM email_events WHERE type = 'delivered'")
        )
        self.members = store.query("SELECT segment_id, contact_id FROM segment_members")
        self.answers = store.query("SELECT key, answer FROM idempotency_keys WHERE scope = 'POST /events/send'")

    def _occurrences(self):
        """Everything acknowledged happened, once; nothing happened that nobody sent."""
        told = self.told
        stored = defaultdict(list)
        for row in self.occurrences.values():
            if row["name"] in (PLACED, PAID):
                stored[row["payload"].get("mark")].append(row)
        for mark, (occurrence, _) in told.acknowledged.items():
            if occurrence not in self.occurrences:
                self.problems.append(f"lost: {mark}, acknowledged as {occurrence}")
        for mark, rows in stored.items():
            order = told.sent.get(mark)
            if order is None:
                self.problems.append(f"invented: {rows[0]}")
                continue
            if len(rows) > 1:
                self.problems.append(f"twice: {mark} is {[row['id'] for row in rows]}")
            row = rows[0]
            email = self.contacts.get(row["contact"], ("nobody",))[0]
            if (row["name"], email, row["payload"]["total"]) != (order.event, order.email, order.total):
                self.problems.append(f"changed: {mark} is {row}, contact {email}")
            if told.acknowledged.get(mark, (None,))[0] != row["id"]:
                self.problems.append(f"mixed up: {mark} is {row['id']}, acknowledged {told.acknowledged.get(mark)}")
        unanswered = [mark for mark in told.sent if mark not in told.acknowledged]
        if unanswered:
            self.problems.append(f"never answered: {unanswered[:5]}")
        for key, answer in self.answers:
            if json.loads(answer)["id"] != told.acknowledged.get(key, (None,))[0]:
                self.problems.append(f"the key {key} stands for {answer}, told was {told.acknowledged.get(key)}")
        self.figures["events"] = len(told.acknowledged)

    def _runs(self):
        """Three runs an order, all of them at their end, by the way that is right for them."""
        started = defaultdict(Counter)
        for run in self.runs.values():
            started[run["occurrence"]][run["automation"]] += 1
        whole = Counter(self.scene.automations)
        for occurrence, row in self.occurrences.items():
            expected = whole if row["name"] == PLACED else Counter()
            if started.pop(occurrence, Counter()) != expected:
                self.problems.append(f"partial: {row['name']} {occurrence} has not one run of each automation")
        self.problems += [f"a run of the unknown occurrence {occurrence}" for occurrence in started]
        judges = {self.scene.mailing: self._mailing, self.scene.changing: self._changing}
        judges[self.scene.waiting] = self._waiting
        for id_, run in self.runs.items():
            cause = self.occurrences.get(run["occurrence"])
            trace = run["state"]["trace"]
            at_end = run["state"]["position"] == {"at": "ended", "how": "completed"}
            if run["status"] != "completed" or run["due"] is not None or not at_end:
                self.problems.append(f"not completed: run {id_} is {run}")
            elif cause is None or (run["contact"], run["since"]) != (cause["contact"], cause["seq"]):
                self.problems.append(f"the run {id_} does not belong to its occurrence: {run}, {cause}")
            elif any(entry["status"] != "completed" or not entry["completed_at"] for entry in trace):
                self.problems.append(f"a step of the run {id_} is not completed: {trace}")
            else:
                complaint = judges[run["automation"]](run, cause, {e["key"]: e for e in trace}, [e["key"] for e in trace])
                if complaint:
                    self.problems.append(f"run {id_}: {complaint}; {trace}")
        self.figures["runs"] = len(self.runs)

    def _mailing(self, run, _cause, steps, way):
        self.figures["lost claims"] += run["attempt"] - 1
        if way != ["start", "delay", "join", "mail"]:
            return f"took the way {way}"
        if steps["delay"]["completed_at"] < steps["delay"]["started_at"] + DELAY - APART:
            return "woke too early"
        return None

    def _changing(self, run, cause, _steps, way):
        self.figures["lost claims"] += run["attempt"] - 1
        high = cause["payload"]["total"] > HIGH
        self.figures["changes"] += high
        if way != ["start", "high", "change" if high else "low"]:
            return f"took the way {way}, the total is {cause['payload']['total']}"
        return None

    def _waiting(self, run, _cause, steps, way):
        """The payment if it happened in time, else the timeout. Who was told of the payment only after
        the run had decided cannot complain: the two were at the same moment."""
        if way not in (["start", "wait", "paid"], ["start", "wait", "late"]):
            return f"took the way {way}"
        wait = steps["wait"]
        deadline, decided = wait["started_at"] + TIMEOUT, wait["completed_at"]
        heard = [row for row in self.histories[run["contact"]] if row["name"] == PAID and row["seq"] > run["since"]]
        latest = deadline + APART if way[-1] == "paid" else deadline - APART
        # An event happens when its request came, which its id tells; it is stored a little later.
        came = lambda row: min(row["at"], when_made(row["id"])) if way[-1] == "paid" else row["at"]
        in_time = [row for row in heard if came(row) <= latest]
        self.figures[way[-1]] += 1
        if way[-1] == "paid":
            if not in_time or wait["output"].get("occurrence_id") != in_time[0]["id"]:
                return f"went on with the wrong payment of {heard}, deadline {deadline}"
            return None
        told = [self.told.acknowledged.get(row["payload"]["mark"], (None, decided + 1))[1] for row in in_time]
        if decided < deadline - APART or any(at <= decided for at in told):
            return f"timed out at {decided}, deadline {deadline}, in spite of {in_time} told at {told}"
        self.figures["close"] += bool(in_time)
        return None

    def _mail(self):
        """One mail for each run of the automation that mails, delivered once, and none besides."""
        mailing = {id_ for id_, run in self.runs.items() if run["automation"] == self.scene.mailing}
        per_run = Counter(run for _, run, *_ in self.mails)
        self.problems += [f"{per_run[run]} mails of run {run}" for run in mailing if per_run[run] != 1]
        for mail, run, step, recipient, says in self.mails:
            if run not in mailing or step != "mail":
                self.problems.append(f"mail {mail} of {(run, step)} that nobody ordered")
                continue
            row = self.runs[run]
            mark = self.occurrences.get(row["occurrence"], {"payload": {}})["payload"].get("mark")
            if (recipient, says) != (self.contacts.get(row["contact"], (None,))[0], mark):
                self.problems.append(f"mail {mail} of run {run} goes to {recipient} about {says}, not {mark}")
            if self.delivered[mail] != 1:
                self.problems.append(f"mail {mail} of run {run} was delivered {self.delivered[mail]} times")
        self.figures["mails"] = len(self.mails)

    def _contacts(self):
        """A contact's sequence counts what happened to it and what steps did to it: any more was done twice."""
        changes, marks = Counter(), defaultdict(set)
        mailed = {(self.scene.segment, run["contact"]) for run in self.runs.values()}
        for run in self.runs.values():
            cause = self.occurrences.get(run["occurrence"])
            if run["automation"] == self.scene.changing and cause and cause["payload"]["total"] > HIGH:
                changes[run["contact"]] += 1
                marks[run["contact"]].add(cause["payload"]["mark"])
        for contact, (email, sequence, name) in self.contacts.items():
            history = self.histories[contact]
            sent = [row for row in history if row["name"] in (PLACED, PAID)]
            if sequence != 1 + len(sent) + changes[contact]:
                self.problems.append(
                    f"contact {email} is at {sequence} after {len(sent)} events and {changes[contact]} changes"
                )
            told = [row for row in history if row["name"] == "svc:contact.updated"]
            if len(told) != changes[contact]:
                self.problems.append(f"{len(told)} changes of {email} were told, not {changes[contact]}")
            if len({row["seq"] for row in history}) != len(history) or len(history) != len(sent) + len(told):
                self.problems.append(f"what happened to {email} has no order: {history}")
            if name not in (marks[contact] or {None}):
                self.problems.append(f"contact {email} is called {name!r}, not one of {marks[contact]}")
        if sorted(self.members) != sorted(mailed):
            self.problems.append(f"{len(self.members)} members of the segment, not {len(mailed)}")
        self.figures["members"] = len(self.members)


def verify(store, scene, told, least):
    """Checks all of it, and that there was at least so much of everything; returns the figures."""
    check = Check(store, scene, told)
    for name, count in least.items():
        if check.figures[name] < count:
            check.problems.append(f"only {check.figures[name]} {name}, fewer than {count}: that proves nothing")
    if check.problems:
        shown = "\n  ".join(str(problem)[:1000] for problem in check.problems[:20])
        raise AssertionError(f"{len(check.problems)} problems, the first of them:\n  {shown}")
    return check.figures

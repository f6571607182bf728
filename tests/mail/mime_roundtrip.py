#!/usr/bin/env python3
"""Random letters in any script, composed, and read back by Python's `email`.

    cargo build --example compose && tests/mail/mime_roundtrip.py [--rounds N] [--seed N]

Every name, subject, header, text, file name and file has to come back as it was given, without
a defect that `email` would complain of, and no line may be longer than a server has to take.
"""

import argparse
import base64
import email
import email.policy
import email.utils
import random
import re
import sys
from email.header import decode_header, make_header

from letters import composed

SCRIPTS = [
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0xA1, 0xFF),
    (0x391, 0x3C9),
    (0x410, 0x44F),
    (0x5D0, 0x5EA),
    (0x627, 0x64A),
    (0x905, 0x939),
    (0x4E00, 0x9FFF),
    (0x1F300, 0x1F64F),
]
TRICKY = ["=?utf-8?q?a?=", '"', "\\", ",", ";", "<x@y>", "()", "  ", "a" * 90, "=", "?=", "'", "%20", ".", "--=_", "@"]
LINES = ["\n", "\r\n", "\r", "\n.\n", "\nFrom x\n", " \n", "\t\n", "x" * 1200, "\n\n", "\0", "\x1b"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    dice = random.Random(options.seed)
    letters = [letter(dice) for _ in range(options.rounds)]
    _, messages = composed(letters)
    wrong = 0
    for given, message in zip(letters, messages):
        try:
            check(given, message)
        except Exception as problem:
            wrong += 1
            print(f"FAILED: {problem!r:.2000}\n  given: {given!s:.2000}\n  message: {message!r:.4000}", flush=True)
            if wrong == 5:
                break
    size = sum(map(len, messages))
    print(f"{len(messages)} messages, {size} bytes, longest line {longest_line(messages)}: {wrong} wrong")
    sys.exit(1 if wrong else 0)


# ---- letters ---------------------------------------------------------------


def letter(dice):
    return {
        "from": mailbox(dice, 0),
        "to": [mailbox(dice, at + 1) for at in range(dice.randint(1, 5))],
        "cc": [mailbox(dice, at + 10) for at in range(dice.randint(0, 2))],
        "reply_to": [mailbox(dice, 20)] if dice.random() < 0.3 else [],
        "subject": words(dice, 12),
        "headers": [[f"X-Header-{at}", words(dice, 20).strip()] for at in range(dice.randint(0, 2))],
        "text": text(dice) if dice.random() < 0.7 else None,
        "html": text(dice) if dice.random() < 0.7 else None,
        "stored": dice.random() < 0.3,
        "attachments": [attachment(dice, at) for at in range(dice.choice([0, 0, 1, 2, 3]))],
    }


def mailbox(dice, number):
    name = words(dice, 4).strip()[:200]
    address = f"person-{number}@example.com"
    if not name or dice.random() < 0.2:
        return address
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{address}>'


def words(dice, most):
    """One line."""
    return "".join(word(dice) for _ in range(dice.randint(0, most)))


def word(dice):
    if dice.random() < 0.15:
        return dice.choice(TRICKY)
    start, end = dice.choice(SCRIPTS)
    return "".join(chr(dice.randint(start, end)) for _ in range(dice.randint(1, 12))) + dice.choice(["", " "])


def text(dice):
    return "".join(dice.choice(LINES) if dice.random() < 0.3 else word(dice) for _ in range(dice.randint(0, 40)))


def attachment(dice, number):
    return {
        "filename": "f" + words(dice, 6)[:200].strip() + dice.choice(["", ".pdf", ".tar.gz"]),
        "content_type": dice.choice(["image/png", "application/pdf", "text/csv; charset=utf-8", "message/rfc822"]),
        "content_id": f"id-{number}" if dice.random() < 0.4 else None,
        "content": base64.b64encode(dice.randbytes(dice.choice([0, 1, 57, 58, 500, 5000]))).decode(),
    }


# ---- what they have to be read as ------------------------------------------


def check(given, message):
    assert isinstance(message, bytes), message
    message.decode("ascii")
    read = email.message_from_bytes(message, policy=email.policy.default)
    for part in read.walk():
        assert not part.defects, part.defects
        for name, value in part.items():
            # A file name is told twice: as RFC 2231 wants it, and in ASCII.
            defects = [one for one in value.defects if name != "Content-Disposition" or "duplicate" not in str(one)]
            assert not defects, (name, defects)
    names = [name for name in read.keys() if not name.startswith(("X-", "Content-", "DKIM-"))]
    wanted = ["Date", "From", "To", "Cc", "Reply-To", "Subject", "Message-ID", "MIME-Version"]
    absent = [name for name, value in (("Cc", given["cc"]), ("Reply-To", given["reply_to"])) if not value]
    equal("names", names, [name for name in wanted if name not in absent])
    equal("subject", read["Subject"], given["subject"])
    for name, value in given["headers"]:
        if not value.isascii():  # ASCII goes as it is: what looks like an encoded word is one
            equal(name, read[name], value)
    # By the older reader: the newer one shows the white space between encoded words of a name.
    fields = email.message_from_bytes(message)
    for field in ("from", "to", "cc", "reply_to"):
        sent = [given[field]] if field == "from" else given[field]
        got = email.utils.getaddresses(fields.get_all(field.replace("_", "-"), []))
        got = [(str(make_header(decode_header(name))), address) for name, address in got]
        equal(field, got, [name_and_address(one) for one in sent])
    check_contents(given, read)
    longest = longest_line([message])
    assert longest <= 998, f"a line of {longest}"


def check_contents(given, read):
    leaves = [part for part in read.walk() if not part.is_multipart()]
    texts = [value for value in (given["text"], given["html"]) if value is not None]
    if not texts and not given["attachments"]:
        texts = [""]
    for part, sent in zip(leaves[: len(texts)], texts):
        got = part.get_payload(decode=True).decode()
        sent = sent.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
        # A message that is one text ends with a line break.
        assert got == sent or (not read.is_multipart() and got == sent + "\r\n"), (got, sent)
    is_shown = lambda file: file["content_id"] is not None and given["html"] is not None
    files = sorted(given["attachments"], key=lambda file: not is_shown(file))
    parts = [part for part in leaves if part.get_content_disposition()]
    equal("files", len(parts), len(files))
    for part, file in zip(parts, files):
        equal("file name", part.get_filename(), file["filename"])
        equal("disposition", part.get_content_disposition(), "inline" if is_shown(file) else "attachment")
        equal("id", part["Content-ID"], file["content_id"] and f"<{file['content_id']}>")
        equal("content", part.get_payload(decode=True), base64.b64decode(file["content"]))


def name_and_address(mailbox):
    if not mailbox.endswith(">"):
        return "", mailbox
    name, address = mailbox[:-1].rsplit(" <", 1)
    return re.sub(r"\\(.)", r"\1", name[1:-1]).strip(), address


def equal(what, got, wanted):
    assert got == wanted, f"{what}: {got!r} instead of {wanted!r}"


def longest_line(messages):
    return max(len(line) for message in messages for line in message.split(b"\r\n"))


if __name__ == "__main__":
    main()

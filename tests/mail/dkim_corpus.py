#!/usr/bin/env python3
"""Our signatures, checked by a stranger: `dkimpy` (with PyNaCl for Ed25519).

    cargo build --example compose && tests/mail/dkim_corpus.py

Messages that have broken signatures elsewhere are signed with both kinds of keys; every
signature has to hold, and none may hold once the message was changed.
"""

import base64
import sys

import dkim

from letters import composed

HEAD = "Date: Mon, 16 Nov 2026 02:07:25 +0000\r\nFrom: Ada <ada@example.com>\r\nTo: bob@example.com\r\nSubject: x\r\n"
TEXTS = {
    "empty": "",
    "no final newline": "hello",
    "trailing blank lines": "hello\r\n\r\n\r\n",
    "trailing lines of spaces": "hello \t\r\n  \r\n\t\r\n \t \r\n",
    "only blank lines": "\r\n\r\n \r\n",
    "spaces within lines": "a  b\t\tc \t d\r\n   e\r\n",
    "998 bytes a line": ("x" * 998 + "\r\n") * 3,
    "leading dots": ".\r\n..\r\n.hidden\r\n\r\n.\r\n",
    "8bit": "Grüße 📯 Ωμέγα\r\n",
    "From lines": "From here\r\n>From there\r\n",
    "20 MB": "0123456789 abcdef\r\n" * 1_100_000,
}
HEADS = {
    "folded UTF-8 subject": HEAD.replace("Subject: x", "Subject: =?utf-8?q?Gr=C3=BC?=\r\n =?utf-8?q?=C3=9Fe?=\r\n\tand more"),
    "raw UTF-8 subject": HEAD.replace("Subject: x", "Subject: Grüße 📯"),
    "repeated fields": HEAD + "References: <1@x>\r\nReferences: <2@x>\r\nX-A: 1\r\nX-A: 2\r\nTo: eve@example.com\r\n",
    "odd white space": HEAD.replace("Subject: x", "SUBJECT:  a \t b  \r\n \t c ").replace("From: ", "from:"),
    "empty fields": HEAD.replace("Subject: x", "Subject:") + "Reply-To: \r\n",
    "lists": HEAD + "List-Unsubscribe: <https://example.com/u>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
}


def main():
    letter = {
        "from": "Адà <ada@example.com>",
        "to": ["bob@example.com"] * 50,
        "subject": "Grüße " * 40,
        "text": "hello",
        "html": "<p>Grüße</p>" * 500,
        "headers": [["List-Unsubscribe", "<https://example.com/u>"], ["X-Long", "word " * 200]],
        "attachments": [{"filename": "ü.bin", "content_type": "a/b", "content": base64.b64encode(bytes(70000)).decode()}],
    }
    corpus = {name: {"raw": raw(HEAD, text)} for name, text in TEXTS.items()}
    corpus |= {name: {"raw": raw(head, "hello\r\n")} for name, head in HEADS.items()}
    corpus |= {"composed": letter, "composed, stored": letter | {"stored": True}, "plain": letter | {"html": None}}
    records, messages = composed(list(corpus.values()))
    failed = [problem for name, message in zip(corpus, messages) for problem in problems(name, message, records)]
    for problem in failed:
        print(f"FAILED: {problem}")
    print(f"{len(messages)} messages, {2 * len(messages)} signatures by {', '.join(records)}: {len(failed)} wrong")
    sys.exit(1 if failed else 0)


def raw(head, body):
    return base64.b64encode(f"{head}MIME-Version: 1.0\r\n\r\n{body}".encode()).decode()


def problems(name, message, records):
    for number in range(2):
        if not holds(message, number, records):
            yield f"{name}: signature {number} does not hold"
        for what, changed in changes(message) if len(message) < 1_000_000 else []:
            if holds(changed, number, records):
                yield f"{name}: signature {number} holds although {what}"


def changes(message):
    """The message with something changed behind its signatures."""
    yield "words were added", message + b"words\r\n"
    yield "a subject was added", message.replace(b"\r\nMIME-Version", b"\r\nSubject: another\r\nMIME-Version", 1)
    yield "a reply-to was added", message.replace(b"\r\nMIME-Version", b"\r\nReply-To: eve@example.com\r\nMIME-Version", 1)
    yield "the date was changed", message.replace(b"Nov 2026", b"Dec 2026", 1)


def holds(message, number, records):
    def dns(name, timeout=5):
        selector = name.decode().split("._domainkey.")[0]
        return records[selector].encode()

    try:
        return dkim.DKIM(message).verify(idx=number, dnsfunc=dns)
    except dkim.ValidationError:
        return False


if __name__ == "__main__":
    main()

"""Letters that have broken signatures or mailboxes elsewhere, as fields of `POST /emails`."""

import base64
import random

_BYTES = random.Random(7).randbytes

LETTERS = {
    "plain": {"text": "Hello\n"},
    "no final newline": {"text": "hello"},
    "trailing blank lines": {"text": "hello\n\n\n"},
    "trailing lines of spaces": {"text": "hello \t\n  \n\t\n \t \n"},
    "spaces within lines": {"text": "a  b\t\tc \t d\n   e\n"},
    "long lines": {"text": ("x" * 998 + "\n") * 3 + "y" * 5000 + "\n"},
    "leading dots": {"text": ".\n..\n.hidden\n\n.\nend\n"},
    "From lines": {"text": "From here\n>From there\nFrom: nobody\n"},
    "8bit": {"text": "Grüße 📯 Ωμέγα\n", "subject": "Grüße 📯 Ωμέγα " * 12 + "end"},
    "html": {"html": "<p>Grüße &amp; <b>more</b></p>" * 200, "subject": "HTML alone"},
    "html and text": {"html": "<h1>Hello</h1>", "text": "Hello\n", "headers": {"X-Long": "word " * 180 + "end"}},
    "lists": {
        "text": "Hello\n",
        "headers": {
            "List-Unsubscribe": "<https://sender.test/u>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
    },
    "attachments": {
        "html": '<p>See <img src="cid:logo"></p>',
        "text": "See the file\n",
        "attachments": [
            {"filename": "grüße.bin", "content": base64.b64encode(_BYTES(70_000)).decode()},
            {"filename": "logo.png", "content": base64.b64encode(_BYTES(500)).decode(), "content_id": "logo"},
        ],
    },
    "large": {"text": "large\n", "attachments": [{"filename": "a.bin", "content": base64.b64encode(_BYTES(3_000_000)).decode()}]},
}

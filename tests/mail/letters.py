"""Messages as `examples/compose.rs` makes them, for those who read them."""

import base64
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def composed(letters):
    """The DNS records of the keys that sign, and for each letter its message, or the error as text."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    lines = "".join(json.dumps(letter) + "\n" for letter in letters)
    run = subprocess.run([target / "debug/examples/compose"], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    records, *answers = map(json.loads, run.stdout.splitlines())
    assert len(answers) == len(letters), f"{len(answers)} answers to {len(letters)} letters"
    return records["records"], [as_message(answer) for answer in answers]


def as_message(answer):
    return answer["error"] if "error" in answer else base64.b64decode(answer["message"])

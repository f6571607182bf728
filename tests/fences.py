"""The texts of the documentation, and the blocks of code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def texts():
    """The names of all texts, README first: its tour makes the reader an account."""
    return ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]


def fenced(text):
    """Kind and code of each block, in their order."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S)


def block(path, kind):
    """The only block of its kind in a file."""
    (code,) = [code for one, code in fenced((ROOT / path).read_text()) if one == kind]
    return code

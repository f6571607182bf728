"""Blocks of code in Markdown."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def fenced(text):
    """Kind and code of each block, in their order."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S)


def block(path, kind):
    """The only block of its kind in a file."""
    (code,) = [code for one, code in fenced((ROOT / path).read_text()) if one == kind]
    return code

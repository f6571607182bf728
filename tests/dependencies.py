#!/usr/bin/env python3
"""Holds every dependency to the licences and sources of deny.toml, by what cargo says of them.

`cargo deny` looks closer, at the texts of the licences and at advisories, but takes minutes to build: `./test --full`
runs it.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    allowed = set(rules["licenses"]["allow"])
    assert rules["sources"] == {"unknown-registry": "deny", "unknown-git": "deny"} and rules["bans"]["wildcards"] == "deny"
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    problems = [problem for package in metadata["packages"] for problem in problems_of(package, allowed)]
    for problem in problems:
        print(problem)
    print(f"{len(metadata['packages'])} packages, {len(problems)} problems")
    sys.exit(1 if problems or len(metadata["packages"]) < 100 else 0)


def problems_of(package, allowed):
    name = f"{package['name']} {package['version']}"
    if package["source"] is None:  # our own
        yield from (f"{name} depends on any {one['name']}" for one in package["dependencies"] if one["req"] == "*")
        return
    if not re.fullmatch(r"registry\+\S+/crates\.io-index", package["source"]):
        yield f"{name} comes from {package['source']}"
    if not is_allowed(package["license"] or "", allowed):
        yield f"{name} is under {package['license'] or package['license_file']}"


def is_allowed(expression, allowed):
    """Whether an SPDX expression leaves a way that deny.toml allows. Older crates write a slash for OR."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either():
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one():
        if not words:
            return False
        word = words.pop(0)
        if word == "(":
            met = either()
            return bool(words) and words.pop(0) == ")" and met
        if words[:1] == ["WITH"]:
            word = f"{word} WITH {words[1] if len(words) > 1 else ''}"
            del words[:2]
        return word in allowed

    return either() and not words


assert is_allowed("(A OR B) AND C WITH D", {"B", "C WITH D"}) and is_allowed("A/B", {"B"})
assert not any(is_allowed(wrong, {"A"}) for wrong in ("", "B", "A AND B", "A WITH B", "(A", "A)", "A B", "OR A"))

if __name__ == "__main__":
    main()

"""Examples of one language, run one after the other in one process, as their reader would run each alone.

What a program prints about the answer is its status and its body; the status is what is asked for here. Rust is
compiled once: what an example names that another store does not have (the address, ids) is replaced while it runs.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import subprocess
import time
from pathlib import Path

from clients.installed import node_22, tools, venv
from fences import block

RUST = Path(__file__).resolve().parent / "rust"
SHOWN = 600  # characters of an output that a failure shows
LIMIT = 300  # seconds for all examples of a language
ADDRESS = "http://posthorn.test"  # stands in Rust for that of the server

NODE = """
const count = Number(process.argv[2]);
for (let at = 0; at < count; at += 1) {
  console.log(`\\n@@${at}@@`);
  try {
    await import(`./example-${at}.mjs`);
  } catch (problem) {
    console.log(problem);
  }
}
"""

PYTHON = """
import pathlib, sys, traceback
for at in range(int(sys.argv[1])):
    print(f"\\n@@{at}@@", flush=True)
    try:
        name = f"example-{at}.py"
        exec(compile(pathlib.Path(name).read_text(), name, "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc(file=sys.stdout)
"""

SHELL = """
curl() { command curl --silent --show-error --write-out '\\n@status=%{http_code}\\n' "$@"; }
for at in $(seq 0 $(($1 - 1))); do
  printf '\\n@@%s@@\\n' "$at"
  # Not as a condition: bash would ignore `set -e` within it.
  (set -e -u -o pipefail; . "./example-$at.sh") 2>&1
  printf '\\n@exit=%s\\n' "$?"
done
"""

# What is shown in Rust in texts: functions that verify a webhook, and calls of a library that do.
IN_TEXTS = block("docs/guides/webhooks.md", "rust"), block("docs/webhooks.md", "rust")
WEBHOOKS_IN_RUST = """
mod guide {
%s
pub fn verified(secret: &str, id: &str, time: &str, signatures: &str, body: &[u8], now: i64) -> bool {
    verify(secret, id, time, signatures, body, now)
}
}

fn library(secret: &str, body: &[u8], headers: http::HeaderMap) -> Outcome {
%s
Ok(())
}

"""


class Example:
    """One example in one language: what it is called, the code, what stands for what in it, and what it may end with:
    the statuses that are documented, or of a command its exit code."""

    def __init__(self, name, language, code, replaced, wanted):
        assert wanted, f"nobody says how {name} ends"
        self.name, self.language, self.code = name, language, code
        self.replaced, self.wanted = list(replaced), set(wanted)

    def ready(self):
        """The code with what it names there is."""
        return replace(self.code, self.replaced)


def replace(text, pairs):
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def run_all(language, examples, base, env, folder):
    """What went wrong: a sentence for each example that did not end as it is documented."""
    outputs = LANGUAGES[language](examples, base, env, Path(folder))
    problems = []
    for at, one in enumerate(examples):
        printed = outputs.get(at, "it was not run")
        status = status_of(language, printed)
        if status not in one.wanted:
            wanted = " or ".join(map(str, sorted(one.wanted)))
            ended = f"{one.name} in {language} ends with {status}, not {wanted}"
            problems.append(f"{ended}\n{one.ready()}\n{printed[:SHOWN]}")
    return problems


def status_of(language, printed):
    """The status that was answered, or of a command its exit code; None where there was none."""
    of_language = {"curl": r"^@status=(\d{3})\n\s*@exit=0$", "Command line": r"^@exit=(\d+)$"}
    found = re.search(of_language.get(language, r"\A\s*(\d{3})\b"), printed, re.M)
    return int(found[1]) if found else None


def outputs_of(run):
    """What each example printed, by its number."""
    if run.returncode:
        print(run.stderr[-SHOWN:], flush=True)
    parts = re.split(r"^@@(\d+)@@$", run.stdout, flags=re.M)
    return {int(number): printed for number, printed in zip(parts[1::2], parts[2::2])}


def started(command, env, folder):
    return outputs_of(
        subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, cwd=folder, timeout=LIMIT)
    )


def write(examples, folder, ending):
    for at, one in enumerate(examples):
        (folder / f"example-{at}.{ending}").write_text(one.ready())


def shell(examples, base, env, folder):
    write(examples, folder, "sh")
    return started(["bash", "-c", SHELL, "bash", str(len(examples))], env, folder)


def node(examples, base, env, folder):
    write(examples, folder, "mjs")
    (folder / "all.mjs").write_text(NODE)
    return started([str(node_22()), "all.mjs", str(len(examples))], env, folder)


def python(examples, base, env, folder):
    write(examples, folder, "py")
    return started([venv("python"), "-c", PYTHON, str(len(examples))], env, folder)


def rust(examples, base, env, folder):
    """Names and addresses go into a file that the program reads; what is compiled knows neither."""
    known = [[(replace(old, [(base, ADDRESS)]), new) for old, new in one.replaced] for one in examples]
    codes = [replace(one.code, [(base, ADDRESS)]) for one in examples]
    program = built([with_given(code, [old for old, _ in pairs]) for code, pairs in zip(codes, known)])
    (folder / "given.json").write_text(json.dumps([[*pairs, (ADDRESS, base)] for pairs in known]))
    return started([str(program)], env | signed_in_env() | {"GIVEN": str(folder / "given.json")}, folder)


def with_given(code, known):
    """Texts that hold the address, or what else stands for something, are looked up while the program runs."""
    held = [ADDRESS, *known]

    def looked_up(found):
        is_name = found[2]  # of a field: a colon follows
        return f"given({found[1]})" if not is_name and any(one in found[1] for one in held) else found[0]

    return re.sub(r'("(?:[^"\\]|\\.)*")(\s*:)?', looked_up, code)


def built(codes):
    """The program that holds all examples in Rust, compiled where it is not what it was before."""
    place = tools() / "docs-rust"
    place.mkdir(parents=True, exist_ok=True)
    functions = [f"async fn example_{at}() -> Outcome {{\n{code}\nOk(())\n}}\n" for at, code in enumerate(codes)]
    calls = "".join(f"{at} => Box::pin(example_{at}()).await,\n" for at in range(len(codes)))
    source, text = place / "examples.rs", WEBHOOKS_IN_RUST % IN_TEXTS
    text += f"const COUNT: usize = {len(codes)};\n" + "\n".join(functions)
    text += f"async fn example(at: usize) -> Outcome {{\nmatch at {{\n{calls}_ => Ok(()),\n}}\n}}\n"
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    env = os.environ | {"CARGO_TARGET_DIR": str(place), "EXAMPLES": str(source)}
    subprocess.run(["cargo", "build", "--quiet", "--locked"], cwd=RUST, env=env, check=True)
    return place / "debug" / "posthorn-docs-test"


def signed():
    """A delivery of a webhook as the server signs it: the secret, the headers and the body."""
    secret = "whsec_" + base64.b64encode(b"a secret of many bytes").decode()
    body, stamp = '{"type":"email.sent"}', str(int(time.time()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"msg_1.{stamp}.{body}".encode(), hashlib.sha256).digest()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": stamp,
        "webhook-signature": "v1,AAAA v1," + base64.b64encode(mac).decode(),
    }
    return secret, headers, body


def signed_in_env():
    secret, headers, body = signed()
    names = {"ID": "webhook-id", "TIMESTAMP": "webhook-timestamp", "SIGNATURE": "webhook-signature"}
    return {"SECRET": secret, "BODY": body} | {name: headers[header] for name, header in names.items()}


LANGUAGES = {"curl": shell, "Node": node, "Python": python, "Rust": rust, "Command line": shell}

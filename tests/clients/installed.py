"""What others wrote and tests use: clients of the API, installed when they are not there.

Node's packages are below node/ and types/, whatever else is downloaded and built is below target/.
"""

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def tools():
    """Where what is downloaded and built stays for the next run."""
    target = os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")
    return Path(target).resolve() / "tools"


def node_modules(name="node"):
    """Node's packages, installed when they are not there or older than their list."""
    folder = HERE / name
    installed = folder / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (folder / "package-lock.json").stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-fund", "--no-audit", "--loglevel=error"], cwd=folder, check=True)
    return folder / "node_modules"


def node_22():
    """Node 22, which some of the clients ask for: npm's `node` would fetch it by a script, and none is run here."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return node_modules() / f"node-linux-{machine}" / "bin" / "node"


def command_line():
    """The vendor's command line, which Node 22 runs."""
    return node_modules() / "resend-cli" / "dist" / "cli.cjs"


def venv(program):
    """A program of the virtual environment that holds the Python clients, made when it is not there."""
    wanted = [HERE / "python" / "requirements.txt", HERE / "schemathesis" / "requirements.txt"]
    constraints = HERE / "constraints.txt"
    contents = b"".join(path.read_bytes() for path in [*wanted, constraints]) + sys.version.encode()
    place = tools() / f"python-{hashlib.sha256(contents).hexdigest()[:12]}"
    if not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for path in wanted:
            install += ["--requirement", str(path)]
        subprocess.run([*install, "--constraint", str(constraints)], check=True)
        (place / "complete").touch()
    return str(place / "bin" / program)

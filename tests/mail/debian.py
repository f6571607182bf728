"""Server programs of Debian, unpacked side by side below target/tools: installed, they exclude each other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Package:
    """A package with whatever it stands on and this machine lacks, in a folder of its own."""

    is_updated = False  # whether apt-get knows what there is today

    def __init__(self, name):
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.root = target / "tools" / "debian" / name
        if not (self.root / "complete").exists():
            self._unpack(name)
        libraries = {path.parent for below in ("usr/lib", "lib") for path in (self.root / below).rglob("*.so*")}
        self.libraries = os.pathsep.join(sorted(map(str, libraries)))

    def _unpack(self, name):
        if not shutil.which("apt-get"):
            sys.exit(f"{name} cannot be had: this test takes its servers from Debian, with apt-get")
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        if not Package.is_updated:
            self._apt("update")
            Package.is_updated = True
        wanted = ["apt-get", "--print-uris", "-qq", "-y", "--no-install-recommends", "install", name]
        lines = subprocess.run(wanted, capture_output=True, text=True, check=True).stdout.splitlines()
        names = {line.split()[1].split("_")[0] for line in lines if line.startswith("'")} | {name}
        self._apt("download", *sorted(names))
        for package in self.root.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, self.root], check=True)
            package.unlink()
        # Whoever keeps target/ from one run to the next need not be root.
        subprocess.run(["chmod", "-R", "a+rX,u-s,g-s", self.root], check=True)
        (self.root / "complete").touch()

    def _apt(self, *args):
        run = subprocess.run(["apt-get", "-q", *args], cwd=self.root, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"apt-get {' '.join(args)} failed:\n{run.stderr}")

    def file(self, *names):
        """The first of these files that the package has."""
        for name in names:
            if (self.root / name).exists():
                return str(self.root / name)
        raise AssertionError(f"{self.root} has none of {names}")

    def env(self, **more):
        """The environment in which its programs find their libraries."""
        return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": self.libraries, **more}

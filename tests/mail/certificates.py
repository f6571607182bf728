"""A certificate authority of the test's own."""

import hashlib
import ssl
import subprocess
from pathlib import Path

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Authority:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.file = self.folder / "authority.pem"
        self.key = self.folder / "authority.key"
        self._openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", "/CN=Test authority", "-keyout", self.key, "-out", self.file)

    def certificate(self, *names):
        """A file with a key and its certificate, which is valid for these names and addresses."""
        key, request, chain = (self.folder / f"{names[0]}.{ending}" for ending in ("key", "csr", "pem"))
        extensions = self.folder / f"{names[0]}.ext"
        kinds = [f"{'IP' if name.replace('.', '').isdigit() else 'DNS'}:{name}" for name in names]
        extensions.write_text(f"subjectAltName={','.join(kinds)}\n")
        self._openssl("req", *NEW_KEY, "-subj", f"/CN={names[0]}", "-keyout", key, "-out", request)
        signed = ["-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", "2", "-extfile", extensions]
        self._openssl("x509", "-req", "-in", request, *signed, "-out", chain)
        chain.write_text(key.read_text() + chain.read_text())
        chain.chmod(0o644)  # servers that are not root read it, in a folder that goes with the test
        return chain

    def key_hash(self, name):
        """The SHA-256 of the public key in the certificate of a name, as TLSA records have it."""
        public = self._openssl("x509", "-in", self.folder / f"{name}.pem", "-noout", "-pubkey")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(public.replace("PUBLIC KEY", "CERTIFICATE"))).hexdigest()

    def whole(self):
        """The authority's own certificate, as TLSA records have it."""
        return ssl.PEM_cert_to_DER_cert(self.file.read_text()).hex()

    def _openssl(self, *args):
        run = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True)
        assert run.returncode == 0, f"openssl {args[0]}: {run.stderr}"
        return run.stdout

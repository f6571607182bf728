"""A grant for whoever asks: an app is registered, and the PERSON of ../run lets it in."""

import base64
import hashlib
import json
import os
import secrets
import subprocess
import urllib.parse
import urllib.request

BASE = os.environ["RESEND_API_URL"]
REDIRECT = "http://localhost:33418/callback"


def grant():
    """An access token with every right."""
    app = {"client_name": "An app", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    client = post("/oauth/register", json.dumps(app), "application/json")["client_id"]
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "client_id": client,
        "response_type": "code",
        "redirect_uri": REDIRECT,
        "scope": "full_access",
        "state": "of mind",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    url = f"{BASE}/oauth/authorize?{urllib.parse.urlencode(asked)}"
    callback = subprocess.run([os.environ["PERSON"], url], capture_output=True, text=True, check=True).stdout.strip()
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(callback).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
    form |= {"client_id": client, "code_verifier": verifier}
    return post("/oauth/token", urllib.parse.urlencode(form), "application/x-www-form-urlencoded")["access_token"]


def post(path, body, label):
    request = urllib.request.Request(BASE + path, body.encode(), {"content-type": label})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    print(grant())

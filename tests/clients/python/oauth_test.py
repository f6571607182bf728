"""OAuth through the PyPI client `authlib`, and grants through `resend`; ../run sets the variables."""

import os
import subprocess
import unittest
from urllib.parse import parse_qs, urlsplit

import requests
import resend
from authlib.common.security import generate_token
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from resend.exceptions import ResendError

BASE = os.environ["RESEND_API_URL"]
KEY = os.environ["RESEND_API_KEY"]
REDIRECT = "http://127.0.0.1:47114/callback"
SERVER = requests.get(f"{BASE}/.well-known/oauth-authorization-server", timeout=10).json()


def register(method):
    """A new client's id and secret."""
    answer = requests.post(
        SERVER["registration_endpoint"],
        json={
            "client_name": "authlib",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": method,
        },
        timeout=10,
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["client_id"], answer.json().get("client_secret")


def session(method="none", scope="full_access", **more):
    client_id, secret = register(method)
    return OAuth2Session(
        client_id,
        secret,
        scope=scope,
        redirect_uri=REDIRECT,
        code_challenge_method="S256",
        token_endpoint=SERVER["token_endpoint"],
        revocation_endpoint_auth_method=method,
        token_endpoint_auth_method=method,
        **more,
    )


def person(url, *options):
    """Where the browser of ../../person.py is sent at last."""
    run = subprocess.run([os.environ["PERSON"], *options, url], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def connect(client, *options):
    """From the first click to the tokens."""
    verifier = generate_token(48)
    url, state = client.create_authorization_url(SERVER["authorization_endpoint"], code_verifier=verifier)
    callback = person(url, *options)
    return client.fetch_token(authorization_response=callback, state=state, code_verifier=verifier)


class Authlib(unittest.TestCase):
    def test_from_the_first_click_to_the_revocation(self):
        for method in SERVER["token_endpoint_auth_methods_supported"]:
            with self.subTest(method):
                client = session(method)
                first = connect(client)
                self.assertEqual((first["token_type"], first["scope"]), ("Bearer", "full_access"))
                self.assertEqual(client.get(f"{BASE}/events").status_code, 200)

                second = client.refresh_token()
                self.assertNotEqual(second["refresh_token"], first["refresh_token"])
                self.assertEqual(client.get(f"{BASE}/events").status_code, 200)

                gone = client.revoke_token(
                    SERVER["revocation_endpoint"], second["refresh_token"], token_type_hint="refresh_token"
                )
                self.assertEqual(gone.status_code, 200)
                self.assertEqual(client.get(f"{BASE}/events").status_code, 401)
                with self.assertRaises(OAuthError) as caught:
                    client.refresh_token()
                self.assertEqual(caught.exception.error, "invalid_grant")

    def test_an_expired_token_is_refreshed_on_the_way(self):
        updates = []
        client = session(update_token=lambda token, **_: updates.append(token))
        first = connect(client)
        client.token = first | {"expires_at": 1}
        self.assertEqual(client.get(f"{BASE}/events").status_code, 200)
        self.assertEqual(len(updates), 1)
        self.assertNotEqual(updates[0]["access_token"], first["access_token"])

    def test_a_refusal_comes_back_with_a_reason_and_the_state(self):
        for scope, options, error in [("full_access", ["--deny"], "access_denied"), ("everything", [], "invalid_scope")]:
            with self.subTest(error):
                url, state = session(scope=scope).create_authorization_url(
                    SERVER["authorization_endpoint"], code_verifier=generate_token(48)
                )
                answer = parse_qs(urlsplit(person(url, *options)).query)
                self.assertEqual((answer["error"], answer["state"]), ([error], [state]))
                self.assertTrue(answer["error_description"][0])


class Grants(unittest.TestCase):
    def tearDown(self):
        resend.api_key = KEY

    def test_listed_and_revoked_with_a_key_and_with_a_token(self):
        for token_revokes in (False, True):
            with self.subTest(token_revokes=token_revokes):
                client = session()
                token = connect(client)["access_token"]
                resend.api_key = token
                grant = resend.OAuthGrants.list({"limit": 1})["data"][0]
                self.assertEqual((grant["client_id"], grant["scopes"]), (client.client_id, ["full_access"]))
                self.assertIsNone(grant["revoked_at"])

                resend.api_key = token if token_revokes else KEY
                gone = resend.OAuthGrants.revoke(grant["id"])
                self.assertEqual((gone["object"], gone["id"]), ("oauth_grant", grant["id"]))
                resend.api_key = token
                with self.assertRaises(ResendError) as caught:
                    resend.Events.list()
                self.assertEqual((caught.exception.code, caught.exception.error_type), (401, "invalid_token"))
                resend.api_key = KEY
                with self.assertRaises(ResendError) as caught:
                    resend.OAuthGrants.revoke(grant["id"])
                self.assertEqual(caught.exception.code, 404)


if __name__ == "__main__":
    unittest.main()

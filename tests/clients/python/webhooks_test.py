"""Webhooks through the PyPI client `resend`, and its own verifier; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import http.server
import os
import threading
import time
import unittest
import uuid

import resend
from resend.exceptions import ResendError


class Listener(http.server.BaseHTTPRequestHandler):
    heard = []

    def do_POST(self):
        payload = self.rfile.read(int(self.headers["content-length"])).decode()
        self.heard.append((payload, dict(self.headers.items())))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Webhooks(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/hook"

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def until(self, found):
        for _ in range(100):
            value = found()
            if value:
                return value
            time.sleep(0.1)
        self.fail("it did not come")

    def test_made_read_listed_changed_and_removed(self):
        made = resend.Webhooks.create({"endpoint": self.endpoint, "events": ["email.sent"]})
        self.assertTrue(made["signing_secret"].startswith("whsec_"))
        read = resend.Webhooks.get(made["id"])
        self.assertEqual((read["object"], read["status"], read["events"]), ("webhook", "enabled", ["email.sent"]))
        self.assertTrue(any(item["id"] == made["id"] for item in resend.Webhooks.list()["data"]))
        self.assertEqual(len(resend.Webhooks.list({"limit": 1})["data"]), 1)
        resend.Webhooks.update({"webhook_id": made["id"], "status": "disabled"})
        self.assertEqual(resend.Webhooks.get(made["id"])["status"], "disabled")
        self.assertTrue(resend.Webhooks.remove(made["id"])["deleted"])
        with self.assertRaises(ResendError):
            resend.Webhooks.get(made["id"])

    def test_an_event_arrives_is_verified_and_replayed(self):
        made = resend.Webhooks.create({"endpoint": self.endpoint, "events": ["contact.created"]})
        email = f"ada+{uuid.uuid4()}@example.com"
        resend.Contacts.create({"email": email})
        payload, sent = self.until(lambda: [one for one in Listener.heard if email in one[0]])[0]
        headers = {name: sent[f"svix-{name}"] for name in ("id", "timestamp", "signature")}
        options = {"payload": payload, "headers": headers, "webhook_secret": made["signing_secret"]}
        self.assertEqual(resend.Webhooks.verify(options)["data"]["email"], email)
        with self.assertRaises(ValueError):
            resend.Webhooks.verify({**options, "payload": payload + " "})
        event = resend.Webhooks.list_events(made["id"])["data"][0]
        self.assertEqual(headers["id"], f"msg_{event['id']}")
        status = lambda: resend.Webhooks.get_event(made["id"], event["id"])["status"] == "success"
        self.until(status)
        attempt = resend.Webhooks.list_event_attempts(made["id"], event["id"])["data"][0]
        self.assertEqual(attempt["http_status_code"], 200)
        rotated = resend.Webhooks.rotate_signing_secret(made["id"])
        self.assertEqual(resend.Webhooks.replay_event(made["id"], event["id"])["id"], event["id"])
        _, sent = self.until(lambda: [one for one in Listener.heard if email in one[0]][1:])[0]
        headers = {name: sent[f"svix-{name}"] for name in ("id", "timestamp", "signature")}
        for secret in (made["signing_secret"], rotated["signing_secret"]):
            resend.Webhooks.verify({"payload": payload, "headers": headers, "webhook_secret": secret})
        resend.Webhooks.remove(made["id"])


if __name__ == "__main__":
    unittest.main()

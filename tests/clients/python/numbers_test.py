"""Metrics, logs and usage through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import os
import time
import unittest

import resend
from resend.exceptions import ResendError


class Numbers(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]

    def test_metrics(self):
        sender = "Acme <hello@python.example>"
        mail = {"from": sender, "to": "bounced@resend.dev", "subject": "Hello", "text": "x"}
        sent = resend.Emails.send(mail)
        for _ in range(100):
            totals = resend.Emails.metrics({"email_id": [sent["id"]]})["totals"]
            if totals["bounced"]:
                break
            time.sleep(0.1)
        self.assertEqual((totals["sent"], totals["bounced_permanent"], totals["bounce_rate"]), (1, 1, 1.0))
        answer = resend.Emails.metrics({"dimensions": ["period", "domain"], "metrics": ["sent"], "granularity": "daily"})
        self.assertTrue(any(row["domain_name"] == "python.example" for row in answer["data"]))

    def test_logs(self):
        made = resend.Segments.create({"name": "logged"})
        found = None
        for _ in range(100):
            logs = [log for log in resend.Logs.list({"limit": 20})["data"] if log["endpoint"] == "/segments"]
            whole = [resend.Logs.get(log["id"]) for log in logs]
            found = next((log for log in whole if (log["response_body"] or {}).get("id") == made["id"]), None)
            if found:
                break
            time.sleep(0.1)
        self.assertEqual((found["object"], found["method"], found["response_status"]), ("log", "POST", 201))
        with self.assertRaises(ResendError):
            resend.Logs.get(made["id"])

    def test_usage(self):
        usage = resend.Usage.get()
        self.assertEqual(usage["object"], "usage")
        self.assertGreaterEqual(usage["emails"]["monthly"]["sent"], usage["emails"]["daily"]["sent"])


if __name__ == "__main__":
    unittest.main()

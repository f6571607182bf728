"""Broadcasts through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import os
import time
import unittest
import uuid

import resend
from resend.exceptions import ResendError

MESSAGE = {"from": "News <news@acme.example>", "subject": "Hello", "html": "<p>Hello {{{FIRST_NAME|there}}}</p>"}


class Broadcasts(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]

    def refused(self, code, name, call, *arguments):
        with self.assertRaises(ResendError) as caught:
            call(*arguments)
        self.assertEqual((caught.exception.code, caught.exception.error_type), (code, name))

    def segment(self, people):
        segment = resend.Segments.create({"name": "Readers"})["id"]
        for _ in range(people):
            contact = resend.Contacts.create({"email": f"{uuid.uuid4()}@example.com"})["id"]
            resend.Contacts.Segments.add({"contact_id": contact, "segment_id": segment})
        return segment

    def test_created_read_listed_changed_duplicated_and_removed(self):
        segment = self.segment(1)
        created = resend.Broadcasts.create({**MESSAGE, "segment_id": segment, "name": "First"})["id"]
        found = resend.Broadcasts.get(created)
        self.assertEqual((found["object"], found["status"], found["segment_id"]), ("broadcast", "draft", segment))
        self.assertEqual(resend.Broadcasts.update({"broadcast_id": created, "name": "Second"})["id"], created)
        self.assertIn(("Second", created), [(one["name"], one["id"]) for one in resend.Broadcasts.list()["data"]])
        copy = resend.Broadcasts.duplicate(created)["id"]
        self.assertTrue(resend.Broadcasts.remove(copy)["deleted"])
        self.refused(404, "not_found", resend.Broadcasts.get, copy)

    def test_sent_once_and_told_of(self):
        created = resend.Broadcasts.create({**MESSAGE, "audience_id": self.segment(2)})["id"]
        self.assertEqual(resend.Broadcasts.send({"broadcast_id": created})["id"], created)
        for _ in range(100):
            if resend.Broadcasts.get(created)["status"] == "sent":
                break
            time.sleep(0.2)
        recipients = resend.Broadcasts.recipients(created, {"type": "delivered"})
        self.assertEqual(len(recipients["data"]), 2)
        self.assertEqual(resend.Broadcasts.clicked_links(created)["data"], [])
        self.refused(409, "validation_error", resend.Broadcasts.send, {"broadcast_id": created})

    def test_scheduled_and_canceled(self):
        fields = {**MESSAGE, "segment_id": self.segment(1), "send": True, "scheduled_at": "in 1 hour"}
        created = resend.Broadcasts.create(fields)["id"]
        self.assertEqual(resend.Broadcasts.get(created)["status"], "scheduled")
        self.assertEqual(resend.Broadcasts.cancel(created)["id"], created)
        self.assertEqual(resend.Broadcasts.get(created)["status"], "draft")


if __name__ == "__main__":
    unittest.main()

"""Emails through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import os
import unittest
import urllib.request
import uuid

import resend
from resend.exceptions import MissingRequiredFieldsError, ResendError, ValidationError


def mail(**more):
    return {
        "from": "Acme <hello@acme.example>",
        "to": ["delivered@resend.dev"],
        "subject": "Hello",
        "html": "<p>It works.</p>",
        **more,
    }


class Emails(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]

    def test_sent_read_and_listed(self):
        sent = resend.Emails.send(mail(tags=[{"name": "category", "value": "hello"}]))["id"]
        email = resend.Emails.get(sent)
        self.assertEqual((email["object"], email["subject"], email["html"]), ("email", "Hello", "<p>It works.</p>"))
        self.assertEqual(email["tags"], [{"name": "category", "value": "hello"}])
        listed = resend.Emails.list({"limit": 5})
        self.assertIn(sent, [item["id"] for item in listed["data"]])

    def test_shared_by_a_link(self):
        sent = resend.Emails.send(mail())["id"]
        for params in (None, {"expires_in": "10m"}):
            with urllib.request.urlopen(resend.Emails.share(sent, params)["url"]) as answer:
                self.assertEqual(answer.read(), b"<p>It works.</p>")

    def test_a_key_is_made_listed_renamed_and_deleted(self):
        made = resend.ApiKeys.create({"name": "shop", "permission": "sending_access"})
        newest = resend.ApiKeys.list({"limit": 1})["data"][0]
        self.assertEqual((newest["id"], newest["name"]), (made["id"], "shop"))
        self.assertEqual(resend.ApiKeys.update({"id": made["id"], "name": "old shop"})["id"], made["id"])
        self.assertEqual(resend.ApiKeys.list({"limit": 1})["data"][0]["name"], "old shop")
        resend.api_key = made["token"]
        resend.Emails.send(mail())
        resend.api_key = os.environ["RESEND_API_KEY"]
        resend.ApiKeys.remove(made["id"])
        resend.api_key = made["token"]
        with self.assertRaises(ResendError):
            resend.Emails.send(mail())

    def test_an_idempotency_key_sends_once(self):
        options = {"idempotency_key": str(uuid.uuid4())}
        first = resend.Emails.send(mail(), options)["id"]
        self.assertEqual(resend.Emails.send(mail(), options)["id"], first)
        with self.assertRaises(ResendError):
            resend.Emails.send(mail(subject="Other"), options)

    def test_scheduled_moved_and_canceled(self):
        sent = resend.Emails.send(mail(scheduled_at="tomorrow at 9am"))["id"]
        self.assertEqual(resend.Emails.update({"id": sent, "scheduled_at": "in 2 hours"})["id"], sent)
        self.assertEqual(resend.Emails.cancel(sent)["id"], sent)
        self.assertEqual(resend.Emails.get(sent)["last_event"], "canceled")

    def test_files_are_sent_as_lists_of_numbers(self):
        content = bytes(range(256)) * 800
        sent = resend.Emails.send(mail(attachments=[{"filename": "a.bin", "content": list(content)}]))["id"]
        files = resend.Emails.Attachments.list(email_id=sent)["data"]
        self.assertEqual([file["filename"] for file in files], ["a.bin"])
        file = resend.Emails.Attachments.get(email_id=sent, attachment_id=files[0]["id"])
        with urllib.request.urlopen(file["download_url"]) as answer:
            self.assertEqual(answer.read(), content)

    def test_many_at_once(self):
        sent = resend.Batch.send([mail(), mail(to="bounced@resend.dev")])
        self.assertEqual(len(sent["data"]), 2)
        some = resend.Batch.send([mail(to="nobody"), mail()], {"batch_validation": "permissive"})
        self.assertEqual((len(some["data"]), [error["index"] for error in some["errors"]]), (1, [0]))

    def test_refusals_have_their_types(self):
        with self.assertRaises(MissingRequiredFieldsError):
            resend.Emails.send({"from": "a@b.example", "subject": "x", "html": "x"})
        with self.assertRaises(ValidationError):
            resend.Emails.send(mail(to="nobody"))


if __name__ == "__main__":
    unittest.main()

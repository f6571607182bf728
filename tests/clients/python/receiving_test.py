"""Received mail through the PyPI client `resend`. Started by ../run, which has brought a mail for
box@in.example, and sets RESEND_API_URL and RESEND_API_KEY."""

import asyncio
import os
import unittest
import uuid

import resend
from resend.exceptions import ResendError

Receiving = resend.Emails.Receiving


class Received(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]
        self.item = Receiving.list({"limit": 1})["data"][0]

    def test_listed_and_read(self):
        mail = Receiving.get(self.item["id"])
        for found in (self.item, mail):
            self.assertEqual((found["from"], found["subject"]), ("Ada <ada@example.com>", "Hello"))
        self.assertEqual((mail["text"].strip(), mail["received_for"]), ("It works.", ["box@in.example"]))
        self.assertEqual(Receiving.get(self.item["id"], {"html_format": "cid"})["id"], mail["id"])
        with self.assertRaises(ResendError):
            Receiving.get(str(uuid.uuid4()))

    def test_attachments(self):
        (file,) = Receiving.Attachments.list(self.item["id"])["data"]
        alone = Receiving.Attachments.get(self.item["id"], file["id"])
        self.assertEqual((alone["object"], alone["filename"]), ("attachment", "rows.csv"))

    def test_without_waiting(self):
        async def all_of_it():
            listed = await Receiving.list_async({"limit": 1})
            mail = await Receiving.get_async(listed["data"][0]["id"])
            files = await Receiving.Attachments.list_async(mail["id"])
            return mail, await Receiving.Attachments.get_async(mail["id"], files["data"][0]["id"])

        mail, file = asyncio.run(all_of_it())
        self.assertEqual((mail["subject"], file["filename"]), ("Hello", "rows.csv"))


if __name__ == "__main__":
    unittest.main()

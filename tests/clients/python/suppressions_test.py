"""Suppressions through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import os
import unittest
import uuid

import resend
from resend.exceptions import ResendError, ValidationError


def address():
    return f"ada+{uuid.uuid4()}@example.com"


class Suppressions(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]

    def refused(self, code, name, call, *arguments):
        with self.assertRaises(ResendError) as caught:
            call(*arguments)
        self.assertEqual((caught.exception.code, caught.exception.error_type), (code, name))

    def test_added_read_listed_and_removed(self):
        email = address()
        added = resend.Suppressions.add({"email": email})
        self.assertEqual(added["object"], "suppression")
        self.assertEqual(resend.Suppressions.add({"email": email.upper()})["id"], added["id"])
        for name in (added["id"], email):
            found = resend.Suppressions.get(name)
            self.assertEqual((found["object"], found["id"], found["email"]), ("suppression", added["id"], email))
            self.assertEqual((found["origin"], found["source_id"]), ("manual", None))
        newest = resend.Suppressions.list({"origin": "manual", "limit": 1})["data"][0]
        self.assertEqual((newest["id"], "object" in newest), (added["id"], False))
        self.assertFalse(any(item["id"] == added["id"] for item in resend.Suppressions.list({"origin": "bounce"})["data"]))
        self.assertTrue(resend.Suppressions.remove(email)["deleted"])
        self.refused(404, "not_found", resend.Suppressions.get, added["id"])

    def test_many_at_once(self):
        emails = [address(), address(), address()]
        added = resend.Suppressions.Batch.add({"emails": emails})["data"]
        self.assertEqual([item["object"] for item in added], ["suppression"] * 3)
        gone = resend.Suppressions.Batch.remove({"emails": emails[:1]})["data"]
        self.assertEqual([dict(item) for item in gone], [{"object": "suppression", "id": added[0]["id"], "deleted": True}])
        gone = resend.Suppressions.Batch.remove({"ids": [item["id"] for item in added]})["data"]
        self.assertEqual({item["id"] for item in gone}, {item["id"] for item in added[1:]})

    def test_refused(self):
        with self.assertRaises(ValidationError):
            resend.Suppressions.add({"email": "nobody"})


if __name__ == "__main__":
    unittest.main()

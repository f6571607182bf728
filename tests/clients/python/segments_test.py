"""Segments through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import os
import unittest
import uuid

import resend
from resend.exceptions import ResendError

KEY = os.environ["RESEND_API_KEY"]


def rule(value):
    return {"type": "rule", "field": "contact.first_name", "operator": "eq", "value": value}


class Segments(unittest.TestCase):
    def setUp(self):
        resend.api_key = KEY

    def test_created_read_listed_renamed_and_removed(self):
        created = resend.Segments.create({"name": "First"})
        self.assertEqual((created["object"], created["name"]), ("segment", "First"))
        segment = created["id"]
        found = resend.Segments.get(segment)
        self.assertEqual((found["id"], found["name"]), (segment, "First"))
        self.assertEqual(resend.Segments.update(segment, {"name": "Second"})["id"], segment)
        newest = resend.Segments.list({"limit": 1})
        self.assertEqual((newest["data"][0]["id"], newest["data"][0]["name"]), (segment, "Second"))
        removed = resend.Segments.remove(segment)
        self.assertEqual((removed["object"], removed["id"], removed["deleted"]), ("segment", segment, True))
        with self.assertRaises(ResendError) as caught:
            resend.Segments.get(segment)
        self.assertEqual((caught.exception.code, caught.exception.error_type), (404, "not_found"))

    def test_one_with_a_filter_fills_itself(self):
        name = f"Seg{uuid.uuid4()}"
        segment = resend.Segments.create({"name": name, "filter": rule(name)})["id"]
        contact = resend.Contacts.create({"email": f"{name}@example.com", "first_name": name})["id"]
        self.assertEqual(resend.Segments.get(segment)["filter"], rule(name))
        listed = resend.Contacts.list(segment_id=segment)
        self.assertEqual([item["id"] for item in listed["data"]], [contact])
        mine = resend.Contacts.Segments.list({"contact_id": contact})
        self.assertEqual([item["id"] for item in mine["data"]], [segment])
        with self.assertRaises(ResendError) as caught:
            resend.Contacts.Segments.remove({"contact_id": contact, "segment_id": segment})
        self.assertEqual((caught.exception.code, caught.exception.error_type), (422, "validation_error"))


if __name__ == "__main__":
    unittest.main()

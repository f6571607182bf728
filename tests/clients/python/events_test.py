"""Events through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import os
import unittest
import uuid

import resend
from resend.exceptions import InvalidApiKeyError, MissingRequiredFieldsError, ResendError, ValidationError

KEY = os.environ["RESEND_API_KEY"]


def unique(stem):
    return f"{stem}.{uuid.uuid4()}"


class Events(unittest.TestCase):
    def setUp(self):
        resend.api_key = KEY

    def test_created_and_read_by_id_and_by_name(self):
        for stem in ["user.created", "with spaces", "a/b", "Grüße 🎉", "100% %2F"]:
            with self.subTest(stem):
                name = unique(stem)
                created = resend.Events.create({"name": name, "schema": {"plan": "string"}})
                self.assertEqual(created["object"], "event")
                for key in (created["id"], name):
                    event = resend.Events.get(key)
                    self.assertEqual((event["id"], event["name"]), (created["id"], name))
                    self.assertEqual(event["schema"], {"plan": "string"})

    def test_listed_in_pages(self):
        created = [resend.Events.create({"name": unique("page")})["id"] for _ in range(7)]
        newest = resend.Events.list({"limit": 5})
        self.assertEqual((newest["object"], len(newest["data"]), newest["has_more"]), ("list", 5, True))
        more = resend.Events.list({"limit": 5, "after": newest["data"][-1]["id"]})
        back = resend.Events.list({"limit": 5, "before": more["data"][0]["id"]})
        self.assertEqual([e["id"] for e in back["data"]], [e["id"] for e in newest["data"]])
        listed = [e["id"] for e in newest["data"] + more["data"]]
        self.assertEqual(listed[:7], created[::-1])

    def test_listed_whole_without_a_limit(self):
        created = {resend.Events.create({"name": unique("whole")})["id"] for _ in range(21)}
        self.assertLessEqual(created, {event["id"] for event in resend.Events.list()["data"]})

    def test_updated_and_cleared(self):
        name = unique("updated")
        event = resend.Events.create({"name": name, "schema": {"a": "number"}})["id"]
        self.assertEqual(resend.Events.update({"identifier": name, "schema": {"b": "date"}})["id"], event)
        self.assertEqual(resend.Events.get(event)["schema"], {"b": "date"})
        resend.Events.update({"identifier": event, "schema": None})
        self.assertIsNone(resend.Events.get(event)["schema"])

    def test_removed(self):
        event = resend.Events.create({"name": unique("removed")})["id"]
        removed = resend.Events.remove(event)
        self.assertEqual((removed["object"], removed["id"], removed["deleted"]), ("event", event, True))
        with self.assertRaises(ResendError) as caught:
            resend.Events.get(event)
        self.assertEqual((caught.exception.code, caught.exception.error_type), (404, "not_found"))

    def test_refusals_are_the_exceptions_the_client_knows(self):
        with self.assertRaises(MissingRequiredFieldsError):
            resend.Events.create({})
        for params in ({"name": "svc:mine"}, {"name": ""}, {"name": "a", "schema": {"k": "text"}}):
            with self.subTest(params), self.assertRaises(ValidationError):
                resend.Events.create(params)
        resend.api_key = "re_wrong"
        with self.assertRaises(InvalidApiKeyError):
            resend.Events.list()


if __name__ == "__main__":
    unittest.main()

"""Topics, and what contacts choose of them, through the PyPI client `resend`; ../run sets RESEND_API_URL and
RESEND_API_KEY."""

import os
import unittest
import uuid

import resend
from resend.exceptions import ResendError

KEY = os.environ["RESEND_API_KEY"]


class Topics(unittest.TestCase):
    def setUp(self):
        resend.api_key = KEY

    def topic(self, default="opt_in"):
        return resend.Topics.create({"name": "News", "default_subscription": default, "description": "Monthly."})["id"]

    def test_created_read_listed_changed_and_removed(self):
        topic = self.topic()
        found = resend.Topics.get(topic)
        self.assertEqual((found["id"], found["name"], found["default_subscription"]), (topic, "News", "opt_in"))
        self.assertEqual(resend.Topics.update(topic, {"name": "Product news"})["id"], topic)
        self.assertEqual(resend.Topics.list({"limit": 1})["data"][0]["name"], "Product news")
        self.assertEqual(resend.Topics.list()["object"], "list")
        self.assertTrue(resend.Topics.remove(topic)["deleted"])
        with self.assertRaises(ResendError) as caught:
            resend.Topics.get(topic)
        self.assertEqual((caught.exception.code, caught.exception.error_type), (404, "not_found"))

    def test_chosen_by_id_and_by_address(self):
        one, two = self.topic(), self.topic("opt_out")
        email = f"{uuid.uuid4()}@example.com"
        contact = resend.Contacts.create({"email": email})["id"]
        chosen = resend.Contacts.Topics.update({"id": contact, "topics": [{"id": one, "subscription": "opt_out"}]})
        self.assertEqual(chosen["id"], contact)
        resend.Contacts.Topics.update({"email": email, "topics": [{"id": two, "subscription": "opt_in"}]})
        for listed in (resend.Contacts.Topics.list(contact_id=contact), resend.Contacts.Topics.list(email=email)):
            held = {topic["id"]: topic["subscription"] for topic in listed["data"]}
            self.assertEqual((held[one], held[two]), ("opt_out", "opt_in"))
        page = resend.Contacts.Topics.list(email=email, params={"limit": 1})
        self.assertEqual((len(page["data"]), page["has_more"]), (1, True))


if __name__ == "__main__":
    unittest.main()

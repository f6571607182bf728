"""Templates through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY."""

import os
import unittest
import uuid

import resend
from resend.exceptions import ResendError, ValidationError

HTML = "<p>Hi {{{NAME|friend}}}, order {{{ORDER_ID}}}.</p>"


class Templates(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]

    def refused(self, code, name, call, *arguments):
        with self.assertRaises(ResendError) as caught:
            call(*arguments)
        self.assertEqual((caught.exception.code, caught.exception.error_type), (code, name))

    def create(self, **more):
        order = {"name": "Order", "html": HTML, "from": "Shop <shop@acme.example>", "subject": "Order {{{ORDER_ID}}}",
                 "variables": [{"key": "ORDER_ID", "type": "string"},
                               {"key": "COUNT", "type": "number", "fallback_value": 1}]}
        created = resend.Templates.create(order | more)
        self.assertEqual(created["object"], "template")
        return created["id"]

    def test_created_read_listed_changed_and_removed(self):
        alias = f"order-{uuid.uuid4()}"
        template = self.create(alias=alias)
        found = resend.Templates.get(alias)
        self.assertEqual((found["id"], found["status"], found["html"]), (template, "draft", HTML))
        self.assertEqual(found["variables"][1]["fallback_value"], 1)
        self.assertEqual(resend.Templates.update({"id": template, "name": "Orders"})["id"], template)
        listed = next(item for item in resend.Templates.list({"limit": 100})["data"] if item["id"] == template)
        self.assertEqual((listed["name"], listed["alias"]), ("Orders", alias))
        self.assertTrue(resend.Templates.remove(template)["deleted"])
        self.refused(404, "not_found", resend.Templates.get, template)

    def test_published_duplicated_and_sent(self):
        template = self.create()
        self.assertEqual(resend.Templates.publish(template)["id"], template)
        self.assertEqual(resend.Templates.get(template)["status"], "published")
        copy = resend.Templates.duplicate(template)["id"]
        self.assertEqual(resend.Templates.get(copy)["status"], "draft")
        mail = {"to": "delivered@resend.dev", "template": {"id": template, "variables": {"ORDER_ID": "A-1"}}}
        email = resend.Emails.get(resend.Emails.send(mail)["id"])
        self.assertEqual((email["subject"], email["html"]), ("Order A-1", "<p>Hi friend, order A-1.</p>"))
        many = resend.Batch.send([mail])
        self.assertEqual(len(many["data"]), 1)

    def test_refused(self):
        with self.assertRaises(ValidationError):
            self.create(html="{{{")
        with self.assertRaises(ValidationError):
            self.create(variables=[{"key": "EMAIL", "type": "string"}])
        template = self.create()
        resend.Templates.publish(template)
        with self.assertRaises(ValidationError):
            resend.Emails.send({"to": "delivered@resend.dev", "template": {"id": template}})


if __name__ == "__main__":
    unittest.main()

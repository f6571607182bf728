"""Domains, and API keys that are held to one, through the PyPI client `resend`; ../run sets RESEND_API_URL
and RESEND_API_KEY."""

import os
import unittest
import uuid

import resend
from resend.exceptions import ResendError, ValidationError


class Domains(unittest.TestCase):
    def setUp(self):
        resend.api_key = os.environ["RESEND_API_KEY"]

    def refused(self, code, name, call, *arguments):
        with self.assertRaises(ResendError) as caught:
            call(*arguments)
        self.assertEqual((caught.exception.code, caught.exception.error_type), (code, name))

    def test_created_read_changed_verified_and_removed(self):
        name = f"{uuid.uuid4()}.example"
        created = resend.Domains.create({"name": name, "region": "sa-east-1"})
        self.assertEqual((created["name"], created["status"], created["region"]), (name, "not_started", "sa-east-1"))
        self.assertEqual({record["record"] for record in created["records"]}, {"SPF", "DKIM"})
        domain = created["id"]
        self.assertEqual(resend.Domains.get(domain)["records"], created["records"])
        self.assertEqual(resend.Domains.update({"id": domain, "click_tracking": True})["id"], domain)
        newest = resend.Domains.list({"limit": 1})["data"][0]
        self.assertEqual((newest["id"], newest["click_tracking"]), (domain, True))
        self.assertEqual(resend.Domains.verify(domain)["id"], domain)
        self.assertTrue(resend.Domains.remove(domain)["deleted"])
        self.refused(404, "not_found", resend.Domains.get, domain)

    def test_refused(self):
        with self.assertRaises(ValidationError):
            resend.Domains.create({"name": "localhost"})
        name = f"{uuid.uuid4()}.example"
        resend.Domains.create({"name": name})
        self.refused(403, "validation_error", resend.Domains.create, {"name": name})

    def test_a_key_is_held_to_a_domain_and_ends_with_it(self):
        domain = resend.Domains.create({"name": f"{uuid.uuid4()}.example"})["id"]
        key = {"name": "held", "permission": "sending_access", "domain_id": domain}
        token = resend.ApiKeys.create(key)["token"]
        resend.Domains.remove(domain)
        resend.api_key = token
        self.refused(403, "invalid_api_key", resend.Domains.list)


if __name__ == "__main__":
    unittest.main()

"""Too many requests through the PyPI client `resend`; ../run sets RESEND_API_URL and RESEND_API_KEY, for a server
that lets a key ask twice a second."""

import os
import time
import unittest

import resend
from resend.exceptions import RateLimitError


class RateLimit(unittest.TestCase):
    def test_who_asks_too_often_is_told_so_and_when_to_come_back(self):
        resend.api_key = os.environ["RESEND_API_KEY"]
        headers = resend.Segments.list()["http_headers"]
        self.assertEqual(headers["ratelimit-limit"], "2")
        with self.assertRaises(RateLimitError) as refused:
            for _ in range(50):
                resend.Segments.list()
        error = refused.exception
        self.assertEqual((str(error.code), error.error_type), ("429", "rate_limit_exceeded"))
        self.assertEqual((error.headers["ratelimit-limit"], error.headers["ratelimit-remaining"]), ("2", "0"))
        self.assertIn("ratelimit-reset", error.headers)
        seconds = int(error.headers["retry-after"])
        self.assertIn(seconds, (1, 2))
        time.sleep(seconds)
        self.assertEqual(resend.Segments.list()["object"], "list")


if __name__ == "__main__":
    unittest.main()

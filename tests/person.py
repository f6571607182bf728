#!/usr/bin/env python3
"""A person with a browser, made of form posts: follows an authorization request to its end.

    tests/person.py [--deny] [--only SCOPE] [--visit] URL

Opens URL, logs in as $PERSON_EMAIL with $PERSON_PASSWORD, approves (or denies), and prints
the address that the browser is sent to. It is not opened, unless --visit asks for it: then
this can stand in for `xdg-open`. Every foreign client has its user in this script,
whatever language it is written in.
"""

import argparse
import http.client
import os
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from urllib.parse import urlencode, urljoin, urlsplit


class Page(HTMLParser):
    """What a person can click on: links, forms with what is filled in, and buttons."""

    def __init__(self, html):
        super().__init__()
        self.links, self.forms = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        if tag == "a":
            self.links.append(of.get("href"))
        elif tag == "form":
            self.forms.append({"action": of.get("action"), "fields": [], "buttons": []})
        elif tag == "button" and self.forms and of.get("name"):
            self.forms[-1]["buttons"].append((of["name"], of.get("value", "")))
        elif tag == "input" and self.forms and of.get("name"):
            if of.get("type") not in ("checkbox", "radio") or "checked" in of:
                self.forms[-1]["fields"].append((of["name"], of.get("value") or ""))

    def form(self, field=None, button=None):
        """The form that has such a field or button, or None."""
        for form in self.forms:
            if field in dict(form["fields"]) or button in form["buttons"]:
                return form


class Browser:
    """Keeps cookies, and follows no redirect by itself."""

    def __init__(self):
        self.cookies = {}

    def open(self, url, fields=None):
        """One request; returns (status, address it redirects to or None, body)."""
        parts = urlsplit(url)
        connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = connect(parts.netloc, timeout=30)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            if fields is None:
                connection.request("GET", path, headers=headers)
            else:
                headers |= {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
                connection.request("POST", path, urlencode(fields), headers)
            answer = connection.getresponse()
            for line in answer.headers.get_all("Set-Cookie", []):
                self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
            return answer.status, answer.getheader("Location"), answer.read().decode()
        finally:
            connection.close()


def answer(url, email, password, decision="approve", only=None):
    """Where the browser is sent at last, as raw as it came."""
    browser = Browser()
    status, away, _ = browser.open(url)
    assert status == 302, f"authorize answered {status}"
    if "/oauth/authorize/" not in away:
        return away  # refused: straight back to the client
    page = visit(browser, away)
    login = next((link for link in page.links if link and "/login?" in link), None)
    assert login, "the consent page offers no log-in"

    form = visit(browser, urljoin(away, login)).form(field="password")
    typed = dict(form["fields"]) | {"email": email, "password": password}
    status, back, body = browser.open(urljoin(away, form["action"]), typed)
    assert status == 303, f"logging in answered {status}: {body}"

    form = visit(browser, urljoin(away, back)).form(button=("decision", decision))
    ticked = [field for field in form["fields"] if field[0] != "scope" or only in (None, field[1])]
    status, location, body = browser.open(urljoin(away, form["action"]), [*ticked, ("decision", decision)])
    assert status in (302, 303), f"the decision was answered with {status}: {body}"
    return location


def visit(browser, url):
    status, _, body = browser.open(url)
    assert status == 200, f"{url} answered {status}: {body}"
    return Page(body)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--deny", action="store_true")
    parser.add_argument("--only", metavar="SCOPE", help="take away the ticks at all others")
    parser.add_argument("--visit", action="store_true", help="open the address at the end, too")
    options = parser.parse_args()
    decision = "deny" if options.deny else "approve"
    location = answer(options.url, os.environ["PERSON_EMAIL"], os.environ["PERSON_PASSWORD"], decision, options.only)
    print(location)
    if options.visit:
        status, _, _ = Browser().open(location)
        assert status == 200, f"the client answered {status}"


if __name__ == "__main__":
    main()

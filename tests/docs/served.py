"""The pages that a server shows of its documentation, and the examples on its pages."""

import json
import re
from html.parser import HTMLParser

LARGEST = 100_000  # bytes of a page
FEWEST = 30  # pages


class Page(HTMLParser):
    """What a page holds, as far as it is asked for here."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.headings, self.labels, self.inputs, self.lang = [], [], [], set(), [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "label":
            self.labels.add(given.get("for"))
        if tag == "input" and given.get("type") != "hidden":
            self.inputs.append(given.get("id"))
        if tag == "html":
            self.lang = given.get("lang")


def check_pages(server):
    """Walks from the first page to all others of the documentation; returns what is wrong with them."""
    problems, pages, waiting = [], {}, ["/docs"]
    while waiting:
        path = waiting.pop()
        status, headers, body = server.ask("GET", path)
        if status != 200:
            problems.append(f"{path} is {status}")
            pages[path] = None
            continue
        if not headers.get("content-type", headers.get("Content-Type", "")).startswith("text/html"):
            pages[path] = None
            continue
        if len(body) >= LARGEST:
            problems.append(f"{path} has {len(body)} bytes")
        page = pages[path] = Page(body.decode())
        problems += [f"{path}: {flaw}" for flaw in flaws(page)]
        for link in page.links:
            target = link.removeprefix(server.base).split("#")[0].split("?")[0]
            is_ours = target.startswith("/docs") or target in ("/openapi.json", "/llms.txt")
            if is_ours and target not in pages and target not in waiting:
                waiting.append(target)
    for path, page in pages.items():
        for link in page.links if page else []:
            target, _, anchor = link.removeprefix(server.base).partition("#")
            goal = pages.get(target or path)
            if anchor and goal and anchor not in goal.ids:
                problems.append(f"{path}: there is no {link}")
    count = sum(1 for page in pages.values() if page)
    print(f"{count} pages", flush=True)
    if count < FEWEST:
        problems.append(f"only {count} pages are linked")
    problems += check_search(server)
    return problems


def flaws(page):
    if page.lang != "en":
        yield "no language"
    if page.headings.count(1) != 1 or any(b > a + 1 for a, b in zip(page.headings, page.headings[1:])):
        yield f"headings out of order: {page.headings}"
    if any(field not in page.labels for field in page.inputs):
        yield "an input without a label"
    doubled = {one for one in page.ids if page.ids.count(one) > 1}
    if doubled:
        yield f"ids twice: {doubled}"


def check_search(server):
    problems = []
    for words, wanted in (
        ("verify signature", "/docs/webhooks#verify-the-signature"),
        ("wait_for_event", "/docs/automations#wait-for-event"),
        ("send email", "/docs/api/emails#send_email"),
        ("has_more", "/docs/pagination"),
    ):
        _, _, body = server.ask("GET", "/docs/search?q=" + words.replace(" ", "+"))
        if wanted not in body.decode():
            problems.append(f"a search for {words!r} does not find {wanted}")
    status, _, body = server.ask("GET", "/docs/search.json")
    entries = json.loads(body)
    if status != 200 or len(entries) < 250:
        problems.append(f"the index has {len(entries)} entries")
    if server.ask("GET", "/docs/no-such-page")[0] != 404:
        problems.append("a page that is not there is not 404")
    return problems


class Examples(HTMLParser):
    """What a page offers to copy: which example, in which language, and the code."""

    def __init__(self, text):
        super().__init__()
        self.found, self.within, self.language, self.takes = [], "", None, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "details" and given.get("class") == "call":
            self.within, self.language = given.get("name", "").removesuffix("-call"), ""
        elif tag == "summary" and self.language == "":
            self.takes = "language"
        elif tag == "code" and self.language:
            self.takes = "code"
            self.found.append([self.within, self.language, ""])

    def handle_endtag(self, tag):
        if tag in ("summary", "code"):
            self.takes = None
        if tag == "details":
            self.language = None

    def handle_data(self, text):
        if self.takes == "language":
            self.language += text
        elif self.takes == "code":
            self.found[-1][2] += text


def examples(text):
    """Three of each: the name of the example, its language, and the code."""
    return [tuple(one) for one in Examples(text).found if one[0]]

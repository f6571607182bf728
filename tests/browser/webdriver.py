"""A WebDriver client: what the tests need of the W3C protocol, over plain HTTP."""

import atexit
import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from server import clean_env, free_port

TAB, ENTER, SPACE, ESCAPE, CONTROL = "\ue004", "\ue007", " ", "\ue00c", "\ue009"
LIMIT = 15.0  # seconds to wait for what a page should come to
AXE = Path(__file__).resolve().parent / "node_modules" / "axe-core" / "axe.min.js"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = """
    --headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --disable-dev-shm-usage --no-proxy-server
    --force-prefers-reduced-motion --hide-scrollbars
""".split()


class Driver:
    """A chromedriver, and the browsers that it started."""

    def __init__(self):
        self.port = free_port()
        command = ["chromedriver", f"--port={self.port}", "--log-level=SEVERE"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=clean_env())
        self.browsers = []
        atexit.register(self.stop)
        until = time.monotonic() + 30
        while True:
            try:
                if self.ask("GET", "/status")["ready"]:
                    return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, "chromedriver does not start"
            time.sleep(0.05)

    def ask(self, method, path, body=None):
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            problem = json.load(error)["value"]
            raise AssertionError(f"{problem['error']}: {problem['message'].splitlines()[0]}") from None

    def stop(self):
        atexit.unregister(self.stop)
        for browser in list(self.browsers):
            with contextlib.suppress(OSError, AssertionError):  # what ends us may have ended it first
                browser.close()
        self.process.terminate()
        self.process.wait()


class Browser:
    """A Chromium with a profile of its own."""

    def __init__(self, driver, script=True):
        self.driver, self.script = driver, script
        self.profile = tempfile.mkdtemp(prefix="posthorn-browser-")
        options = {
            "binary": next(filter(None, map(shutil.which, CHROMIUM))),
            "args": [*FLAGS, f"--user-data-dir={self.profile}", "--window-size=1280,900"],
            "prefs": {} if script else {"profile.managed_default_content_settings.javascript": 2},
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = driver.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.path = f"/session/{session['sessionId']}"
        driver.browsers.append(self)

    def close(self):
        self.driver.browsers.remove(self)
        self.driver.ask("DELETE", self.path)
        shutil.rmtree(self.profile, ignore_errors=True)

    def forget(self):
        """Makes it a stranger again, which is quicker than a new one."""
        for tab in self.tabs[1:]:
            self.go_to(tab)
            self.ask("DELETE", "/window")
        self.go_to(self.tabs[0])
        self.open("about:blank")
        self.cdp("Network.clearBrowserCookies")
        self.cdp("Emulation.clearDeviceMetricsOverride")

    def ask(self, method, path, body=None):
        return self.driver.ask(method, self.path + path, {} if method == "POST" and body is None else body)

    def cdp(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    # ---- what a person does

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def back(self):
        self.ask("POST", "/back")

    def click(self, css):
        self.ask("POST", f"/element/{self.find(css)}/click")

    def follow(self, css):
        """Clicks on what leads to another page, and waits for that."""
        self.leave(lambda: self.click(css))

    def leave(self, act):
        """Waits until what was done has led to another page."""
        before = self.find("html")
        act()
        self.wait(lambda: not self.exists(before) and self.run("document.readyState") == "complete", "another page")

    def exists(self, element):
        try:
            return bool(self.ask("GET", f"/element/{element}/name"))
        except AssertionError:
            return False

    def type(self, css, text):
        self.ask("POST", f"/element/{self.find(css)}/value", {"text": text})

    def press(self, *keys):
        """On the keyboard, wherever the focus is."""
        strokes = [{"type": kind, "value": key} for key in "".join(keys) for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def chord(self, held, key):
        """A key while another is held."""
        strokes = [("keyDown", held), ("keyDown", key), ("keyUp", key), ("keyUp", held)]
        actions = [{"type": kind, "value": value} for kind, value in strokes]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def new_tab(self):
        self.go_to(self.ask("POST", "/window/new", {"type": "tab"})["handle"])

    def go_to(self, tab):
        self.ask("POST", "/window", {"handle": tab})

    # ---- what a person sees

    @property
    def url(self):
        return self.ask("GET", "/url")

    @property
    def place(self):
        """Where it is, without the workspace that the address names."""
        return re.sub(r"/w/[0-9a-f-]{36}", "", self.url)

    @property
    def tabs(self):
        return self.ask("GET", "/window/handles")

    @property
    def heading(self):
        return self.text("h1")

    def find(self, css):
        return self.ask("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def count(self, css):
        return len(self.ask("POST", "/elements", {"using": "css selector", "value": css}))

    def text(self, css):
        return self.ask("GET", f"/element/{self.find(css)}/text")

    @contextlib.contextmanager
    def frame(self):
        """Meanwhile, everything is asked of the page's only frame."""
        self.ask("POST", "/frame", {"id": 0})
        try:
            yield
        finally:
            self.ask("POST", "/frame", {"id": None})

    def text_in_frame(self, css):
        with self.frame():
            return self.text(css)

    @property
    def status(self):
        """What the server answered the page with."""
        return self.run("performance.getEntriesByType('navigation')[0].responseStatus")

    def run_in_frame(self, script):
        with self.frame():
            return self.run(script)

    def shows(self, css):
        return self.ask("GET", f"/element/{self.find(css)}/displayed")

    def run(self, script):
        return self.ask("POST", "/execute/sync", {"script": f"return {script}", "args": []})

    def barriers(self):
        """What keeps people from using the page, as axe finds it: each rule with the elements that break it."""
        # Frames of ours are sandboxed: axe cannot look into them, and would only wait for an answer.
        options = json.dumps({"iframes": False, "resultTypes": ["violations"]})
        # All that axe notes about a page is much: what is wrong with it will do.
        look = f"axe.run(document, {options}).then((found) => done(found.violations))"
        script = f"const done = arguments[arguments.length - 1]; if (window.axe) {look}; else done(null)"
        found = self.ask("POST", "/execute/async", {"script": script, "args": []})
        if found is None:
            self.ask("POST", "/execute/sync", {"script": AXE.read_text(), "args": []})
            found = self.ask("POST", "/execute/async", {"script": script, "args": []})
        return [f"{one['id']}: {[node['html'][:200] for node in one['nodes']][:3]}" for one in found]

    def cookies(self):
        return {cookie["name"]: cookie for cookie in self.ask("GET", "/cookie")}

    def complaints(self):
        """What the browser had to say about the pages themselves: scripts that fail, policies that are broken."""
        entries = self.ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["source"] != "network"]

    def wait(self, reached, what):
        until = time.monotonic() + LIMIT
        while not (value := reached()):
            assert time.monotonic() < until, f"{what} did not come; the browser is at {self.url}"
            time.sleep(0.02)
        return value

    # ---- in which surroundings

    def screen(self, width, height=900):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def light(self, dark):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])

    def measure(self):
        """How wide and how high the page is, and how wide the screen."""
        return self.run("[document.documentElement.scrollWidth, document.documentElement.scrollHeight, innerWidth]")

    def photograph(self, path, width, height):
        """The page, also what lies below the fold, but not to the end of a long reference."""
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 4000), "scale": 1}
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=True, optimizeForSpeed=True, clip=clip)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

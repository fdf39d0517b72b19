"""A headless Chromium, driven by its debugging protocol over a pipe."""
import base64
import json
import os
import select
import shutil
import subprocess
import time

from lib import lab

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe"]


class Browser:
    """One page. `errors` has what the page logged as errors, and its exceptions; `requests` every address that it asked for."""

    def __init__(self):
        program = shutil.which("chromium")
        if not program:
            raise lab.Skip("needs chromium")
        profile = lab.scratch()
        theirs_in, self.out = os.pipe()
        self.input, theirs_out = os.pipe()

        def descriptors():
            # The browser reads descriptor 3 and writes 4. Copies are made first: these numbers may be in use.
            read, write = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(read, 3)
            os.dup2(write, 4)

        lab.spawn([program, *FLAGS, "--user-data-dir=" + profile, "about:blank"], preexec_fn=descriptors, close_fds=False,
                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=profile))
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.number, self.errors, self.requests, self.session = b"", 0, [], [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        """Calls a method of the protocol; returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.time() + 30 * lab.PATIENCE
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, "%s: %s" % (method, answer["error"])
                return answer["result"]
            self.note(answer)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.input], [], [], max(0, deadline - time.time()))
            assert ready, "the browser does not answer"
            got = os.read(self.input, 1 << 20)
            assert got, "the browser ended"
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append("%s %s" % (parameters["entry"]["text"], parameters["entry"].get("url", "")))
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, script):
        """The value of an expression in the page; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, "%s: %s" % (script, result)
        return result["result"].get("value")

    def until(self, script, what, seconds=15):
        """Waits until an expression is true."""
        lab.wait_until(lambda: self.evaluate(script), what, seconds)

    def set_view(self, width, dark, height=900):
        """Sets the size and the colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, file, whole=True):
        """Stores a picture of the page, or of what is visible."""
        self.store(file, captureBeyondViewport=whole)

    def screenshot_of(self, file, element):
        """Stores a picture of an element, given its selector, with a margin."""
        box = "(() => { const b = document.querySelector('%s').getBoundingClientRect(); return [b.x + scrollX - 12, b.y + scrollY - 12, b.width + 24, b.height + 24] })()"
        clip = dict(zip(("x", "y", "width", "height"), self.evaluate(box % element)), scale=1)
        self.store(file, captureBeyondViewport=True, clip=clip)

    def store(self, file, **what):
        data = self.call("Page.captureScreenshot", format="png", **what)["data"]
        with open(file, "wb") as f:
            f.write(base64.b64decode(data))

    def press(self, key, code=None, shift=False):
        """Presses a key, as in press("Tab")."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, modifiers=8 if shift else 0,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13}.get(key, 0), text="\r" if key == "Enter" and kind == "keyDown" else "")

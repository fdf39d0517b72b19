"""The switch's web page in a headless browser, read as an operator reads it."""
import json

from lib import browser, lab


class Page(browser.Browser):
    """A browser with the page of a switch. Sets `metrics-listen`, so that the switch serves the page."""

    def __init__(self, s):
        super().__init__()
        self.url = "http://127.0.0.1:%d/" % lab.free_port()
        s.vsctl("set", "open_vswitch", ".", 'other_config:metrics-listen="%s"' % self.url[7:-1])
        lab.wait_until(lambda: "metrics and the web page are at " + self.url in s.log(), "the switch listens")
        self.set_view(1280, dark=False)
        self.open(self.url)
        self.until("document.querySelectorAll('#port-rows tr').length > 0", "the page shows ports")

    def shows(self, at, *words):
        """Waits until an element of a list or a table has all these words."""
        row = "[...document.querySelectorAll('#%s > *')].some(r => %s.every(w => r.innerText.includes(w)))" % (at, json.dumps(words))
        try:
            self.until(row, "shown")
        except AssertionError:
            text = self.evaluate("document.getElementById('%s').innerText" % at)
            raise AssertionError("%s is not among %s:\n%s" % (words, at, text)) from None

    def finding(self, *words):
        """Waits for this finding of "What needs attention"."""
        self.shows("findings", *words)

    def why(self, *words):
        """Presses "Why?" of the dropped packet with these words; returns the page's sentences about it."""
        self.shows("recent-rows", *words)
        self.evaluate("document.querySelector('#trace-result').replaceChildren()")
        press = "[...document.querySelectorAll('#recent-rows tr')].find(r => %s.every(w => r.innerText.includes(w))).querySelector('button').click()"
        self.evaluate(press % json.dumps(words))
        self.until("document.getElementById('trace-result').innerText != ''", "an answer")
        return self.evaluate("document.getElementById('trace-result').innerText")

"""A headless Chromium, driven through two pipes in the protocol of its developer tools."""

import base64
import fcntl
import json
import os
import select
import subprocess
import sys

QUIET = ["disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"]
FLAGS = ["headless", "no-sandbox", "no-first-run", "hide-scrollbars", "remote-debugging-pipe", *QUIET]
#: The browser reads commands from descriptor 3 and answers on 4.
LAUNCH = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""
PATIENCE = 120  # seconds without any answer: the browser is dead

READY = """new Promise((done) => {
  const look = () => document.documentElement?.dataset.ready === "" ? done(true) : setTimeout(look, 10);
  look();
})"""


class Chromium:
    """One browser; `send` is a command of the protocol, `events` is all that it has told unasked."""

    def __init__(self, program, folder):
        (theirs_in, self.out), (self.into, theirs_out) = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]
        command = [sys.executable, "-c", LAUNCH, *map(str, theirs), program]
        command += [f"--{flag}" for flag in (*FLAGS, f"user-data-dir={folder}")]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, pass_fds=theirs, **quiet)
        for fd in (theirs_in, theirs_out, *theirs):
            os.close(fd)
        self.rest, self.number, self.events = b"", 0, []

    def close(self):
        self.send("Browser.close")
        self.process.wait(PATIENCE)
        os.close(self.out)
        os.close(self.into)

    def send(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self.read()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def read(self):
        while b"\0" not in self.rest:
            assert select.select([self.into], [], [], PATIENCE)[0], "the browser does not answer"
            piece = os.read(self.into, 1 << 20)
            assert piece, "the browser has ended"
            self.rest += piece
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)


class Page:
    """One tab."""

    def __init__(self, browser, width=1200, height=1000, touch=False):
        self.browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.events.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.send("Emulation.setTouchEmulationEnabled", enabled=touch)

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)

    def open(self, path, fragment=""):
        """Load a page of attention and wait until it is drawn."""
        self.send("Page.navigate", url=path.as_uri() + fragment)
        return self.ask(READY)

    def ask(self, expression, session=None):
        """The value of a JavaScript expression, promises awaited."""
        arguments = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.browser.send("Runtime.evaluate", session or self.session, **arguments)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def settle(self):
        """Wait until what scrolling has changed is drawn."""
        self.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector):
        return self.ask(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector):
        return self.ask(f"Array.from(document.querySelectorAll({json.dumps(selector)}), (e) => e.textContent)")

    def mouse(self, kind, x, y):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, x, y):
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def tap(self, x, y):
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key, shift=False):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0)

    def screenshot(self):
        return base64.b64decode(self.send("Page.captureScreenshot")["data"])

    def events(self, *methods):
        self.ask("1")  # whatever happened before this answer has been told
        return [e["params"] for e in self.browser.events if e.get("method") in methods]

    def complaints(self):
        """Exceptions, errors and warnings of the console."""
        console = [e for e in self.events("Runtime.consoleAPICalled") if e["type"] in ("error", "warning", "assert")]
        return self.events("Runtime.exceptionThrown") + console + self.events("Log.entryAdded")

    def requests(self):
        """What was asked of the network or of other files."""
        urls = [e["request"]["url"] for e in self.events("Network.requestWillBeSent")]
        return [url for url in urls if not url.startswith("data:")]

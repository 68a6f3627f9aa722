"""A headless Chromium, driven through its DevTools protocol on a pair of pipes; the standard library suffices."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Chromium:
    """One browser with one page. Collects what a page says on its console, its exceptions and failed requests."""

    def __init__(self, program="chromium"):
        self._profile = tempfile.mkdtemp(prefix="gneiss-browser-")
        read_commands, self._commands = os.pipe()
        self._events, write_events = os.pipe()

        def give_pipes():  # the browser reads commands from descriptor 3 and writes to 4
            commands, events = os.dup(read_commands), os.dup(write_events)
            os.dup2(commands, 3)
            os.dup2(events, 4)

        self._process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking", "--force-color-profile=srgb",
             f"--user-data-dir={self._profile}", "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_commands)
        os.close(write_events)
        self._buffer, self._last, self._session = b"", 0, None
        self.messages, self._loads = [], 0
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._commands)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._events)
        shutil.rmtree(self._profile, ignore_errors=True)

    def screen(self, width, height, dark, scale=1):
        """Sets the size of the screen [CSS pixels] and the color scheme."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        self._call("Emulation.setEmulatedMedia",
                   features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Loads a file, and returns when it is shown."""
        loads = self._loads
        self._call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait_for(lambda: self._loads > loads, 30, f"{path} to load")
        self.evaluate("document.fonts.ready.then(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))))")

    def wait_for(self, condition, seconds, what):
        """Handles events until `condition()`."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds} s for {what}")
            self._receive(.1)

    def loads(self):
        """Returns the number of loads so far."""
        return self._loads

    def evaluate(self, script):
        """Returns the value of a script, of a promise its result."""
        got = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise RuntimeError(f"{got['exceptionDetails']} in {script}")
        return got["result"].get("value")

    def picture(self, path, height):
        """Writes the page from its top to `height` [CSS pixels] as PNG."""
        width = self.evaluate("innerWidth")
        png = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, optimizeForSpeed=False,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as out:
            out.write(base64.b64decode(png["data"]))

    def _call(self, method, **parameters):
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data):]
        end = time.monotonic() + 60
        while time.monotonic() < end:
            answer = self._receive(1)
            if answer and answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
        raise TimeoutError(f"the browser does not answer {method}")

    def _receive(self, seconds):
        """Returns the next message, or None after `seconds`."""
        while b"\0" not in self._buffer:
            if not select.select([self._events], [], [], seconds)[0]:
                return None
            data = os.read(self._events, 1 << 16)
            if not data:
                raise RuntimeError("the browser has ended")
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Runtime.consoleAPICalled":
            self.messages.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append("exception: " + parameters["exceptionDetails"].get("text", ""))
        elif method == "Log.entryAdded":
            self.messages.append("log: " + parameters["entry"]["text"])
        elif method == "Network.loadingFailed":
            self.messages.append("failed request: " + parameters["errorText"])
        return message

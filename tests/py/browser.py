"""A headless Chromium driven over a pipe by the DevTools protocol, with the standard library alone."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def find():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """Commands go to the browser's descriptor 3, answers and events come from 4, each ended by a zero byte."""

    def __init__(self, program, width=1440, height=1000):
        self.folder = tempfile.TemporaryDirectory(prefix="plimsoll-browser-")
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()

        def wire():
            # Both may be 3 or 4 already: move them out of the way first.
            a, b = os.dup2(to_read, 20, True), os.dup2(to_write, 21, True)
            os.dup2(a, 3, True)
            os.dup2(b, 4, True)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--disable-extensions", "--disable-background-networking", "--user-data-dir=" + self.folder.name, f"--window-size={width},{height}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.number, self.session = b"", 0, None
        self.complaints = []
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.send(domain + ".enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.read, 1 << 16)
            if not more:
                raise RuntimeError("the browser went away")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def note(self, m):
        p = m.get("params", {})
        if m.get("method") == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.complaints.append(d.get("exception", {}).get("description") or d["text"])
        elif m.get("method") == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.complaints.append(p["type"] + ": " + str([a.get("value", a.get("description")) for a in p["args"]]))
        elif m.get("method") == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.complaints.append(p["entry"]["text"])

    def send(self, method, **params):
        self.number += 1
        m = {"id": self.number, "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        os.write(self.write, json.dumps(m).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def open(self, path):
        self.send("Page.navigate", url=path if path.startswith("http://") else "file://" + os.path.abspath(path))
        for _ in range(600):
            if self.run("document.readyState === 'complete' && location.href !== 'about:blank'"):
                return
            time.sleep(0.05)
        raise RuntimeError(path + " does not load")

    def run(self, script):
        r = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(script + ": " + r["exceptionDetails"].get("exception", {}).get("description", "failed"))
        return r["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key, **more):
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def screenshot(self, path, whole=False):
        more = {}
        if whole:
            h = self.run("document.documentElement.scrollHeight")
            more = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": self.run("innerWidth"), "height": h, "scale": 1}}
        data = self.send("Page.captureScreenshot", format="png", **more)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.send("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

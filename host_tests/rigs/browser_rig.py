"""Headless Chromium, driven by its DevTools protocol: loads a page, evaluates expressions, takes
pictures, and records errors and requests.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import time
import urllib.request
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from outpost_tools.trying.fetch.chromium import find

# No sandbox: containers and root cannot have one, and the pages are our own.
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_START_S = 60
# without axe's mere advice
_SERIOUS = "v => v.impact === 'serious' || v.impact === 'critical'"


def skip_without() -> None:
    """For a module of tests: skips it if there is no browser."""
    if find() is None:
        pytest.skip("missing: Chromium; run `make setup`", allow_module_level=True)


class Browser:
    """One Chromium with one page. `errors` and `requests` belong to the page that was loaded
    last."""

    def __init__(self, command: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._log = (folder / "log.txt").open("wb")
        self._process = subprocess.Popen(
            [command, *_FLAGS, f"--user-data-dir={folder / 'data'}", "about:blank"],
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        try:
            self._socket = connect(
                self._page(folder / "data" / "DevToolsActivePort"), max_size=None
            )
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # it may be gone; then _stop() only waits
            self.call("Browser.close")
        self._socket.close()
        self._stop()

    def _stop(self) -> None:
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._log.close()

    def _page(self, port_file: Path) -> str:
        """Returns the address of the page's socket."""
        until = time.monotonic() + _START_S
        while time.monotonic() < until and self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
                port = int(port_file.read_text().splitlines()[0])
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/json/list", timeout=10
                ) as answer:
                    pages = json.load(answer)
                return next(
                    page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"
                )
            time.sleep(0.05)
        raise RuntimeError(f"no Chromium: see {port_file.parent.parent / 'log.txt'}")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Raises RuntimeError if the browser refuses."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        message = json.loads(self._socket.recv(timeout=60))
        details = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(details["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning"):
                self.errors.append(json.dumps(details["args"]))
            case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                self.errors.append(details["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(details["request"]["url"])
        return message

    def load(self, path: Path | str, width: int, height: int) -> float:
        """Returns milliseconds from navigation to the load event, after which all scripts of the
        page have run.

        path: a file or an address.
        """
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.errors, self.requests = [], []
        address = path if isinstance(path, str) else path.resolve().as_uri()
        self.call("Page.navigate", url=address)
        while self._receive().get("method") != "Page.loadEventFired":
            pass
        return self.ask("performance.timing.loadEventStart - performance.timing.navigationStart")

    def ask(self, expression: str) -> Any:
        """Returns the value of the JavaScript, with promises awaited. Raises RuntimeError with its
        error."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while not self.ask(expression):
            assert time.monotonic() < until, (
                f"waited in vain for {expression}; errors: {self.errors}"
            )
            time.sleep(0.05)

    def prefer(self, scheme: str) -> None:
        """scheme: light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def serious(self) -> list[list[str]]:
        """Returns what axe finds in the page that would keep a user out: rule and first element."""
        script = resources.files("axe_core_python").joinpath("axe.min.js")
        self.ask(script.read_text(encoding="utf-8") + ";0")
        found = self.ask(
            "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify("
            f"r.violations.filter({_SERIOUS}).map(v => [v.id, v.nodes[0].html])))"
        )
        return json.loads(found)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save a PNG of the visible part, or of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)[
            "data"
        ]
        path.write_bytes(base64.b64decode(data))

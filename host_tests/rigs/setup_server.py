"""`outpost setup` as a process, and a client that asks it as a browser does, or should not."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import threading
import time

import outpost_command
from outpost_tools.machine import children

WAIT_S = 120


class SetupServer:
    """folder: where it is started. url: as it was printed; path: of the page, once entered.
    command, environment: instead of this repository's."""

    def __init__(self, folder, *words, command=None, environment=None):
        self._folder = folder
        ours = outpost_command.line("setup", "--no-open")
        self._command = command or [*ours, *map(str, words)]
        self._environment = environment or children.tools_environment()
        self._lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.url = self.path = self.cookie = ""
        self.port = 0

    def __enter__(self):
        self.process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self._environment,
            text=True,
        )
        self._reader.start()
        self.wait_for("setup page: ")
        self.url = re.search(r"http://\S+", self.text())[0]
        self.port = int(re.search(r":(\d+)/", self.url)[1])
        return self

    def __exit__(self, *_):
        children.stop(self.process)

    def _read(self):
        for line in self.process.stderr:
            self._lines.append(line)

    def text(self):
        """What it has said."""
        return "".join(self._lines)

    def wait_for(self, text):
        until = time.monotonic() + WAIT_S
        while text not in self.text():
            assert self.process.poll() is None or not self._reader.is_alive(), self.text()
            assert time.monotonic() < until, f"{text!r} does not come: {self.text()}"
            time.sleep(0.01)

    def interrupt(self):
        """Ctrl-C. The exit status."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return status

    # --- As a browser ---

    def ask(self, method, path, body=None, **headers):
        """(status, headers, text). A header of None is left out."""
        ours = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie}
        if body is not None:
            ours |= {
                "Origin": f"http://127.0.0.1:{self.port}",
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }
        ours |= {name.replace("_", "-"): value for name, value in headers.items()}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in ours.items():
                if value is not None:
                    link.putheader(name, value)
            link.endheaders(body)
            answer = link.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            link.close()

    def enter(self):
        """By the address that was printed: the page's HTML."""
        _, headers, text = self.ask("GET", self.url.partition(f":{self.port}")[2])
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        self.path = re.search(r'href="(/[^/]+/)"', text)[1]
        return self.ask("GET", self.path)[2]

    def get(self, path):
        return json.loads(self.ask("GET", self.path + path)[2])

    def post(self, path, body):
        return json.loads(self.ask("POST", self.path + path, json.dumps(body).encode())[2])

    def finished(self, number):
        """The lines of a job when it is over."""
        until = time.monotonic() + WAIT_S
        while (job := self.get(f"jobs/{number}"))["running"]:
            assert time.monotonic() < until, job
            time.sleep(0.05)
        return job["lines"]

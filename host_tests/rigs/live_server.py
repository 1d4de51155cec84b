"""`outpost live` as a process, over a log written by the project's own writer; and a reader of its
events.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.request
from base64 import b64encode

import outpost_command
from outpost_tools.log.segments import SegmentWriter, encode_frame
from outpost_tools.machine import children

STREAM = "0badcafe"
WAIT_S = 120


def payload(device, seq, records, *, time_s=None, held=0, boot=1, up=None, stream=STREAM):
    """records: (name, unit, value)."""
    first = {"bn": f"{device}/", "sid": stream, "seq": seq, "boot": boot, "held": held, "ver": 1}
    first |= {} if time_s is None else {"bt": time_s}
    first |= {} if up is None else {"up": up}
    made = [
        {"n": name, "v": value} | ({"u": unit} if unit else {}) for name, unit, value in records
    ]
    return json.dumps([first | made[0], *made[1:]]).encode()


class Writer:
    """Acts as one collector: what store() wrote is durable when it returns."""

    def __init__(self, log, collector="collector-1"):
        self.segments = SegmentWriter(log / collector)
        self._seqs = {}

    def store(self, device, *records, received_s=None, seq=None, **more):
        now = time.time() if received_s is None else received_s
        seq = self._seqs.get(device, -1) + 1 if seq is None else seq
        self._seqs[device] = seq
        more.setdefault("time_s", now)
        data = payload(device, seq, records, **more)
        self.raw(f"outpost/{device}/data", data, received_s=now)

    def raw(self, topic, data, *, received_s=None, retain=False):
        now = time.time() if received_s is None else received_s
        self.segments.append(encode_frame(int(now * 1000), topic.encode(), data, retain=retain))
        self.segments.commit()


class Server:
    """The process; `url` answers once the context is entered. tree: of another version."""

    def __init__(self, log, folder, *options, password=None, tree=None):
        self.port = children.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = folder / "live.txt"
        self._password = password
        self.context = None  # of HTTPS
        self._environment = children.tools_environment()
        if tree is not None:
            self._environment["PYTHONPATH"] = str(tree.resolve() / "tools")
        self._command = outpost_command.line(
            "live", "--log", log, "--listen", f"127.0.0.1:{self.port}", *options
        )

    def __enter__(self):
        self.process = children.start(self._command, log=self.output, env=self._environment)
        until = time.monotonic() + WAIT_S
        while True:
            with contextlib.suppress(OSError):
                if self.get("/healthz")[0] == 200:
                    return self
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < until, "the page does not answer"
            time.sleep(0.05)

    def __exit__(self, *_):
        children.stop(self.process)

    def headers(self):
        if self._password is None:
            return {}
        word = b64encode(f"outpost:{self._password}".encode()).decode()
        return {"Authorization": f"Basic {word}"}

    def get(self, path, **headers):
        """Returns (status, text, headers)."""
        request = urllib.request.Request(self.url + path, headers=self.headers() | headers)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S, context=self.context) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def text(self, path="/"):
        status, text, _ = self.get(path)
        assert status == 200, text
        return text

    def wait_for(self, text, path="/"):
        until = time.monotonic() + WAIT_S
        while text not in (seen := self.text(path)):
            assert time.monotonic() < until, f"{text!r} does not appear in {seen}"
            time.sleep(0.05)
        return seen


class Events:
    """The server-sent events after `cursor`: (name, id, data)."""

    def __init__(self, server, cursor, board=""):
        self._link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
        self._link.request("GET", f"/events?since={cursor}&board={board}", headers=server.headers())
        self._answer = self._link.getresponse()
        assert self._answer.status == 200
        assert self._answer.getheader("Content-Type").startswith("text/event-stream")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._link.close()

    def next(self):
        fields = {}
        while line := self._answer.readline().decode():
            if line == "\n" and "data" in fields:
                return fields.get("event", "message"), fields.get("id"), json.loads(fields["data"])
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value
        raise EOFError("the server ended the stream")

    def until(self, is_it):
        """Returns the data of the first event for which is_it(data) is true."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            _, _, data = self.next()
            if is_it(data):
                return data
        raise AssertionError("waited in vain for an event")


def cursor_of(page):
    return page.split('data-cursor="', 1)[1].split('"', 1)[0]

"""`outpost run` as a process, and a board that keeps its messages until they are confirmed."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
import urllib.request
from pathlib import Path

import paho.mqtt.client as mqtt

from outpost_tools import cli
from outpost_tools.log import segments
from outpost_tools.machine import children
from outpost_tools.messages.message import key_of
from outpost_tools.mqtt import credentials

STREAM = "0badcafe"
RESEND_S = 1.0
WAIT_S = 120


class Home:
    """One `outpost run` at a time in one folder."""

    def __init__(self, folder, *options, command=(sys.executable, "-m", "outpost_tools.cli")):
        self.state = folder / "home"
        self.broker_port, self.page_port, self.metrics_port = (
            children.free_port() for _ in range(3)
        )
        self.output = folder / "run.txt"
        self.process = None
        self._command = [
            *(*map(str, command), "run", str(self.state)),
            *("--host", "127.0.0.1", "--port", str(self.broker_port), "--minutes", "0"),
            *("--listen", f"127.0.0.1:{self.page_port}"),
            *("--metrics-port", str(self.metrics_port), *options),
        ]

    def start(self, environment=None):
        self.process = children.start(
            self._command,
            log=self.output,
            env=environment or children.tools_environment(),
        )

    def kill(self):
        """Send SIGKILL, like a power cut: the children die with it."""
        children.kill(self.process)

    def terminate(self, number=signal.SIGTERM):
        """Returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)

    def text(self):
        return self.output.read_text()

    def wait_for(self, text, times=1, limit_s=WAIT_S):
        until = time.monotonic() + limit_s
        while self.text().count(text) < times:
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < until, f"{text!r} does not come: {self.text()}"
            time.sleep(0.05)

    def page(self, path="/"):
        """Returns the text of the page; "" if it does not answer."""
        with contextlib.suppress(OSError):
            address = f"http://127.0.0.1:{self.page_port}{path}"
            with urllib.request.urlopen(address, timeout=WAIT_S) as answer:
                return answer.read().decode()
        return ""

    def child(self, name):
        """Returns the process id of our child whose command line contains that word."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                words = (path.parent / "cmdline").read_bytes().decode().split("\0")
                parent = int(path.read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and any(name in word for word in words):
                    return int(path.parent.name)
        return None

    def stored(self):
        """Returns the numbers in all segments of the log."""
        folder = self.state / "log" / "collector-1"
        found = set()
        # the open ones first: what is sealed meanwhile is among the others
        for path in segments.open_segments(folder) + segments.sealed_segments(folder):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_size >= len(segments.MAGIC):
                    for frame in segments.contents(path).frames():
                        found.add(key_of(frame.topic, frame.payload).seq)
        return found

    def add_board(self, name):
        assert cli.main(["broker", "add", str(self.state / "broker"), name]) == 0
        return credentials.find(self.state / "broker", "board", name)


class Board:
    """A thread that measures `count` times, and resends what is not confirmed."""

    def __init__(self, made, count, every_s=0.02):
        self._made, self._count, self._every_s = made, count, every_s
        self.confirmed = -1
        self.measured = 0
        self._kept = {}
        self._ending = threading.Event()
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=made.client_id)
        client.username_pw_set(*made.login)
        client.tls_set_context(made.tls())
        client.reconnect_delay_set(1, 1)
        client.on_connect = lambda one, *_: one.subscribe(f"outpost/{made.user}/durable", qos=1)
        client.on_message = self._on_confirmation
        self._client = client
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._client.connect_async(self._made.host, self._made.port)
        self._client.loop_start()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._thread.join(30)
        self._client.disconnect()
        self._client.loop_stop()

    def wait_until_confirmed(self):
        until = time.monotonic() + WAIT_S
        while self.confirmed < self._count - 1:
            assert time.monotonic() < until, f"{self.confirmed} of {self._count} confirmed"
            time.sleep(0.05)

    def _on_confirmation(self, _client, _userdata, message):
        stream, number, *beyond = message.payload.split()
        if not beyond and stream.decode() == STREAM:
            self.confirmed = max(self.confirmed, int(number))

    def _run(self):
        sent_through, progress_at, before = -1, time.monotonic(), -1
        while not self._ending.wait(self._every_s):
            self.measured = min(self.measured + 1, self._count)
            if self.confirmed > before:
                before, progress_at = self.confirmed, time.monotonic()
            if time.monotonic() - progress_at > RESEND_S:
                sent_through, progress_at = self.confirmed, time.monotonic()
            if self._client.is_connected():
                for seq in range(sent_through + 1, self.measured):
                    self._publish(seq)
                    sent_through = seq

    def _publish(self, seq):
        if seq not in self._kept:  # as in flash: the content stays the same, its time too
            first = {"bn": f"{self._made.user}/", "sid": STREAM, "seq": seq, "boot": 1, "ver": 1}
            first |= {"held": min(self.confirmed + 1, seq), "n": "count", "v": seq}
            self._kept[seq] = json.dumps([first | {"bt": time.time()}]).encode()
        self._client.publish(f"outpost/{self._made.user}/data", self._kept[seq], qos=1)

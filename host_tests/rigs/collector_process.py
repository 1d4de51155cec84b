"""For tests of `outpost collect` as a process: the process itself, a scripted broker, and a watcher
of the confirmations.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

import outpost_command
from outpost_tools.log import segments
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from virtual import packets

STREAM = "0badcafe"
TOPIC = "outpost/b1/data"
LIMIT_S = 120  # the limit of every wait

# The collector, with an fsync of segments that waits until the file $GATE exists.
GATED = """
import os, sys, time
real = os.fsync
def fsync(handle):
    if os.readlink(f"/proc/self/fd/{handle}").endswith(".open"):
        while not os.path.exists(os.environ["GATE"]):
            time.sleep(0.005)
    real(handle)
os.fsync = fsync
from outpost_tools.cli import main
sys.exit(main())
"""

# The collector, on a disk that is full until the file $GATE exists.
FULL = GATED.replace("while not", "if not").replace(
    "time.sleep(0.005)", "raise OSError(28, 'No space left on device')"
)


def payload(seq, *, held=0, device="b1"):
    record = {
        "bn": f"{device}/",
        "sid": STREAM,
        "seq": seq,
        "boot": 1,
        "held": held,
        "ver": 1,
        "n": "x",
        "v": seq,
    }
    return json.dumps([record]).encode()


class Process:
    """One collector at a time on the same directory and id."""

    def __init__(
        self, tmp_path, port, *, program=None, options=(), name="c1", host="127.0.0.1",
        credentials=None, log=None,
    ):  # fmt: skip
        """credentials: of `outpost broker`, instead of host and port. log: a Store; None: a folder
        in tmp_path."""
        where = ["--credentials", str(credentials)] if credentials else []
        where = where or ["--broker", f"{host}:{port}"]
        self.log = tmp_path / "log" if log is None else log
        self.directory = self.log / name
        self.gate = tmp_path / "gate"
        self.output = tmp_path / f"{name}.txt"
        start = outpost_command.line() if program is None else [sys.executable, "-c", program]
        self.command = [*start, "collect", *where, "--log", str(self.log), "--id", name, *options]
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        children.kill(self._process)

    def start(self):
        self._process = children.start(
            self.command, log=self.output, env=children.tools_environment(GATE=str(self.gate))
        )

    def kill(self):
        children.kill(self._process)

    @property
    def status(self):
        """Returns the exit status of a process that has ended."""
        return self._process.returncode

    @property
    def pid(self):
        return self._process.pid

    def interrupt(self):
        """Send SIGINT. Returns the exit status."""
        return self._end(signal.SIGINT)

    def terminate(self):
        """Send SIGTERM. Returns the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number):
        wait_until(lambda: not self.alive or self._catches(number))
        self._process.send_signal(number)
        return self._process.wait(LIMIT_S)

    def _catches(self, number):
        """Until its handlers are installed, a signal kills it like any other program. CPython has
        one for SIGINT from the start; ours are installed together."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (caught,) = (line.split()[1] for line in status.splitlines() if line[:7] == "SigCgt:")
        needed = {number, signal.SIGTERM}
        return all(int(caught, 16) >> one - 1 & 1 for one in needed)

    @property
    def alive(self):
        return self._process.poll() is None

    def text(self):
        return self.output.read_text()

    def wait_subscribed(self, times=1):
        """Wait until it is subscribed. Being connected is not enough: what is published before may
        be lost."""
        wait_until(lambda: self.output.exists() and self.text().count("subscribed to") >= times)

    def frames(self):
        """Returns all stored frames, sealed or not, even while the collector seals."""
        while True:
            files = segments.sealed_segments(self.directory) + segments.open_segments(
                self.directory
            )
            try:
                return [
                    frame
                    for path in files
                    if path.suffix == ".seg" or path.stat().st_size
                    for frame in segments.read_segment(path)
                ]
            except FileNotFoundError:
                continue

    def payloads(self):
        return [frame.payload for frame in self.frames()]


def wait_until(condition, seconds=LIMIT_S):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


class ScriptedBroker:
    """Accepts one collector and speaks only as much MQTT as needed; counts the PUBACK bytes that
    arrive.
    """

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._link = None
        self._buffer = b""

    def close(self):
        self._server.close()
        if self._link:
            self._link.close()

    def accept(self, *, session_present=0):
        if self._link:
            self._link.close()
        self._server.settimeout(LIMIT_S)
        self._link, _ = self._server.accept()
        self._link.settimeout(LIMIT_S)
        self._buffer = b""
        kind, connect = self.packet()
        assert kind == 0x10
        if b"~place" in connect or b"~rights" in connect:  # the checks of a collector at its start
            self._answer_nothing()
            self.accept(session_present=session_present)
            return
        self._link.sendall(packets.encode("CONNACK", session_present=session_present))
        kind, body = self.packet()
        assert kind == 0x82
        self._link.sendall(b"\x90\x03" + body[:2] + b"\x01")

    def _answer_nothing(self):
        self._link.sendall(b"\x20\x02\0\0")
        kind, body = self.packet()
        assert kind == 0x82
        self._link.sendall(b"\x90\x03" + body[:2] + b"\0")
        kind, body = self.packet()
        assert kind == 0x30
        self._link.sendall(packets.frame(kind, body))  # send its marker back

    def publish(self, mid, data, *, dup=False, topic=TOPIC):
        body = packets.text(topic.encode()) + packets.u16(mid) + data
        self._link.sendall(packets.frame(0x3A if dup else 0x32, body))

    def packet(self):
        """Returns (first byte, body) of the next packet."""
        while not (found := packets.take_frame(self._buffer)):
            data = self._link.recv(4096)
            assert data, "the collector closed the connection"
            self._buffer += data
        kind, body, self._buffer = found
        return kind, body

    def acknowledged(self, count):
        """Returns the ids of the next `count` PUBACKs; skips confirmations in between."""
        mids = []
        while len(mids) < count:
            kind, body = self.packet()
            if kind == 0x40:
                mids.append(int.from_bytes(body, "big"))
        return mids

    def silent(self, seconds):
        """True when no byte arrives for that long."""
        self._link.settimeout(seconds)
        try:
            return not self._buffer and self._link.recv(1) is None
        except TimeoutError:
            return True
        finally:
            self._link.settimeout(LIMIT_S)


@pytest.fixture
def mosquitto(tmp_path):
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    with Broker("mosquitto", tmp_path / "broker") as broker:
        yield broker


def connect(broker, name, on_message=None):
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name)
    client.max_inflight_messages_set(500)
    client.on_message = on_message
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    return client


def disconnect(*clients):
    for client in clients:
        client.disconnect()
        client.loop_stop()


class Watcher:
    """Collects the confirmations as boards see them, from its construction on."""

    def __init__(self, broker, name="watcher"):
        self.seen = []
        self.client = connect(
            broker, name, lambda _c, _u, m: self.seen.append((m.topic, m.payload))
        )
        subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: subscribed.set()
        self.client.subscribe("outpost/+/durable", qos=1)
        assert subscribed.wait(LIMIT_S)

    def numbers(self, device):
        """Returns the number of each confirmation."""
        return [int(words[1]) for words in self._words(device) if len(words) == 2]

    def gap_reports(self, device):
        """Returns the ranges of each gap report, with the number before the gap."""
        return [b" ".join(words[1:]).decode() for words in self._words(device) if len(words) > 2]

    def _words(self, device):
        return [p.split() for topic, p in self.seen if topic == f"outpost/{device}/durable"]

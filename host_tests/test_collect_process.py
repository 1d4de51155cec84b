# cpython-only: runs a desktop tool as a process, against real mosquitto and a scripted broker
"""`outpost collect` as a process: the order fsync -> PUBACK on the wire, kills, bad payloads, signals, refusals."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import paho.mqtt.client as mqtt
import pytest

from outpost_tools import segments
from outpost_tools.broker import Broker
from outpost_tools.interpreters import find_mosquitto
from outpost_tools.simulate import children

STREAM = "0badcafe"
TOPIC = "outpost/b1/data"

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

# The collector, on a disk that is full while the file $GATE does not exist.
FULL = GATED.replace("while not", "if not").replace("time.sleep(0.005)", "raise OSError(28, 'No space left on device')")


def payload(seq, *, held=0, device="b1"):
    record = {"bn": f"{device}/", "sid": STREAM, "seq": seq, "boot": 1, "held": held, "ver": 1, "n": "x", "v": seq}
    return json.dumps([record]).encode()


class Process:
    """One collector at a time on the same directory and id."""

    def __init__(self, tmp_path, port, *, program=None, options=()):
        self.log = tmp_path / "log"
        self.directory = self.log / "c1"
        self.gate = tmp_path / "gate"
        self.output = tmp_path / "collector.log"
        start = [sys.executable, "-m", "outpost_tools.cli"] if program is None else [sys.executable, "-c", program]
        self._command = [
            *start,
            "collect",
            "--broker",
            f"127.0.0.1:{port}",
            "--log",
            str(self.log),
            "--id",
            "c1",
            *options,
        ]
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        children.kill(self._process)

    def start(self):
        self._process = children.start(self._command, log=self.output, env=children.tools_environment(GATE=str(self.gate)))

    def kill(self):
        children.kill(self._process)

    def terminate(self):
        """SIGTERM; the exit status."""
        self._process.terminate()
        return self._process.wait(20)

    @property
    def alive(self):
        return self._process.poll() is None

    def text(self):
        return self.output.read_text()

    def frames(self):
        files = segments.sealed_segments(self.directory) + segments.open_segments(self.directory)
        return [frame for path in files for frame in segments.read_segment(path)]

    def payloads(self):
        return [frame.payload for frame in self.frames()]


def wait_until(condition, seconds=15.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


class ScriptedBroker:
    """Accepts one collector and speaks exactly as much MQTT as is needed; counts the PUBACK bytes that come."""

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
        self._server.settimeout(15)
        self._link, _ = self._server.accept()
        self._link.settimeout(15)
        self._buffer = b""
        assert self.packet()[0] == 0x10
        self._link.sendall(bytes((0x20, 2, session_present, 0)))
        kind, body = self.packet()
        assert kind == 0x82
        self._link.sendall(b"\x90\x03" + body[:2] + b"\x01")

    def publish(self, mid, data, *, dup=False, topic=TOPIC):
        topic = topic.encode()
        body = len(topic).to_bytes(2, "big") + topic + mid.to_bytes(2, "big") + data
        assert len(body) < 16384
        length = bytes((len(body) & 127 | 128, len(body) >> 7))
        self._link.sendall(bytes((0x3A if dup else 0x32,)) + length + body)

    def packet(self):
        """(first byte, body) of the next packet."""
        while len(self._buffer) < 2 or len(self._buffer) < 2 + self._buffer[1]:
            data = self._link.recv(4096)
            assert data, "the collector closed the connection"
            self._buffer += data
        kind, end = self._buffer[0], 2 + self._buffer[1]
        body, self._buffer = self._buffer[2:end], self._buffer[end:]
        return kind, body

    def acknowledged(self, count):
        """The ids of the next `count` PUBACKs; a confirmation that comes between is acknowledged."""
        mids = []
        while len(mids) < count:
            kind, body = self.packet()
            if kind == 0x40:
                mids.append(int.from_bytes(body, "big"))
            elif kind & 0xF0 == 0x30:
                after = 2 + int.from_bytes(body[:2], "big")
                self._link.sendall(b"\x40\x02" + body[after : after + 2])
        return mids

    def silent(self, seconds):
        """True when not one byte comes for so long."""
        self._link.settimeout(seconds)
        try:
            return not self._buffer and self._link.recv(1) is None
        except TimeoutError:
            return True
        finally:
            self._link.settimeout(15)


@pytest.fixture
def scripted():
    with closing(ScriptedBroker()) as broker:
        yield broker


def test_no_puback_before_fsync(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=GATED) as collector:
        scripted.accept()
        for mid in range(1, 21):
            scripted.publish(mid, payload(mid))
        assert scripted.silent(0.7)
        collector.gate.touch()
        assert scripted.acknowledged(20) == list(range(1, 21))
        # The group that waited was stored before its PUBACK; what followed was, too.
        assert collector.payloads() == [payload(n) for n in range(1, 21)]


def test_kill_between_arrival_and_fsync_loses_nothing(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=GATED) as collector:
        scripted.accept()
        scripted.publish(7, payload(0))
        assert scripted.silent(0.5)
        collector.kill()
        collector.gate.touch()
        collector.start()
        scripted.accept(session_present=1)
        scripted.publish(7, payload(0), dup=True)  # not acknowledged, so a broker sends it again
        assert scripted.acknowledged(1) == [7]
        assert payload(0) in collector.payloads()


def test_full_disk_acknowledges_nothing_says_so_and_goes_on(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=FULL) as collector:
        scripted.accept()
        scripted.publish(1, payload(0))
        assert scripted.silent(1.5)
        scripted.publish(2, payload(1))
        assert "No space left" in collector.text() and "acknowledging nothing" in collector.text()
        assert collector.text().count("No space left") == 1
        assert collector.alive
        collector.gate.touch()
        assert scripted.acknowledged(2) == [1, 2]
        assert collector.terminate() == 0
        assert collector.payloads() == [payload(0), payload(1)]


def test_old_ids_are_not_acknowledged_on_a_new_connection(tmp_path, scripted):
    with Process(tmp_path, scripted.port, program=GATED) as collector:
        scripted.accept()
        scripted.publish(1, payload(0))
        assert scripted.silent(0.4)
        scripted._link.close()
        collector.gate.touch()
        scripted.accept()
        scripted.publish(2, payload(1))
        assert scripted.acknowledged(1) == [2]
        assert collector.payloads() == [payload(0), payload(1)]


def test_topics_that_nobody_subscribed_to_are_acknowledged_but_not_stored(tmp_path, scripted):
    with Process(tmp_path, scripted.port) as collector:
        scripted.accept()
        for mid, topic in enumerate(("outpost/b1/durable", "outpost/b1/x/data", "other/b1/data", "data", TOPIC), start=1):
            scripted.publish(mid, payload(0), topic=topic)
        assert sorted(scripted.acknowledged(5)) == [1, 2, 3, 4, 5]
        assert [frame.topic for frame in collector.frames()] == [TOPIC.encode()]


@pytest.fixture
def mosquitto(tmp_path):
    if find_mosquitto() is None:
        message = "mosquitto is needed; run `make setup`"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
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
    """Collects confirmations as the boards see them."""

    def __init__(self, broker):
        self.seen = []
        self.client = connect(broker, "watcher", lambda _c, _u, m: self.seen.append((m.topic, m.payload)))
        self.client.subscribe("outpost/+/durable", qos=1)

    def numbers(self, device):
        return [int(p.split()[1]) for topic, p in self.seen if topic == f"outpost/{device}/durable"]


def publish_all(client, count):
    """Numbers 0..count-1 from each of two devices at some 2,000 messages/s, with a bad payload now and then."""
    for seq in range(count):
        for device in ("b1", "b2"):
            client.publish(f"outpost/{device}/data", payload(seq, device=device), qos=1)
        if seq % 100 == 0:
            client.publish(TOPIC, b"\xff bad %d" % seq, qos=1)
        time.sleep(0.001)


def test_kills_in_the_middle_lose_nothing_and_confirm_only_what_is_stored(tmp_path, mosquitto):
    count = 2500
    with Process(tmp_path, mosquitto.port, options=["--segment-bytes", "60000", "--segment-seconds", "0.3"]) as collector:
        wait_until(lambda: collector.output.exists() and "connected" in collector.text())
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        publisher = threading.Thread(target=publish_all, args=(board, count))
        publisher.start()
        for pause in (0.4, 0.7, 0.25, 0.9):
            time.sleep(pause)
            collector.kill()
            stored = set(collector.payloads())
            for device in ("b1", "b2"):
                confirmed = max(watcher.numbers(device), default=-1)
                assert all(payload(n, device=device) in stored for n in range(confirmed + 1))
            collector.start()
        publisher.join()
        wait_until(lambda: all(watcher.numbers(d)[-1:] == [count - 1] for d in ("b1", "b2")))
        assert collector.terminate() == 0
        disconnect(watcher.client, board)
        assert len(watcher.numbers("b1")) > 5
        bad = {b"\xff bad %d" % seq for seq in range(0, count, 100)}
        good = {payload(n, device=d) for n in range(count) for d in ("b1", "b2")}
        assert set(collector.payloads()) == good | bad
        assert segments.open_segments(collector.directory) == []


def test_confirmation_is_given_again_for_duplicates_and_after_a_restart(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port) as collector:
        watcher, board = Watcher(mosquitto), connect(mosquitto, "boards")
        wait_until(lambda: "connected" in collector.text())
        for seq in (0, 1, 3):
            board.publish(TOPIC, payload(seq), qos=1)
        wait_until(lambda: (f"{TOPIC[:-4]}durable", b"0badcafe 1") in watcher.seen)
        time.sleep(0.3)
        watcher.seen.clear()
        board.publish(TOPIC, payload(1), qos=1)
        wait_until(lambda: watcher.numbers("b1") == [1])
        board.publish(TOPIC, payload(5, held=5), qos=1)
        wait_until(lambda: watcher.numbers("b1")[-1] == 5)
        collector.kill()
        watcher.seen.clear()
        collector.start()
        wait_until(lambda: watcher.numbers("b1") == [5])
        disconnect(watcher.client, board)


def test_foreign_payloads_are_stored_and_acknowledged(tmp_path, mosquitto):
    strange = [b"", b"\xff\xfe", b"{}", b"[" * 5000, b"x" * 100_000, payload(1)[:-1]]
    with Process(tmp_path, mosquitto.port) as collector:
        board = connect(mosquitto, "boards")
        board.publish(TOPIC, b"kept by the broker", qos=1, retain=True).wait_for_publish(5)
        wait_until(lambda: "connected" in collector.text())
        for data in strange:
            board.publish(TOPIC, data, qos=1).wait_for_publish(5)
        wait_until(lambda: len(collector.frames()) == len(strange) + 1)
        assert collector.terminate() == 0
        frames = collector.frames()
        assert {f.payload for f in frames if not f.truncated and not f.retained} == {d for d in strange if len(d) < 65536}
        assert [f.original_length for f in frames if f.truncated] == [100_000]
        assert [f.payload for f in frames if f.retained] == [b"kept by the broker"]
        disconnect(board)


def test_broker_that_comes_back_is_found_again(tmp_path, mosquitto):
    with Process(tmp_path, mosquitto.port) as collector:
        wait_until(lambda: "connected" in collector.text())
        mosquitto.kill()
        wait_until(lambda: "connection lost" in collector.text())
        mosquitto.start()
        wait_until(lambda: collector.text().count(": connected") == 2)
        board = connect(mosquitto, "boards")
        board.publish(TOPIC, payload(0), qos=1).wait_for_publish(5)
        wait_until(lambda: collector.payloads() == [payload(0)])
        disconnect(board)


def test_sigint_without_a_broker_ends_at_once(tmp_path):
    with Process(tmp_path, children.free_port()) as collector:
        wait_until(lambda: collector.output.exists() and "trying again" in collector.text())
        os.kill(collector._process.pid, signal.SIGINT)
        assert collector._process.wait(5) == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--broker", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["--broker", "127.0.0.1:1", "--id", "../x"], "--id '../x'"),
        (["--broker", "127.0.0.1:1", "--prefix", "a/#"], "--prefix 'a/#'"),
        (["--broker", "127.0.0.1:1", "--password-file", "x"], "--password-file needs --user"),
        (["--broker", "127.0.0.1:1", "--user", "u", "--password-file", "/nonexistent"], "/nonexistent"),
        (["--broker", "127.0.0.1:1", "--segment-bytes", "0"], "'0' is not a number above 0"),
    ],
)
def test_bad_arguments(tmp_path, options, complaint):
    command = [sys.executable, "-m", "outpost_tools.cli", "collect", "--log", str(tmp_path), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20, env=children.tools_environment())
    assert done.returncode == 2
    assert complaint in done.stderr and "Traceback" not in done.stderr


def test_second_process_on_the_directory(tmp_path):
    with Process(tmp_path, children.free_port()) as collector:
        wait_until(lambda: collector.output.exists() and "trying again" in collector.text())
        done = subprocess.run(
            collector._command,
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
            env=children.tools_environment(),
        )
        assert done.returncode == 2
        assert "in use by another collector" in done.stderr

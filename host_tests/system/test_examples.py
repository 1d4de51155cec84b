# cpython-only: starts a broker and interpreters
"""Each program of firmware/examples, as it is: on the desktop (CPython, 32-bit MicroPython) against
mosquitto, and over the fakes of a Pico W with the files that `outpost flash` copies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from outpost_tools.common.broker import Broker
from outpost_tools.common.interpreters import find_micropython
from outpost_tools.device import kinds, needed, payload
from paths import (
    BENCH_BOARD,
    FAKES,
    FIRMWARE,
    PRODUCT,
    REPOSITORY,
    STUBS,
    UNIX_BOARD,
    joined,
)

FOLDER = FIRMWARE / "examples"
HERE = Path(__file__).resolve().parent
END = "home/end"
WAIT_S = 180
ASLEEP = 75  # board.sleep() of a desktop board ends the process with it


@dataclass(frozen=True)
class Example:
    """One run. topic: of all that it sends. words: what is sent to it when it listens."""

    topic: str
    payloads: tuple[str, ...]
    words: tuple[str, ...] = ()
    runs: int = 1
    slept_ms: int = 0
    status: int = 0


def numbers(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


EXAMPLES = {
    "publish": Example("home/kitchen/count", numbers(10)),
    "subscribe": Example("home/kitchen/lamp", ("off", "on", "off"), ("on", "off", "quit")),
    "deep_sleep": Example("home/kitchen/wake", numbers(4), runs=4, slept_ms=60_000, status=ASLEEP),
    "own_sensor": Example("outpost/kitchen/data", ("99.5", "99", "98.5")),
    "plain_client": Example("home/kitchen/plain", numbers(10)),
    "with_asyncio": Example("home/kitchen/task", numbers(5)),
}


def test_every_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)


class Listener:
    """What the broker delivered; answers each message on the lamp's topic with the next word."""

    def __init__(self, port: int, example: Example) -> None:
        self.payloads: list[str] = []
        self._words = list(example.words)
        self._ended, subscribed = threading.Event(), threading.Event()
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.on_message = lambda _client, _data, got: self._take(got)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", port)
        self._client.subscribe([(example.topic, 1), (END, 1)])
        self._client.loop_start()
        assert subscribed.wait(WAIT_S)

    def _take(self, got: mqtt.MQTTMessage) -> None:
        if got.topic == END:
            self._ended.set()
            return
        self.payloads.append(got.payload.decode())
        if self._words:
            self._client.publish(got.topic + "/set", self._words.pop(0), 1)

    def all(self) -> list[str]:
        self._client.publish(END, b"", 1)
        assert self._ended.wait(WAIT_S)
        return self.payloads

    def close(self) -> None:
        self._client.loop_stop()
        self._client.disconnect()


def values(payloads: list[str], example: Example) -> tuple[str, ...]:
    """Of a station's messages, the first reading."""
    if not example.topic.endswith("/data"):
        return tuple(payloads)
    return tuple(f"{json.loads(text)[0]['v']:g}" for text in payloads)


def by_cpython() -> tuple[list, dict]:
    return [sys.executable], {"PYTHONPATH": joined(*PRODUCT, STUBS)}


def by_micropython() -> tuple[list, dict]:
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    return command, {"MICROPYPATH": joined(*PRODUCT, ".frozen")}


@pytest.mark.parametrize("python", [by_cpython, by_micropython])
@pytest.mark.parametrize("name", EXAMPLES)
def test_on_the_desktop(tmp_path, name, python):
    example = EXAMPLES[name]
    command, environment = python()
    (tmp_path / "simulation.json").write_text('{"sleeps": false}')
    with Broker("mosquitto", tmp_path / "broker") as broker:
        settings = {"device_id": "kitchen", "broker_host": "127.0.0.1", "interval_ms": 200}
        settings["broker_port"] = broker.port
        (tmp_path / "settings.json").write_text(json.dumps(settings))
        listener = Listener(broker.port, example)
        try:
            for _ in range(example.runs):
                done = subprocess.run(
                    [*command, str(FOLDER / f"{name}.py")],
                    cwd=tmp_path, env={**os.environ, **environment},
                    capture_output=True, text=True, check=False, timeout=WAIT_S,
                )  # fmt: skip
                assert done.returncode == example.status, done.stdout + done.stderr
                assert not done.stdout
            assert values(listener.all(), example) == example.payloads
        finally:
            listener.close()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The files of a Pico W."""
    folder = tmp_path_factory.mktemp("pico")
    programs = [(FOLDER / f"{name}.py").read_text() for name in EXAMPLES]
    kind = kinds.load(REPOSITORY, "RPI_PICO_W")
    made = payload.build(REPOSITORY, kind, "x86", needed.defaults(), programs)
    for path, data in made.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    settings = {
        "device_id": "kitchen", "broker_host": "broker.test", "wifi_ssid": "home",
        "outbox_blocks": 4, "interval_ms": 1000,
    }  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def over_fakes(folder, name: str, runs: int, *words: str) -> list[dict]:
    """What each run sent, and how long it slept."""
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    program = [HERE / "program_over_fakes.py", "RPI_PICO_W", folder, str(runs)]
    done = subprocess.run(
        [*command, "-X", "heapsize=4M", *program, FOLDER / f"{name}.py", *words],
        env={**os.environ, "MICROPYPATH": joined(FAKES, UNIX_BOARD, BENCH_BOARD, HERE, ".frozen")},
        capture_output=True, text=True, check=False, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
def test_asleep_a_message_that_the_server_does_not_take_stops_no_others(shipped):
    """One wake in 16, by chance, lasts long enough to set it aside."""
    runs = over_fakes(shipped, "deep_sleep", 800, "!2")
    sent = [int(text) for run in runs for _, text in run["messages"]]
    assert 2 not in sent and len({*sent}) > 100


@pytest.mark.parametrize("name", EXAMPLES)
def test_over_the_fakes_of_a_pico_w(shipped, tmp_path, name):
    example = EXAMPLES[name]
    runs = over_fakes(shipped, name, example.runs, *example.words)
    sent = [message for run in runs for message in run["messages"]]
    assert {topic for topic, _ in sent} == {example.topic}
    assert values([text for _, text in sent], example) == example.payloads
    assert {run["slept_ms"] for run in runs} == {example.slept_ms}
    assert example.slept_ms or {run["open"] for run in runs} == {0}

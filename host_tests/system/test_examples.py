# cpython-only: starts a broker and interpreters
"""Each program of firmware/examples, as it is: on the desktop (CPython, 32-bit MicroPython) against
mosquitto, and in the world of boards/BENCH on a Pico W with the files that `outpost flash` copies.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass

import paho.mqtt.client as mqtt
import pytest

from outpost_tools.boards.files import needed
from outpost_tools.kit.outcome import World
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_micropython
from paths import FIRMWARE, PRODUCT, STUBS, joined
from shipped_run import bench_of, payload_of, run

FOLDER = FIRMWARE / "examples"
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
                assert " connected\n" in done.stdout or name == "deep_sleep", "it says what happens"
            assert values(listener.all(), example) == example.payloads
        finally:
            listener.close()


@pytest.fixture(scope="module")
def shipped():
    """The files of a Pico W."""
    programs = tuple((FOLDER / f"{name}.py").read_text() for name in EXAMPLES)
    return payload_of("RPI_PICO_W", needed.defaults(), programs)


def on_pico(shipped, name: str, seconds: float, *words: str, **broker: object) -> World:
    """words: one every ten seconds."""
    bench = bench_of("RPI_PICO_W", interval_ms=1000)
    topic = EXAMPLES[name].topic.encode() + b"/set"
    bench.said = [(10 * place + 10, topic, word.encode()) for place, word in enumerate(words)]
    bench.broker = broker
    return run(bench, FOLDER / f"{name}.py", shipped, seconds)


@pytest.mark.long
def test_asleep_a_message_that_the_server_does_not_take_stops_no_others(shipped):
    """One wake in 16, by chance, lasts long enough to set it aside."""
    world = on_pico(shipped, "deep_sleep", 800 * 60, silent_on_payloads=["2"])
    sent = [int(arrival.payload) for arrival in world.broker.came]
    assert 2 not in sent and len({*sent}) > 100 and not world.lost()


@pytest.mark.parametrize("name", EXAMPLES)
def test_on_a_pico_w(shipped, name):
    example = EXAMPLES[name]
    seconds = example.runs * 60 if example.slept_ms else 120
    world = on_pico(shipped, name, seconds, *example.words)
    came = world.broker.came
    assert {one.topic.decode() for one in came} == {example.topic}
    assert values([one.payload.decode() for one in came], example) == example.payloads
    assert (world.lost(), world.pending(), world.broker.violations) == ([], [], [])
    if example.slept_ms:
        accepted_ms = [one.ms for one in world.accepted]
        slept = {after - before for before, after in itertools.pairwise(accepted_ms)}
        assert all(0 <= ms - example.slept_ms < 2000 for ms in slept), slept
        assert (world.why, world.boots) == ("time", example.runs)
    else:
        assert (world.why, world.boots, world.open_sockets) == ("ended", example.runs, 0)

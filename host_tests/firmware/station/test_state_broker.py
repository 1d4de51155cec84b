# cpython-only: starts boards as processes of MicroPython, at a real mosquitto
"""The ready program says that it is there: online, offline by its will, asleep; and Home Assistant
sees two such boards through the republisher."""

import json
import os

import paho.mqtt.client as mqtt
import pytest

from collector_process import wait_until
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.servers.republish import link, run
from outpost_tools.servers.republish.topics import Topics
from paths import PRODUCT, REPOSITORY, joined
from real_broker import micropython, need_mosquitto

TOPICS = Topics("outpost")


@pytest.fixture
def broker(tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path / "broker") as made:
        yield made


class Watcher:
    def __init__(self, port):
        self.words = {}
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.client.on_message = self._take
        self.client.connect("127.0.0.1", port)
        self.client.subscribe("outpost/#", 1)
        self.client.loop_start()

    def _take(self, _client, _userdata, one):
        self.words.setdefault(one.topic, []).append(one.payload.decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

    def of(self, board, last="state"):
        return self.words.get(f"outpost/{board}/{last}", [])


@pytest.fixture
def watcher(broker):
    with Watcher(broker.port) as made:
        yield made


@pytest.fixture
def start(tmp_path, broker):
    """start(name, setting=value, ...): a process of that board, in a folder of its own."""
    processes = []

    def start(name, **more):
        processes.append(process_of(tmp_path / name, name, broker.port, more))
        return processes[-1]

    yield start
    for one in processes:
        children.kill(one)


def process_of(folder, name, port, more):
    folder.mkdir(exist_ok=True)
    settings = {
        "device_id": name, "broker_host": "127.0.0.1", "broker_port": port,
        "outbox_blocks": 4, "mode": "broker", "interval_ms": 100, "sensors": ["load"],
        "say_state": True, **more,
    }  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "simulation.json").write_text(json.dumps({"stop_file": "stop"}))
    return children.start(
        [*micropython("i386"), str(REPOSITORY / "firmware" / "main.py")],
        log=folder / "board.log", cwd=folder,
        env={**os.environ, "MICROPYPATH": joined(*PRODUCT)},
    )  # fmt: skip


def ended(process, folder):
    """The exit status."""
    wait_until(lambda: process.poll() is not None)
    print((folder / "board.log").read_text())
    return process.returncode


def test_a_board_that_is_killed_is_offline_and_back(start, watcher):
    for _ in range(2):
        watcher.words.clear()
        process = start("kitchen")
        wait_until(lambda: watcher.of("kitchen")[-1:] == ["online"])
        children.kill(process)
        wait_until(lambda: watcher.of("kitchen")[-1:] == ["offline"])


def test_a_board_that_ends_in_order_says_so(tmp_path, start, watcher):
    process = start("kitchen")
    wait_until(lambda: watcher.of("kitchen")[-1:] == ["online"])
    (tmp_path / "kitchen" / "stop").touch()
    assert ended(process, tmp_path / "kitchen") == 0
    wait_until(lambda: watcher.of("kitchen") == ["online", "offline"])


def test_a_board_in_deep_sleep_is_never_offline(tmp_path, start, watcher):
    for count in (1, 2):
        process = start("kitchen", deep_sleep=True)
        assert ended(process, tmp_path / "kitchen") == 75
        wait_until(lambda: len(watcher.of("kitchen")) == count)  # noqa: B023 - called at once
    assert set(watcher.of("kitchen")) == {"asleep"}


def test_without_the_key_a_board_says_nothing(broker, start, watcher):
    process = start("kitchen", say_state=False)
    wait_until(lambda: len(watcher.of("kitchen", "data")) > 3)
    children.kill(process)
    with Watcher(broker.port) as other:  # what was retained comes before the marker
        other.client.publish("outpost/marker/data", b"", 1)
        wait_until(lambda: other.of("marker", "data"))
    wait_until(lambda: watcher.of("marker", "data"))
    assert watcher.of("kitchen") == other.of("kitchen") == []


def test_two_boards_through_the_republisher(broker, start, watcher, monkeypatch):
    monkeypatch.setattr(link, "LEARN_S", 0.3)
    connection = link.Link(("127.0.0.1", broker.port), "republisher", TOPICS, "homeassistant")
    made = run.Republisher(connection, TOPICS, "homeassistant")

    def until(is_done):
        def turn():
            made.step(0.02)
            return is_done()

        wait_until(turn)

    until(lambda: made.is_ready)
    boards = {name: start(name) for name in ("kitchen", "cellar")}
    until(lambda: all(watcher.of(name, "available") == ["online"] for name in boards))
    until(lambda: all(made.newest.boards[name].state == "online" for name in boards))
    until(lambda: all({"load", "firmware", "report_s"} <= set(made.newest.boards[n].values)
                      for n in boards))  # fmt: skip
    assert all(made.newest.boards[name].expire_s == 300 for name in boards)  # the least
    children.kill(boards["kitchen"])
    until(lambda: made.newest.boards["kitchen"].state == "offline")
    assert made.newest.boards["cellar"].state == "online"
    children.kill(boards["cellar"])
    connection.close()

# cpython-only: starts boards as processes of MicroPython, at a real mosquitto
"""The ready program says that it is there: online, offline by its will, asleep; and Home Assistant
sees two such boards through the republisher."""

import json
import os
import subprocess

import paho.mqtt.client as mqtt
import pytest

from collector_process import wait_until
from outpost_tools.common import children
from outpost_tools.common.broker import Broker
from outpost_tools.common.interpreters import find_micropython
from outpost_tools.republish import link, run
from outpost_tools.republish.topics import Topics
from paths import REPOSITORY
from real_broker import need_mosquitto

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

    def of(self, board, last="state"):
        return self.words.get(f"outpost/{board}/{last}", [])


@pytest.fixture
def watcher(broker):
    made = Watcher(broker.port)
    yield made
    made.client.loop_stop()


def start(folder, broker, name, **more):
    """The process of a board, in a folder of its own."""
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    folder = folder / name
    folder.mkdir(exist_ok=True)
    settings = {
        "device_id": name, "broker_host": "127.0.0.1", "broker_port": broker.port,
        "outbox_blocks": 4, "mode": "broker", "interval_ms": 100, "sensors": ["load"],
        "say_state": True, **more,
    }  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "simulation.json").write_text(json.dumps({"stop_file": "stop"}))
    path = ":".join(str(REPOSITORY / one) for one in ("firmware", "boards", "boards/UNIX"))
    return subprocess.Popen(
        [*command, REPOSITORY / "firmware" / "main.py"],
        cwd=folder, env={**os.environ, "MICROPYPATH": path}, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_board_that_is_killed_is_offline_and_back(tmp_path, broker, watcher):
    for _ in range(2):
        watcher.words.clear()
        process = start(tmp_path, broker, "kitchen")
        wait_until(lambda: watcher.of("kitchen")[-1:] == ["online"])
        children.kill(process)
        wait_until(lambda: watcher.of("kitchen")[-1:] == ["offline"])


def test_a_board_that_ends_in_order_says_so(tmp_path, broker, watcher):
    process = start(tmp_path, broker, "kitchen")
    wait_until(lambda: watcher.of("kitchen")[-1:] == ["online"])
    (tmp_path / "kitchen" / "stop").touch()
    assert process.wait(60) == 0, process.stderr.read()
    wait_until(lambda: watcher.of("kitchen") == ["online", "offline"])


def test_a_board_in_deep_sleep_is_never_offline(tmp_path, broker, watcher):
    for count in (1, 2):
        process = start(tmp_path, broker, "kitchen", deep_sleep=True)
        assert process.wait(60) == 75, process.stderr.read()
        wait_until(lambda: len(watcher.of("kitchen")) == count)  # noqa: B023 - called at once
    assert set(watcher.of("kitchen")) == {"asleep"}


def test_without_the_key_a_board_says_nothing(tmp_path, broker, watcher):
    process = start(tmp_path, broker, "kitchen", say_state=False)
    wait_until(lambda: len(watcher.of("kitchen", "data")) > 3)
    children.kill(process)
    wait_until(lambda: watcher.of("kitchen", "data"))
    assert watcher.of("kitchen") == []


def test_two_boards_through_the_republisher(tmp_path, broker, watcher, monkeypatch):
    monkeypatch.setattr(link, "LEARN_S", 0.3)
    connection = link.Link(("127.0.0.1", broker.port), "republisher", TOPICS, "homeassistant")
    made = run.Republisher(connection, TOPICS, "homeassistant")

    def until(is_done):
        def turn():
            made.step(0.02)
            return is_done()

        wait_until(turn)

    until(lambda: made.is_ready)
    boards = {name: start(tmp_path, broker, name) for name in ("kitchen", "cellar")}
    until(lambda: all(watcher.of(name, "available") == ["online"] for name in boards))
    until(lambda: all(made.newest.boards[name].state == "online" for name in boards))
    until(lambda: all({"load", "firmware", "report_s"} <= set(made.newest.boards[n].values)
                      for n in boards))  # fmt: skip
    assert all(made.newest.boards[name].expire_s == 63 for name in boards)  # 3 times 1 s, and 60
    children.kill(boards["kitchen"])
    until(lambda: made.newest.boards["kitchen"].state == "offline")
    assert made.newest.boards["cellar"].state == "online"
    children.kill(boards["cellar"])
    connection.close()

# cpython-only: starts boards as processes of MicroPython
"""The station with each policy for a full outbox: first without a broker until it is full, with a
power cut in it, then with one: what arrives."""

import json

import paho.mqtt.client as mqtt
import pytest

from collector_process import wait_until
from outpost_tools.loopback.broker import Broker
from test_main import SETTINGS, run_board


def stored(folder):
    lines = (folder / "journal.txt").read_text().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("ok ")]


def refused(folder):
    return [x for x in (folder / "journal.txt").read_text().splitlines() if x[:8] == "refused "]


@pytest.mark.parametrize("when_full", ["refuse", "drop_oldest", "newest_per_topic"])
def test_a_board_with_each_policy(tmp_path, when_full):
    settings = {
        **SETTINGS, "mode": "broker", "interval_ms": 1, "broker_port": 1, "sensors": ["load"],
        "when_full": when_full,
    }  # fmt: skip
    # the power goes, twice, long after the outbox of 4 blocks is full; one that refuses has room
    cuts = (230, 70) if when_full != "refuse" else (45, 30)
    for cut in cuts:
        done = run_board(tmp_path, settings, cut_at_operation=cut, cut_mode="first")
        assert done.returncode == 137, done.stderr
    published = stored(tmp_path)
    assert published == sorted(set(published))
    (tmp_path / "stop").touch()
    seen: list[int] = []
    with Broker("mosquitto", tmp_path / "broker") as broker:
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.on_message = lambda _c, _u, one: seen.append(json.loads(one.payload)[0]["seq"])
        client.connect("127.0.0.1", broker.port)
        client.subscribe("outpost/board-1/data", 1)
        client.loop_start()
        done = run_board(tmp_path, {**settings, "broker_port": broker.port})
        assert done.returncode == 0, done.stderr
        wait_until(lambda: seen and seen[-1] >= published[-1])
        client.loop_stop()
    counters = json.loads((tmp_path / "counters.json").read_text())
    assert counters["held"] == counters["next_seq"]
    if when_full == "refuse":
        assert seen[: len(published)] == published  # nothing that was stored is missing
    else:
        assert seen == sorted(set(seen)) and seen[-1] >= published[-1]
        assert not refused(tmp_path)
        assert len(seen) < len(published)  # the oldest are gone,
        # Whole sectors are dropped, and of four blocks the other keeps two spare.
        kept = 30 if when_full == "drop_oldest" else 20
        assert set(published[-kept:]) <= set(seen)  # and no newer one

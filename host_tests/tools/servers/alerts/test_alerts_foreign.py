# cpython-only: a desktop tool
"""Rules of alerts for devices of a mapping: readings, silence, offline; over restarts, and beside a
board with the same name. The clock is the test's.
"""

import json
from types import SimpleNamespace

import pytest

from alerts_rig import Clock, close_store, stored, toml
from live_server import payload
from outpost_tools.log.segment_frames import FLAG_RETAIN, Frame
from outpost_tools.readings.sources import file
from outpost_tools.servers.alerts import conditions, settings, watch
from outpost_tools.servers.alerts.courier import Courier
from outpost_tools.servers.alerts.watch import Alerts
from outpost_tools.servers.live.fleet import Fleet

HOUR_S = 3600.0
MAPPING = """
[[source]]
name = "json"
topic = "json/{device#}"
time = "time"
values = ["**"]
units = { power = "W" }

[[state]]
name = "will"
topic = "will/{device#}"
online = "on"
offline = "off"
"""
HEAD = '[[command]]\nrun = "cat"\n'


class House:
    """told: (state, board, text) of all that was sent."""

    def __init__(self, folder, text):
        self.folder, self.clock, self.told, self.said = folder, Clock(), [], []
        self.path = toml(folder, HEAD + text)
        self.frames = []
        self.start()

    def start(self):
        wish = settings.load(self.path)
        self.store = stored(
            self.folder, wish, self.said, is_wanted=lambda key: conditions.is_wanted(wish, key)
        )
        mapping = file.parse(MAPPING, "sources.toml")
        self.fleet = Fleet(self.clock.now_ms, mapping)
        self.fleet.history_read(None, is_complete=True)
        self.fleet.is_collected = True
        self.couriers = []
        self.alerts = Alerts(
            wish, self.store, self.fleet, SimpleNamespace(reason=""), self.folder,
            self.said.append, clock=self.clock.now, steady=self.clock.steady,
            couriers=self._courier,
        )  # fmt: skip
        self.fleet.take(self.frames)
        self.look()

    def _courier(self, *arguments):
        made = Courier(*arguments, clock=self.clock.now, steady=self.clock.steady, send=self._send)
        self.couriers.append(made)
        return made

    def _send(self, _channel, message):
        alerts = message.document["alerts"]
        self.told += [(one["state"], one["board"], one["text"]) for one in alerts]
        return ""

    def restart(self):
        close_store(self.store)
        self.start()

    def look(self):
        self.fleet.look(at_once=True)
        self.alerts.turn()
        for courier in self.couriers:
            courier.step()

    def passes(self, seconds, step_s=30.0):
        for _ in range(int(seconds / step_s)):
            self.clock.passes(step_s)
            self.look()

    def take(self, topic, data, *, retained=False):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        flags = FLAG_RETAIN if retained else 0
        self.frames.append(
            Frame(self.clock.now_ms(), flags, len(data), topic.encode(), data, offset=1)
        )
        self.fleet.take(self.frames[-1:])
        self.look()

    def news(self):
        told, self.told = self.told, []
        return told


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setattr(watch.shutil, "disk_usage", lambda _path: SimpleNamespace(free=10 << 30))
    made = []

    def make(text):
        made.append(House(tmp_path, text))
        return made[0]

    yield make
    for one in made:
        close_store(one.store)


READING = '[[reading]]\nsensor = "power"\nabove = 50\nhysteresis = 5\nboards = ["front *"]\n'


def test_a_rule_names_a_device_and_its_metric_and_ends_over_a_restart(house):
    home = house(READING)
    home.take("json/back door", {"power": 90})
    assert home.news() == []
    home.clock.passes(1)
    home.take("json/front door/up", {"power": 60})
    begin = "front door/up: power 60 W, above 50 W"
    assert home.news() == [("begin", "front door/up", begin)]
    home.clock.passes(5)
    home.restart()
    assert home.news() == []
    home.take("json/front door/up", {"power": 44})
    end = "front door/up: power 44 W, no longer above 50 W"
    assert home.news() == [("end", "front door/up", end)]


def test_a_last_known_value_a_copy_and_a_late_reading_break_no_rule(house):
    home = house(READING)
    home.take("json/front a", {"power": 60}, retained=True)
    late = {"power": 60, "time": home.clock.now_s - 600}
    home.take("json/front a", late)
    home.take("json/front a", late)
    assert home.news() == [] and home.fleet.boards["other:front:20a"].messages == 1


def test_a_board_and_a_device_of_one_name_have_alerts_of_their_own(house):
    home = house(READING.replace("front *", "kitchen"))
    record = [("power", "W", 70)]
    home.take("outpost/kitchen/data", payload("kitchen", 0, record, time_s=home.clock.now_s))
    home.take("json/kitchen", {"power": 80})
    texts = [text for _, _, text in home.news()]
    assert texts == ["kitchen: power 70 W, above 50 W", "kitchen: power 80 W, above 50 W"]
    assert set(home.store.ledger.told) == {
        "reading above 50/kitchen/power",
        "reading above 50/other:kitchen/power",
    }


SILENCE = '[[silence]]\nlonger_than = "2h"\nboards = ["front door", "washer"]\n'


def test_a_silent_device_is_told_and_its_will_or_a_last_known_value_is_no_sign_of_life(house):
    home = house(SILENCE)
    home.take("json/front door", {"power": 1})
    home.take("json/washer", {"power": 1})
    for _ in range(3):
        home.passes(HOUR_S)
        home.take("will/washer", b"on", retained=True)
        home.take("json/washer", {"power": 1}, retained=True)
        home.take("json/front door", {"power": 1})
    assert home.news() == [("begin", "washer", "washer: nothing for 2 h")]
    home.restart()
    home.take("json/washer", {"power": 1})
    assert home.news() == [("end", "washer", "washer: heard again")]


@pytest.mark.parametrize("retained", [False, True])
def test_a_named_device_that_never_sent_is_told_until_it_sends(retained, house):
    home = house(SILENCE)
    if retained:
        home.take("json/washer", {"power": 1}, retained=True)
    home.passes(2 * HOUR_S + 60, 60)
    word = "has sent no new reading" if retained else "has never sent anything"
    assert (
        home.news()
        == [
            ("begin", "washer", f"washer: {word}"),
            ("begin", "front door", "front door: has never sent anything"),
        ][:: 1 if retained else -1]
    )
    home.restart()
    home.take("json/washer", {"power": 1})
    home.take("json/front door", {"power": 1})
    assert home.news() == [
        ("end", "washer", "washer: heard again"),
        ("end", "front door", "front door: heard again"),
    ]


def test_offline_is_told_after_a_while_and_its_end_and_can_be_left_out(house, tmp_path):
    home = house('[attention]\nfor = "1m"\n')
    home.take("json/washer", {"power": 1})
    home.take("will/washer", b"off")
    home.passes(90)
    assert home.news() == [("begin", "washer", "washer: offline")]
    home.take("will/washer", b"on")
    home.passes(90)
    assert home.news() == [("end", "washer", "washer: online again")]
    home.path = toml(tmp_path, HEAD + '[attention]\nfor = "1m"\nleave_out = ["offline"]\n')
    home.restart()
    home.take("will/washer", b"off")
    home.passes(300)
    assert home.news() == []


def test_a_device_that_stopped_needs_attention_after_three_of_its_pauses(house):
    home = house('[attention]\nfor = "1m"\n')
    for _ in range(26):
        home.clock.passes(HOUR_S)
        home.take("json/washer", {"power": 1})
    home.passes(3 * HOUR_S)
    assert home.news() == []
    home.passes(300)
    assert home.news() == [("begin", "washer", "washer: silent for 3 h")]
    home.take("json/washer", {"power": 1})
    home.passes(120)
    assert home.news() == [("end", "washer", "washer: heard again")]

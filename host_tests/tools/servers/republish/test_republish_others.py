# cpython-only: it tests the desktop tools
"""Devices of a mapping for consumers: what is current, what Home Assistant is told, bounds."""

import json
from types import SimpleNamespace

import pytest

import ha_rules
from outpost_tools.readings.sources import file, ready_files
from outpost_tools.readings.sources.idents import ident
from outpost_tools.servers.republish import discovery, identity, others
from outpost_tools.servers.republish.newest import EXPIRE_S, MOST_OTHER_S
from outpost_tools.servers.republish.others import Others
from outpost_tools.servers.republish.run import Republisher
from outpost_tools.servers.republish.topics import Topics

NOW_S = 1_795_000_000.0
TOPICS = Topics("outpost")
TEXT = """
[[source]]
name = "json"
topic = "json/{device#}"
time = "time"
values = ["**"]
units = { power = "W" }

[[source]]
name = "theirs"
topic = "theirs/{device}/{metric}"
payload = "number"
home_assistant = true

[[state]]
name = "will"
topic = "will/{device#}"
online = "on"
offline = "off"
"""


class Broker:
    """In place of the connection: what arrives, and what is published. last: by topic."""

    is_fresh = False
    has_learned = can_write = connected = True

    def __init__(self):
        self.arrives, self.filters, self.last = [], [], {}

    def want(self, name):
        self.filters.append(name)

    def take(self, _wait_s):
        arrived, self.arrives = self.arrives, []
        return arrived

    def publish(self, messages):
        self.last |= {topic: payload.decode() for topic, payload in messages}


class House:
    def __init__(self, text=TEXT, ha_prefix="homeassistant"):
        self.now, self.broker = NOW_S, Broker()
        self.others = Others(file.parse(text, "sources.toml"), "outpost")
        clocks = [lambda: self.now] * 2
        self.made = Republisher(self.broker, TOPICS, ha_prefix, *clocks, others=self.others)

    def hear(self, topic, data, *, retained=False):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.broker.arrives.append((topic, data, retained))
        self.step()

    def step(self):
        self.made._published_at.clear()
        self.made.step(0)

    def passes(self, seconds):
        self.now += seconds
        self.step()

    def available(self, ident):
        return self.broker.last.get(TOPICS.available(ident))

    def config(self, ident):
        topic = discovery.config_topic("homeassistant", ident)
        text = self.broker.last.get(topic)
        return None if text is None else ha_rules.check(topic, text.encode())


@pytest.fixture
def house():
    return House()


def test_a_device_is_published_with_its_own_name(house):
    house.hear("json/front door/up", {"power": 38.5, "switch:0.on": True})
    name = "other:front:20door:2fup"
    last = house.broker.last
    assert last[TOPICS.value(name, "power")] == "38.5"
    assert house.available(name) == "online"
    pack = [
        {"n": f"{name}/power", "u": "W", "v": 38.5, "t": NOW_S},
        {"n": f"{name}/switch:0.on", "u": "/", "v": 1.0, "t": NOW_S},
    ]
    assert json.loads(last[TOPICS.latest(name)]) == pack
    given = house.config(name)
    assert given["device"] == {"identifiers": [f"outpost_{name}"], "name": "front door/up"}
    assert given["components"]["power"]["unique_id"] == f"outpost/{name}/power"
    assert given["components"]["switch:0.on contact"]["platform"] == "binary_sensor"
    places = [one["topic"] for one in given["availability"]]
    assert places == [TOPICS.ours, TOPICS.available(name)]  # nobody publishes its state


def test_what_home_assistant_has_is_published_but_not_announced(house):
    house.hear("theirs/plug/power", b"7")
    assert house.broker.last[TOPICS.value("other:plug", "power")] == "7"
    assert house.config("other:plug") is None
    house.hear("json/plug", {"extra": 1})  # another source of the same device
    assert set(house.config("other:plug")["components"]) == {"extra"}
    assert set(json.loads(house.broker.last[TOPICS.latest("other:plug")])[0]) == {"n", "v", "t"}


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("tasmota", True), ("zigbee2mqtt", True), ("esphome", True), ("homeassistant", True),
        ("shelly", False), ("chirpstack", False), ("senml", False), ("numbers", False),
    ],
)  # fmt: skip
def test_the_ready_files_say_what_home_assistant_has(name, has):
    assert {one.given.home_assistant for one in ready_files.ready(name).sources} == {has}


def test_a_last_known_value_an_old_one_and_a_word_make_nothing_current(house):
    house.hear("json/a", {"power": 1}, retained=True)
    house.hear("json/a", {"power": 1, "time": NOW_S - 600})
    house.hear("will/a", b"on")
    assert not house.broker.last and house.made.newest.left_out == {"other:a": (1, 600.0)}


def test_offline_ends_what_is_current_until_a_new_value(house):
    house.hear("json/a", {"power": 1})
    house.hear("will/a", b"off", retained=True)
    assert house.available("other:a") == "offline"
    house.hear("will/a", b"on")
    assert house.available("other:a") == "offline"
    house.hear("json/a", {"power": 1, "time": NOW_S + 1})
    assert house.available("other:a") == "online"


def test_it_expires_after_an_hour_or_three_of_its_pauses(house):
    house.hear("json/a", {"power": 1})
    house.passes(EXPIRE_S + 1)
    assert house.available("other:a") == "offline"
    house.passes(3 * 3600 - EXPIRE_S - 1)
    house.hear("json/a", {"power": 1})
    assert house.config("other:a")["components"]["power"]["expire_after"] == 9 * 3600 + 60
    house.passes(9 * 3600)
    assert house.available("other:a") == "online"
    house.passes(61)
    assert house.available("other:a") == "offline"
    house.passes(10 * 86_400)
    house.hear("json/a", {"power": 1})
    house.passes(MOST_OTHER_S - 1)
    assert house.available("other:a") == "online"
    house.passes(2)
    assert house.available("other:a") == "offline"


def test_a_flood_of_names_is_refused_and_told(capsys, monkeypatch):
    house = House(TEXT + "[limits]\ndevices = 3\nmetrics = 4\n")
    for n in range(50):
        house.hear(f"json/d{n}", {"power": 1})
        house.hear("json/d0", {f"x{n}": 1})
    assert len(house.made.newest.boards) == 3
    assert len(house.made.newest.boards["other:d0"].values) == 4
    house.passes(61)
    said = capsys.readouterr().err
    assert "--sources: not read: json: a new device, and this source has 3 already (47)" in said
    monkeypatch.setattr(others, "MOST_DEVICES", 3)
    house.others._names = SimpleNamespace(refusal=lambda _one: "")
    house.hear("json/e", {"power": 1})
    assert "other:e" not in house.made.newest.boards


def test_our_own_topics_are_never_a_mappings():
    house = House('[[source]]\nname = "all"\ntopic = "#"\ndevice = "x"\nvalues = ["**"]\n')
    assert house.broker.filters == ["#"]
    house.hear("outpost/a/latest", {"power": 1})
    house.hear("homeassistant/device/a/config", {"power": 1})
    assert not house.made.newest.boards
    house.hear("homeassistant/sensor/a/state", {"power": 1})
    assert list(house.made.newest.boards) == ["other:x"]


def test_what_an_earlier_run_announced_is_taken_up_and_expires_without_a_mapping():
    first = House()
    first.hear("json/a b", {"power": 1, "x y": 2})
    name = "other:a:20b"
    topic = discovery.config_topic("homeassistant", name)
    later = House("[limits]\n" + TEXT.replace("json/", "elsewhere/"))
    later.hear(topic, first.broker.last[topic].encode(), retained=True)
    later.hear(TOPICS.available(name), b"online", retained=True)
    assert set(later.made.newest.boards[name].components) == {"power", "x y"}
    later.passes(EXPIRE_S + 1)
    assert later.available(name) == "offline"


def test_two_metrics_never_have_one_key_or_one_id(house):
    house.hear("json/a", {"x": True, "x contact": 5, "x:20contact": 6})
    given = house.config("other:a")
    assert set(given["components"]) == {"x", "x contact", "x:20contact", "x:3a20contact"}


@pytest.mark.parametrize("name", ["a", "front door", "Ä", "x" * 64, "-", "a.b", "²"])
def test_every_name_is_a_topic_of_home_assistants_and_no_boards(name):
    topic = discovery.config_topic("homeassistant", ident(name))
    assert ha_rules.TOPIC.match(topic.removeprefix("homeassistant/"))
    assert len(identity.object_id(ident(name))) > 64  # longer than a board's

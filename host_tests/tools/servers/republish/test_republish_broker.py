# cpython-only: runs mosquitto, with the rights that `outpost broker` makes
"""The republisher at a real mosquitto: two boards, an outage of an hour by a scripted clock, kills
of the republisher and the broker, a board that is taken away, and rights."""

import json
import time
from types import SimpleNamespace

import pytest

import ha_rules
import series_writer
from collector_process import Process, wait_until
from made_broker import MadeBroker
from outpost_tools import cli
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.servers.republish import discovery, link, run
from outpost_tools.servers.republish.newest import FRESH_S
from outpost_tools.servers.republish.topics import Topics

TOPICS = Topics("outpost")
HOUR = 3600
NAMES = ("kitchen", "cellar")
REFUSED = 0x80

pytestmark = pytest.mark.skipif(
    find_mosquitto() is None, reason="missing: mosquitto; run `make setup`"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with MadeBroker(tmp_path_factory.mktemp("made"), *NAMES, "garden", "rogue") as broker:
        broker.outpost("add", "--republisher", "republisher")
        broker.outpost("add", "--reader", "home-assistant")
        broker.outpost("add", "--reader", "late")
        yield broker


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A test need not wait for more than a broker on loopback needs."""
    monkeypatch.setattr(link, "LEARN_S", 0.3)
    monkeypatch.setattr(run, "INTERVAL_S", 0.0)


def opened(made, clock, ha_prefix="homeassistant", **more):
    found = made.credentials("republisher", "republisher")
    connection = link.Link(
        found.address, found.client_id, TOPICS, ha_prefix, login=found.login, tls=found.tls(),
        **more,
    )  # fmt: skip
    clocks = [lambda: clock.now] * 2  # they go together: none is ever set
    return run.Republisher(connection, TOPICS, ha_prefix, *clocks)


class Watcher:
    """Home Assistant's place: what is on each topic, and every value that ever came live."""

    def __init__(self, peer):
        self.peer, self.last, self.live = peer, {}, []
        peer.client.on_message = self._take
        for name in ("outpost/+/latest/+", "outpost/+/latest", "outpost/+/state",
                     "outpost/+/available", "outpost/collectors/.latest",
                     "homeassistant/#"):  # fmt: skip
            assert peer.subscribe(name) in (0, 1)

    def _take(self, _client, _userdata, one):
        self.last[one.topic] = one.payload.decode()
        if not one.retain:
            self.live.append((one.topic, one.payload.decode()))

    def values(self, device, sensor="temperature"):
        topic = TOPICS.value(device, sensor)
        return [float(text) for name, text in self.live if name == topic]

    def is_available(self, device):
        """By the rules of availability_mode "all"."""
        payload = self.last.get(discovery.config_topic("homeassistant", device))
        if not payload:
            return None
        places = [one["topic"] for one in json.loads(payload)["availability"]]
        return all(self.last.get(place, "offline") != "offline" for place in places)


def message(device, seq, at, value=None):
    head = {"bn": f"{device}/", "bt": at, "sid": "0badcafe", "seq": seq, "boot": 1,
            "held": 0, "ver": 1}  # fmt: skip
    first = {**head, "n": "temperature", "u": "Cel", "v": seq if value is None else value}
    return json.dumps([first, {"n": "aside", "v": 0}]).encode()


class World:
    """until(): the republisher and Home Assistant take turns."""

    def __init__(self, made, watcher, republisher):
        self.made, self.watcher, self.republisher = made, watcher, republisher
        self.until(lambda: watcher.last.get(TOPICS.ours) == "online" and republisher.is_ready)

    def until(self, is_done):
        def turn():
            if self.republisher is not None:
                self.republisher.step(0.01)
            self.watcher.peer.client.loop(0.01)
            return is_done()

        wait_until(turn)


def board(made, name):
    return made.peer(name, will=(TOPICS.state(name), b"offline"))


def deliver_an_hour(world, name, start):
    """Oldest first, a message a minute; the last is of now."""
    watcher = world.watcher
    with board(world.made, name) as one:
        one.publish(TOPICS.state(name), b"online", retain=True)
        for seq in range(1, 61):
            one.publish(f"outpost/{name}/data", message(name, seq, start + 60 * seq))
        world.until(lambda: watcher.is_available(name) and 60 in watcher.values(name))
        assert min(watcher.values(name)) >= 60 - FRESH_S / 60


def test_an_hour_of_outage_shows_no_old_value_as_new_and_the_collector_has_all(tmp_path, made):
    clock = SimpleNamespace(now=float(int(time.time())) - 2 * HOUR)
    start = clock.now
    mine = made.folder / "collectors/collector-1.json"
    collector = Process(tmp_path, made.port, credentials=mine, name="collector-1")
    with collector, made.peer("home-assistant", "reader") as peer:
        wait_until(lambda: "subscribed" in collector.text())
        world = World(made, Watcher(peer), opened(made, clock))
        watcher, republisher = world.watcher, world.republisher
        boards = {name: board(made, name) for name in NAMES}
        for name, one in boards.items():
            one.publish(TOPICS.state(name), b"online", retain=True)
            one.publish(f"outpost/{name}/data", message(name, 0, clock.now))
        world.until(lambda: all(watcher.is_available(name) for name in NAMES))
        for name in NAMES:
            topic = discovery.config_topic("homeassistant", name)
            found = ha_rules.check(topic, watcher.last[topic].encode())
            assert set(found["components"]) == {"temperature", "aside"}
            assert watcher.values(name) == [0.0]

        # an hour without a network: the will, first
        for one in boards.values():
            one.vanish()
        world.until(lambda: not any(watcher.is_available(name) for name in NAMES))
        clock.now += HOUR
        world.until(lambda: all(watcher.last[TOPICS.available(n)] == "offline" for n in NAMES))

        # then all that was stored
        watcher.live.clear()
        for name in NAMES:
            deliver_an_hour(world, name, start)
        wait_until(lambda: len(collector.frames()) == 2 * 61)
        assert collector.terminate() == 0
        assert {json.loads(data)[0]["seq"] for data in collector.payloads()} == set(range(61))
        republisher.ending.set()
        assert republisher.run() == 0
        world.republisher = None
        world.until(lambda: watcher.last[TOPICS.ours] == "offline")
        assert not watcher.is_available("kitchen")


def test_a_board_with_series_is_shown_as_one_with_messages(made):
    """The newest sample of each record is the value, each value after the one before; a record of
    an hour ago is not current."""
    clock = SimpleNamespace(now=float(int(time.time())))
    columns = (("temperature", "Cel", -2), ("humidity", "%RH", 0))
    with made.peer("home-assistant", "reader") as peer, board(made, "garden") as garden:
        world = World(made, Watcher(peer), opened(made, clock))
        watcher, topic = world.watcher, "outpost/garden/data"

        def record(seq, ends_at, *values, **more):
            count = len(values)
            rows = [(10_000 * at, one) for at, one in enumerate(values)]
            start_ms = round(ends_at * 1000) - 10_000 * (count - 1)
            more = {"device": "garden", "seq": seq, "held": 1, "start_ms": start_ms, **more}
            garden.publish(topic, series_writer.payload(rows, columns, **more))

        record(1, clock.now - HOUR, (100, 1), (200, 2))
        record(2, clock.now, (2150, 40), (2160, None), (2170, None))
        world.until(lambda: watcher.is_available("garden"))
        assert watcher.values("garden") == [21.7] and watcher.values("garden", "humidity") == [40.0]
        pack = json.loads(watcher.last[TOPICS.latest("garden")])
        times = {one["n"]: one["t"] for one in pack}
        assert times == {
            "garden/temperature": clock.now, "garden/humidity": clock.now - 20
        }  # fmt: skip
        clock.now += 60
        garden.publish(topic, message("garden", 3, clock.now, 30))  # an alarm
        world.until(lambda: 30.0 in watcher.values("garden"))
        record(4, clock.now + 30, (2180, 41), (2190, 42))
        world.until(lambda: 21.9 in watcher.values("garden"))
        assert watcher.values("garden") == [21.7, 30.0, 21.9]
        config = discovery.config_topic("homeassistant", "garden")
        found = ha_rules.check(config, watcher.last[config].encode())
        assert {"temperature", "humidity"} <= set(found["components"])


def test_it_is_killed_and_knows_what_the_broker_remembers(made):
    clock = SimpleNamespace(now=1_800_000_000.0)
    with made.peer("home-assistant", "reader") as peer, board(made, "garden") as garden:
        world = World(made, Watcher(peer), opened(made, clock))
        watcher = world.watcher
        garden.publish("outpost/garden/data", message("garden", 1, clock.now))
        topic = discovery.config_topic("homeassistant", "garden")
        world.until(lambda: "aside" in watcher.last.get(topic, "")
                    and watcher.is_available("garden"))  # fmt: skip
        world.republisher._link._client.socket().close()  # as SIGKILL does: no DISCONNECT
        world.republisher = None
        world.until(lambda: watcher.last[TOPICS.ours] == "offline")

        # the next one has seen neither the counter, nor that the board went silent
        world.republisher = opened(made, clock)
        world.until(lambda: watcher.last[TOPICS.ours] == "online")
        world.until(lambda: "garden" in world.republisher.newest.boards)
        clock.now += HOUR + 1
        world.until(lambda: watcher.last[TOPICS.available("garden")] == "offline")
        one = json.loads(message("garden", 2, clock.now))[:1]
        watcher.last.pop(topic)
        one[0]["n"] = "humidity"
        garden.publish("outpost/garden/data", json.dumps(one).encode())
        world.until(lambda: topic in watcher.last and watcher.is_available("garden"))
        components = json.loads(watcher.last[topic])["components"]
        assert set(components) == {"temperature", "aside", "humidity"}


def test_a_broker_that_is_killed_and_comes_back_is_told_everything_again(tmp_path):
    """And its retained messages may be gone."""
    clock = SimpleNamespace(now=1_800_000_000.0)
    with MadeBroker(tmp_path, "kitchen") as made:
        made.outpost("add", "--republisher", "republisher")
        made.outpost("add", "--reader", "home-assistant")
        with made.peer("home-assistant", "reader") as peer, board(made, "kitchen") as kitchen:
            world = World(made, Watcher(peer), opened(made, clock))
            kitchen.publish("outpost/kitchen/data", message("kitchen", 1, clock.now, 21.5))
            world.until(lambda: world.watcher.is_available("kitchen"))
        children.kill(made._process)
        for path in (made.folder / "server" / "state").glob("*.db"):
            path.unlink()
        made.start()
        with made.peer("home-assistant", "reader") as peer:
            again = World(made, Watcher(peer), world.republisher)
            again.until(lambda: again.watcher.is_available("kitchen"))
            assert again.watcher.last[TOPICS.value("kitchen", "temperature")] == "21.5"
            with board(made, "kitchen") as kitchen:
                kitchen.publish("outpost/kitchen/data", message("kitchen", 2, clock.now + 1, 22.5))
                again.until(lambda: again.watcher.values("kitchen")[-1:] == [22.5])


def test_what_nobody_has_the_name_of_is_left_alone(made):
    clock = SimpleNamespace(now=1_800_000_000.0)
    republisher = opened(made, clock)
    for topic in ("outpost/a b/available", "outpost//state", "outpost/x/y/state", "other/b/state"):
        republisher._hear((topic, b"online", True), clock.now)
    for payload in (b"", b"{", b"[]", b"\xff" * 100, message("garden", 1, 5.0)):
        republisher._hear(("outpost/kitchen/data", payload, False), clock.now)
    assert republisher.newest.boards == {}


def test_a_broker_that_does_not_read_makes_nothing_pile_up(made, monkeypatch):
    clock = SimpleNamespace(now=1_800_000_000.0)
    republisher, sent = opened(made, clock), []
    monkeypatch.setattr(type(republisher._link), "can_write", False)
    monkeypatch.setattr(republisher._link, "take", lambda wait_s: [])
    monkeypatch.setattr(republisher._link, "publish", sent.append)
    for seq in range(1000):
        data = message("kitchen", seq, clock.now + seq / 100)
        republisher._hear(("outpost/kitchen/data", data, False), clock.now + 10)
        republisher.step(0)
    monkeypatch.setattr(type(republisher._link), "can_write", True)
    republisher.step(0)
    (out,) = sent
    assert (TOPICS.value("kitchen", "temperature"), b"999") in out, "the newest, once"


def test_a_board_that_is_retired_is_forgotten(made, capsys):
    clock = SimpleNamespace(now=1_800_000_000.0)
    with made.peer("home-assistant", "reader") as peer, board(made, "kitchen") as kitchen:
        world = World(made, Watcher(peer), opened(made, clock))
        watcher = world.watcher
        kitchen.publish("outpost/kitchen/data", message("kitchen", 100, clock.now))
        world.until(lambda: watcher.is_available("kitchen") and watcher.values("kitchen"))
        words = ["--credentials", str(made.folder), "--home-assistant", "--retire", "kitchen"]
        assert cli.main(["republish", *words]) == 0
        assert "kitchen: removed, with 2 sensors" in capsys.readouterr().out
        world.until(lambda: not watcher.last[TOPICS.available("kitchen")])
        world.until(lambda: "kitchen" not in world.republisher.newest.boards)
        mine = [t for t in watcher.last if "kitchen" in t]
        assert len(mine) >= 5 and not any(watcher.last[t] for t in mine)
        # a new connection does not bring it back
        world.republisher._link.is_fresh = True
        world.until(lambda: not world.republisher._link.is_fresh)
        with made.peer("late", "reader") as late:
            again = Watcher(late)
            late.until(lambda: again.last, "what is retained")
            assert not [topic for topic in again.last if "kitchen" in topic]


@pytest.mark.parametrize(
    "topic", ["outpost/rogue/latest/x", "outpost/rogue/available", "homeassistant/device/x/config"]
)
def test_a_board_may_not_write_what_the_republisher_says(made, topic):
    marker = TOPICS.state("garden"), b"online"
    with made.peer("home-assistant", "reader") as peer:
        watcher = Watcher(peer)
        with board(made, "rogue") as rogue, board(made, "garden") as garden:
            rogue.publish(topic, b"evil", retain=True)
            garden.publish(*marker)
            peer.until(lambda: (marker[0], "online") in watcher.live, "the marker")
        assert topic not in watcher.last


@pytest.mark.parametrize("name", ["outpost/kitchen/data", "outpost/+/durable", "#", "$SYS/#"])
def test_a_reader_reads_nothing_else(made, name):
    with made.peer("home-assistant", "reader") as peer:
        assert peer.subscribe(name) == REFUSED
        assert peer.subscribe("outpost/kitchen/latest/temperature") in (0, 1)

# cpython-only: runs Home Assistant's own code at mosquitto
"""Home Assistant itself, at the broker that `outpost broker` makes: two boards, an outage of an
hour by a scripted clock, a board that is taken away. `make home-assistant` runs it.
"""

import json
import time
from types import SimpleNamespace

import pytest

from collector_process import wait_until
from home_assistant_rig import HomeAssistant, install
from made_broker import MadeBroker
from outpost_tools import cli
from outpost_tools.servers.republish import discovery, link, run
from outpost_tools.servers.republish.newest import FRESH_S, Board
from outpost_tools.servers.republish.topics import Topics

TOPICS = Topics("outpost")
HOUR = 3600
NAMES = ("kitchen", "cellar")

pytestmark = [
    pytest.mark.skipif(not install.is_there(), reason="optional: run `make home-assistant`"),
    pytest.mark.timeout(900),
]


def message(device, seq, at, **more):
    head = {"bn": f"{device}/", "bt": at, "sid": "0badcafe", "seq": seq, "boot": 1,
            "held": 0, "ver": 1}  # fmt: skip
    first = {**head, "n": "temperature", "u": "Cel", "v": seq}
    rest = [{"n": "humidity", "u": "%RH", "v": 40}, {"n": "battery", "u": "%EL", "v": 99}]
    air = [{"n": "air_co2", "u": "ppm", "v": 500}, {"n": "air_pm25", "u": "ug/m3", "v": 12}]
    door = {"n": "door", "u": "/", "v": seq % 2}
    return json.dumps([first, *rest, *air, door, {"n": "aside", "v": 0}]).encode()


class World:
    def __init__(self, made, home, clock):
        found = made.credentials("republisher", "republisher")
        connection = link.Link(
            found.address, found.client_id, TOPICS, "homeassistant", login=found.login,
            tls=found.tls(),
        )  # fmt: skip
        clocks = [lambda: clock.now] * 2
        self.republisher = run.Republisher(connection, TOPICS, "homeassistant", *clocks)
        self.home = home
        self.until(lambda: self.republisher.is_ready)

    def until(self, is_done):
        def turn():
            self.republisher.step(0.01)
            self.home.take()
            return is_done()

        try:
            wait_until(turn)
        except AssertionError as error:
            raise AssertionError(self.home.described()) from error

    def state(self, device, name="temperature"):
        return self.home.states.get(f"sensor.{device}_{name}")


@pytest.fixture
def made(tmp_path):
    with MadeBroker(tmp_path, *NAMES) as broker:
        broker.outpost("add", "--republisher", "republisher")
        broker.outpost("add", "--reader", "home-assistant")
        yield broker


def appear(world, boards, clock):
    """Each board with its sensors, units and classes."""
    for name, one in boards.items():
        one.publish(TOPICS.state(name), b"online", retain=True)
        one.publish(f"outpost/{name}/data", message(name, 0, clock.now))
    world.until(lambda: all(world.state(name) == "0" for name in NAMES))
    world.until(lambda: all(world.state(name, "battery") == "99" for name in NAMES))
    world.until(lambda: world.home.states.get("binary_sensor.kitchen_door") == "off")
    assert "sensor.kitchen_door" not in world.home.states
    shown = world.home.attributes["sensor.kitchen_temperature"]
    assert shown["unit_of_measurement"] == "°C" and shown["device_class"] == "temperature"
    assert shown["state_class"] == "measurement"
    assert world.home.attributes["sensor.cellar_humidity"]["device_class"] == "humidity"
    for name, kind, unit in (("co2", "carbon_dioxide", "ppm"), ("pm25", "pm25", "µg/m³")):
        shown = world.home.attributes[f"sensor.cellar_air_{name}"]
        assert (shown["device_class"], shown["unit_of_measurement"]) == (kind, unit)


def test_two_boards_an_outage_of_an_hour_and_a_board_that_goes(tmp_path, made, capsys):
    clock = SimpleNamespace(now=float(int(time.time())) - 2 * HOUR)
    start = clock.now
    reader = made.credentials("home-assistant", "reader")
    with HomeAssistant(tmp_path / "home", reader) as home:
        world = World(made, home, clock)
        boards = {name: made.peer(name, will=(TOPICS.state(name), b"offline")) for name in NAMES}
        appear(world, boards, clock)

        for one in boards.values():
            one.vanish()
        world.until(lambda: all(world.state(name) == "unavailable" for name in NAMES))
        clock.now += HOUR
        home.seen.clear()

        for name in NAMES:
            with made.peer(name, will=(TOPICS.state(name), b"offline")) as one:
                one.publish(TOPICS.state(name), b"online", retain=True)
                for seq in range(1, 61):
                    data = message(name, seq, start + 60 * seq)
                    one.publish(f"outpost/{name}/data", data)
                world.until(lambda name=name: world.state(name) == "60")
        shown = [state for entity, state in home.seen if entity.endswith("_temperature")]
        values = [float(state) for state in shown if state not in ("unavailable", "unknown")]
        assert values and min(values) >= 60 - FRESH_S / 60, "no old value was shown as new"

        words = ["--credentials", str(made.folder), "--home-assistant", "--retire", "cellar"]
        assert cli.main(["republish", *words]) == 0
        capsys.readouterr()
        for entity in ("temperature", "battery"):  # one after the other
            world.until(lambda entity=entity: world.state("cellar", entity) is None)
        assert world.state("kitchen") is not None
        world.republisher.ending.set()
        assert world.republisher.run() == 0
        assert home.complaints() == []


def test_a_contact_that_was_a_number_becomes_on_or_off(tmp_path, made):
    """As an earlier version described it: a sensor with the unit "/"."""
    clock = SimpleNamespace(now=float(int(time.time())))
    board = Board("kitchen", sensors={"door": "W"})
    old = discovery.payload(board, TOPICS, {}).replace(b'": "W"', b'": "/"')
    assert b'"unit_of_measurement": "/"' in old
    with HomeAssistant(tmp_path / "home", made.credentials("home-assistant", "reader")) as home:
        with made.peer("republisher", role="republisher") as one:
            one.publish(discovery.config_topic("homeassistant", "kitchen"), old, retain=True)
        world = World(made, home, clock)
        world.until(lambda: "sensor.kitchen_door" in home.states)
        with made.peer("kitchen") as one:
            for seq, state in ((0, "off"), (1, "on"), (2, "off")):
                clock.now += 1
                one.publish("outpost/kitchen/data", message("kitchen", seq, clock.now))
                world.until(
                    lambda state=state: home.states.get("binary_sensor.kitchen_door") == state
                )
        world.until(lambda: home.states.get("sensor.kitchen_door") is None)

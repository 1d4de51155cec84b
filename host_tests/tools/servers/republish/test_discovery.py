# cpython-only: the desktop's tools
"""What Home Assistant is told: by its own rules, for every unit, and over a restart."""

import json

import pytest

import ha_rules
from outpost_tools.servers.republish import discovery, identity, units
from outpost_tools.servers.republish.newest import Board, Value
from outpost_tools.servers.republish.topics import Topics

TOPICS = Topics("outpost")


def described(name="kitchen", state="", **sensors):
    board = Board(name, sensors=sensors, state=state)
    topic = discovery.config_topic(discovery.PREFIX, name)
    return topic, discovery.payload(board, TOPICS, {board.name: board})


@pytest.mark.parametrize("unit", [*units.KINDS, None, "", "/", "1/min", "S/m"])
def test_every_unit_is_one_that_its_class_has(unit):
    ha_rules.check(*described(x=unit))


@pytest.mark.parametrize(
    ("name", "unit", "kind", "shown"),
    [
        ("scd4x_co2", "ppm", "carbon_dioxide", "ppm"),
        ("co2", "ppm", "carbon_dioxide", "ppm"),
        ("voc", "ppm", None, "ppm"),
        ("pms5003_pm1", "ug/m3", "pm1", "µg/m³"),
        ("air_pm25", "ug/m3", "pm25", "µg/m³"),
        ("air_pm10", "ug/m3", "pm10", "µg/m³"),
        ("dust", "ug/m3", None, "µg/m³"),
        ("co2", "Cel", "temperature", "°C"),
        ("bh1750", "lx", "illuminance", "lx"),
        ("ina219_current", "A", "current", "A"),
        ("ina219_power", "W", "power", "W"),
    ],
)
def test_the_class_of_a_unit_that_several_things_have_follows_from_the_name(
    name, unit, kind, shown
):
    (found,) = ha_rules.check(*described(**{name: unit}))["components"].values()
    assert (found.get("device_class"), found["unit_of_measurement"]) == (kind, shown)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("device",), {}),
        (("origin",), {}),
        (("state",), "x"),
        (("availability_mode",), "every"),
        (("components", "x", "unit_of_measurement"), "°F/h"),
        (("components", "x", "expire_after"), 0),
        (("components", "x", "platform"), "number"),
        (("components", "x", "state_topic"), "outpost/+/x"),
        (("components", "x", "colour"), "red"),
    ],
)
def test_the_rules_can_refuse(path, value):
    topic, payload = described(x="Cel")
    given = json.loads(payload)
    place = given
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises((AssertionError, KeyError)):
        ha_rules.check(topic, json.dumps(given).encode())


def test_a_board_with_its_sensors():
    found = ha_rules.check(*described(state="online", temperature="Cel", aside=None))
    temperature = found["components"]["temperature"]
    assert temperature["device_class"] == "temperature"
    assert temperature["unit_of_measurement"] == "°C"
    assert temperature["state_class"] == "measurement"
    assert temperature["state_topic"] == "outpost/kitchen/latest/temperature"
    assert temperature["expire_after"] == 3600
    assert found["components"]["aside"]["entity_category"] == "diagnostic"
    assert [one["topic"] for one in found["availability"]] == [
        "outpost/collectors/.latest", "outpost/kitchen/available", "outpost/kitchen/state",
    ]  # fmt: skip


def test_a_contact_is_on_or_off_and_no_number():
    found = ha_rules.check(*described(door="/"))["components"]
    assert found.pop("door") == {"platform": "sensor"}, "removes what an earlier version described"
    (door,) = found.values()
    assert door["platform"] == "binary_sensor" and door["name"] == "door"
    assert (door["payload_on"], door["payload_off"]) == ("1", "0")
    assert not {"unit_of_measurement", "state_class", "device_class"} & set(door)
    assert door["expire_after"] == 3600


def platforms(board):
    """{name: platform} of what is not removed."""
    found = json.loads(discovery.payload(board, TOPICS, {board.name: board}))["components"].values()
    return {one["name"]: one["platform"] for one in found if "name" in one}


def test_a_contact_that_was_remembered_stays_one():
    _, components, _ = discovery.remembered(described(door="/", x="V")[1], TOPICS)
    assert set(components) == {"door", "x"}
    board = Board("kitchen", components=components)
    assert platforms(board) == {"door": "binary_sensor", "x": "sensor"}


def test_a_ratio_is_a_number_and_stays_one_over_a_restart():
    """A driver of the user's may have the unit "/" for 0.37 of something."""
    board = Board("kitchen", sensors={"valve": "/"})
    discovery.payload(board, TOPICS, {board.name: board})
    board.sensors["valve"] = units.RATIO
    data = discovery.payload(board, TOPICS, {board.name: board})
    assert {"platform": "binary_sensor"} in json.loads(data)["components"].values()
    ha_rules.check(discovery.config_topic(discovery.PREFIX, "kitchen"), data)
    _, components, _ = discovery.remembered(data, TOPICS)
    again = Board("kitchen", sensors={"valve": "/"}, components=components)
    assert platforms(again) == {"valve": "sensor"}
    assert "unit_of_measurement" not in again.components["valve"]


def test_a_contact_that_an_earlier_version_described_as_a_number_becomes_one():
    old = described(door="W")[1].replace(b'": "W"', b'": "/"')
    _, components, _ = discovery.remembered(old, TOPICS)
    assert platforms(Board("kitchen", sensors={"door": "/"}, components=components)) == {
        "door": "binary_sensor"
    }


def test_a_board_without_a_state_does_not_wait_for_one():
    found = ha_rules.check(*described(temperature="Cel"))
    assert "outpost/kitchen/state" not in json.dumps(found)


@pytest.mark.parametrize("name", ["a.b", "a-b", "a_b", ".", "-", "x" * 32, "." * 32])
def test_every_name_of_a_board_is_a_topic_of_home_assistants(name):
    ha_rules.check(*described(name, x=None))


def test_no_two_names_have_one_topic():
    names = ["a.b", "a-b", "a_b", "a..b", "a.-b", "a-.b", "a--b"]
    names += [identity.object_id(name) for name in names]  # a board may be called so, too
    assert len({identity.object_id(name) for name in set(names)}) == len(set(names))


def test_the_topic_of_a_board_is_the_one_that_it_always_had():
    kept = {one: one for one in ("kitchen", "garden_2", "pico-e6614103")}
    kept["a.b"] = "a-b-1eef715d"
    assert {name: identity.object_id(name) for name in kept} == kept


def ids(*boards):
    """unique_id by (board, reading), as described in this order."""
    known = {one.name: one for one in boards}
    for one in boards:
        discovery.payload(one, TOPICS, known)
    return {(one.name, name): found["unique_id"]
            for one in boards for name, found in one.components.items()}  # fmt: skip


def test_two_readings_never_have_one_unique_id():
    """A board `garden` with `2_temperature` took the entity of `garden_2`."""
    found = ids(
        Board("garden_2", sensors={"temperature": "Cel", "soil_moisture": None}),
        Board("garden", sensors={"2_temperature": "Cel", "2_soil_moisture": None}),
    )
    assert len(set(found.values())) == 4
    assert found["garden_2", "temperature"] == "outpost_garden_2_temperature", "as before"
    assert found["garden", "2_temperature"] == "outpost/garden/2_temperature"


def test_what_a_board_has_it_keeps_over_a_restart_in_any_order():
    first, second = Board("garden", sensors={"2_t": None}), Board("garden_2", sensors={"t": None})
    found = ids(first, second)
    assert found["garden", "2_t"] == "outpost_garden_2_t"
    again = [Board(one.name, sensors=one.sensors, components=one.components)
             for one in (second, first)]  # fmt: skip
    assert ids(*again) == found


def test_two_boards_that_an_earlier_version_gave_one_id_get_two():
    same = {"unique_id": "outpost_garden_2_t", "platform": "sensor"}
    first = Board("garden", sensors={"2_t": None}, components={"2_t": same})
    second = Board("garden_2", sensors={"t": None}, components={"t": dict(same)})
    assert ids(first, second) == {("garden", "2_t"): "outpost/garden/2_t",
                                  ("garden_2", "t"): "outpost_garden_2_t"}  # fmt: skip


@pytest.mark.parametrize("name", ["a/b", "a+b", "#", "ä", "%2F", "a:b", "\u2028"])
def test_every_name_of_a_sensor_is_a_topic(name):
    found = ha_rules.check(*described(**{name: None}))
    (one,) = found["components"].values()
    assert one["state_topic"].startswith("outpost/kitchen/latest/")
    assert one["state_topic"].count("/") == 3
    assert TOPICS.sensor(one["state_topic"]) == name


def test_the_version_of_the_firmware_is_the_devices():
    board = Board("b", sensors={"x": None}, values={"firmware": Value(10203.0, None, 0.0)})
    assert (
        json.loads(discovery.payload(board, TOPICS, {board.name: board}))["device"]["sw_version"]
        == "1.2.3"
    )


def test_what_the_broker_remembers_is_read_back():
    _, payload = described(temperature="Cel", **{"a/b": None})
    device, components, expire_s = discovery.remembered(payload, TOPICS)
    assert (device, expire_s) == ("kitchen", 3600)
    assert components == json.loads(payload)["components"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"device":{"identifiers":[1]}}'])
def test_what_is_not_ours_is_left_alone(data):
    assert discovery.remembered(data, TOPICS) is None


@pytest.mark.parametrize("time", ["1e999", "-1e999", "NaN", "0", "-5", "9" * 400, "[]"])
def test_a_time_that_none_of_ours_has_ends_nothing(time):
    """The broker keeps such a message: it ended the republisher at each start."""
    data = described(temperature="Cel")[1].replace(b'"expire_after": 3600', b'"expire_after": %s')
    assert discovery.remembered(data % time.encode(), TOPICS) is None


def test_nesting_without_end_and_a_name_of_no_board_end_nothing():
    assert discovery.remembered(b"[" * 100_000, TOPICS) is None
    data = described(temperature="Cel")[1].replace(b"kitchen", b"a/#")
    assert discovery.remembered(data, TOPICS) is None


def test_another_prefix_is_not_ours():
    assert discovery.remembered(described(x=None)[1], Topics("other")) is None

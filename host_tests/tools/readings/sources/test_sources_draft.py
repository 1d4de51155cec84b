# cpython-only: it tests the desktop tools
"""A first file from what was heard: what is taken, what is guessed, what is said."""

import tomllib
from datetime import datetime, timedelta

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from outpost_tools.readings.sources import draft, examples, file, guess, ready_files, toml_text
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.heard import Heard, Sample
from outpost_tools.readings.sources.result import Message

NOW_MS = 1_768_478_400_000


def heard(*messages, retained=False):
    found = Heard(seconds=60)
    for topic, payload in messages:
        data = payload if isinstance(payload, bytes) else payload.encode()
        found.add(Sample(topic.encode(), data, NOW_MS, retained))
    return found


def drafted(*messages, zone="UTC"):
    """(draft, mapping of it); every example in it is as it must be."""
    made = draft.of(heard(*messages), zone)
    mapping = file.parse(made.text, "draft.toml")
    assert list(examples.faults(mapping)) == []
    return made, mapping


def readings(mapping, topic, payload):
    found = decode(mapping, topic.encode(), payload.encode(), NOW_MS)
    assert isinstance(found, Message), found
    return found.device, {one.name: (one.value, one.unit) for one in found.readings}


# --- Guesses ---


@pytest.mark.parametrize(
    ("payload", "shape"),
    [
        (b"21.5", "number"),
        (b'"7"', "number"),
        (b"", "other"),
        (b"warm", "other"),
        (b'{"a":1}', "object"),
        (b'{"a":{"b":[1]}}', "other"),
        (b'{"a":{"b":[{"c":1}]}}', "object"),
        (b'{"a":"x","b":true}', "other"),
        (b'[{"n":"a","v":1}]', "senml"),
        (b'[{"n":"a"}]', "other"),
        (b"[1,2]", "other"),
        (b"\x00\xff", "other"),
    ],
)
def test_the_shape_of_a_payload(payload, shape):
    assert guess.shape(payload) == shape


def test_units_are_guessed_by_the_end_of_names():
    found = guess.units(["temperature", "room_humidity", "rpm", "Battery"])
    assert found == {"temperature": "Cel", "*humidity": "%RH", "battery": "%EL"}


@pytest.mark.parametrize(
    ("local", "machine", "zone"),
    [
        ("2026-01-15T12:00:00", "UTC", "UTC"),
        ("2026-01-15T12:59:40", "Europe/Berlin", "Europe/Berlin"),
        ("2026-01-15T13:00:00", "UTC", "Etc/GMT-1"),
        ("2026-01-15T07:00:00", None, "Etc/GMT+5"),
        ("2026-01-15T17:45:00", "Asia/Kathmandu", "Asia/Kathmandu"),
        ("2026-01-15T17:45:00", "UTC", None),
    ],
)
def test_the_zone_of_local_times_follows_from_their_arrival(local, machine, zone):
    ahead = guess.offset([(datetime.fromisoformat(local), NOW_MS)])
    assert guess.zone(ahead, machine, NOW_MS) == zone


def test_a_time_that_came_late_is_no_evidence():
    late = datetime.fromisoformat("2026-01-15T11:52:00")
    assert guess.offset([(late, NOW_MS)]) is None
    good = datetime.fromisoformat("2026-01-15T14:00:00")
    assert guess.offset([(late, NOW_MS), (good, NOW_MS)]) == timedelta(hours=2)


# --- Drafts of unknown payloads ---


def test_an_object_of_numbers_on_one_topic():
    payload = '{"ts":1768478399,"temperature":61.5,"fan":{"rpm":900}}'
    _, mapping = drafted(("plant/boiler", payload))
    assert mapping.sources[0].given.topic == "plant/{device}"
    assert readings(mapping, "plant/boiler", payload) == (
        "boiler", {"temperature": (61.5, "Cel"), "fan.rpm": (900, None)},
    )  # fmt: skip
    assert decode(mapping, b"plant/tank", payload.encode(), NOW_MS).time_from == "device"


def test_levels_that_differ_are_the_device():
    made, mapping = drafted(("home/attic/env", '{"a":1}'), ("home/cellar/env", '{"a":2}'))
    assert [one.topic for one in made.readers] == ["home/{device}/env"]
    assert readings(mapping, "home/shed/env", '{"a":3}') == ("shed", {"a": (3, None)})


@pytest.mark.parametrize(
    ("heard_on", "topic", "device", "metric"),
    [
        (["home/attic/t", "home/attic/h", "home/cellar/t"], "home/{device}/{metric}", None, None),
        (["home/attic/t", "home/attic/h"], "home/{device}/{metric}", None, None),
        (["home/attic/t"], "home/{device}/{metric}", None, None),
        (["home/attic/t", "home/cellar/t"], "home/{device}/t", None, "t"),
        (["attic/t"], "attic/{metric}", "attic", None),
        (["t"], "t", "t", "t"),
        (["a/x/1/p/t", "a/y/2/p/h"], "a/{device#}/p/{metric}", None, None),
    ],
)
def test_numbers_have_a_device_and_a_metric(heard_on, topic, device, metric):
    made, mapping = drafted(*((one, "4.5") for one in heard_on))
    (one,) = made.readers
    assert (one.topic, one.device, one.metric) == (topic, device, metric)
    for each in heard_on:
        assert isinstance(decode(mapping, each.encode(), b"5", NOW_MS), Message)


def test_a_payload_may_name_its_device():
    payload = '{"node":"press-4","timestamp":1768478400000,"values":{"rpm":900}}'
    _, mapping = drafted(("neuron", payload))
    assert readings(mapping, "neuron", payload) == ("press-4", {"values.rpm": (900, None)})


def test_local_times_get_the_zone_that_fits():
    payload = '{"time":"2026-01-15T13:00:00","level":3}'
    made, mapping = drafted(("tank/a", payload), zone="Europe/Berlin")
    assert made.readers[0].time.zone == "Europe/Berlin"
    found = decode(mapping, b"tank/a", payload.encode(), NOW_MS)
    assert (found.time_from, found.readings[0].time_us) == ("device", NOW_MS * 1000)


def test_a_zone_that_is_not_known_is_said():
    retained = heard(("tele/x/SENSOR", '{"Time":"2026-01-15T13:00:00","A":{"B":1}}'), retained=True)
    made = draft.of(retained, "UTC")
    assert "tasmota-sensor: set the zone of its times; UTC is no evidence" in made.notes


# --- Ready sources ---


def test_a_ready_source_is_taken_where_it_reads_something():
    payload = '{"temperature":21.5,"battery":90}'
    made, mapping = drafted(("zigbee2mqtt/hall", payload), ("zigbee2mqtt/bridge/info", "{}"))
    assert [one.name for one in made.readers] == ["zigbee2mqtt"]
    assert made.notes == []
    assert readings(mapping, "zigbee2mqtt/hall", payload)[1]["battery"] == (90, "%EL")


def test_a_state_alone_is_no_evidence_if_its_topic_fits_much():
    made = draft.of(heard(("attic/status", "online")), None)
    assert made.readers == []
    assert made.notes[0].startswith("esphome-status: heard on attic/status, and no readings")


def test_patterns_that_overlap_are_kept_apart():
    made, mapping = drafted(
        ("attic/sensor/t/state", "3"),
        ("attic/status", "online"),
        ("homeassistant/sensor/kitchen/state", "21"),
        ("zigbee2mqtt/hall", '{"temperature":1}'),
        ("things/status", '{"a":1}'),
    )
    without = {one.name: one.without for one in made.readers}
    assert without["esphome-sensor"] == ["homeassistant/sensor/+/state"]
    assert set(without["esphome-status"]) == {"zigbee2mqtt/+", "things/+"}
    assert readings(mapping, "homeassistant/sensor/kitchen/state", "22")[0] == "homeassistant"


def test_our_own_boards_and_texts_are_left_out():
    made = draft.of(heard(("outpost/b/data", '[{"n":"a","v":1}]'), ("x/y", "hello")), None)
    assert (made.readers, made.notes) == ([], [])


def test_what_the_draft_does_not_read_is_said():
    made, _ = drafted(("plant/a", '{"v":1}'), ("camera/1", b"\xff\xd8"), ("x/y", "hello"))
    assert made.notes == ["2 topics have no source, such as camera/1, x/y"]


def test_odd_topics_and_payloads_stop_no_draft():
    odd = [("a/\x1b", '{"v":1}'), ("a//b", "1"), ("/", "2"), ("b/'\"\\", '{"\'":1,"\\"":2}')]
    made = draft.of(heard(*odd, ("c/d", '{"v":1}')), None)
    found = Heard()
    found.add(Sample(b"\xff/x", b'{"v":1}', NOW_MS, False))
    assert made.readers and draft.of(found, None).readers == []


LEVELS = st.sampled_from(
    ["a", "b", "tele", "SENSOR", "LWT", "zigbee2mqtt", "status", "sensor", "state", "events", "rpc",
     "homeassistant", "", "+", "x y", "{device}", "\x1b", "'", '"', "\\", "a.b", "\u00e4"]
)  # fmt: skip
PAYLOADS = st.sampled_from(
    [b"1", b"on", b"online", b"Online", b'{"a":1}', b'{"time":"2026-01-15T13:00:00","a":{"b":2}}',
     b'{"Time":"x","ENERGY":{"Power":3}}', b'[{"n":"a","v":1}]', b'[{"bn":"x","n":"a","v":1}]',
     b'{"node":"x","v":1,"ts":1768478400}', b'{"method":"NotifyStatus","params":{"s":{"tC":1}}}',
     b"\xff", b"", b'{"temperature":1,"last_seen":5}', b'{"\'":{"\\"":1}}', b'{"state":"online"}']
)  # fmt: skip
MESSAGES = st.lists(
    st.tuples(st.lists(LEVELS, min_size=1, max_size=4), PAYLOADS, st.booleans()), max_size=12
)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(MESSAGES)
def test_whatever_is_heard_the_draft_is_a_valid_file_with_right_examples(messages):
    """Unless its notes say that it needs an edit."""
    found = Heard(seconds=1)
    for levels, payload, retained in messages:
        found.add(Sample("/".join(levels).encode(), payload, NOW_MS, retained))
    made = draft.of(found, "Europe/Berlin")
    needs_edit = any("edit" in note or "overlap" in note for note in made.notes)
    if made.readers and not needs_edit:
        mapping = file.parse(made.text, "draft.toml")
        assert list(examples.faults(mapping)) == []


# --- Bounds ---


def test_the_first_messages_of_a_topic_and_the_newest_are_kept():
    found = Heard()
    for number in range(100):
        found.add(Sample(b"a", b"%d" % number, number, False))
    assert [one.payload for one in found.samples[b"a"]] == [b"0", b"1", b"2", b"99"]
    assert found.messages[b"a"] == 100


def test_a_flood_of_topics_is_dropped_and_counted():
    found = Heard()
    for number in range(20_010):
        found.add(Sample(b"%d" % number, b"1", 0, False))
    found.add(Sample(b"0", b"2", 0, False))
    assert (len(found.samples), found.dropped, found.messages[b"0"]) == (20_000, 10, 2)


# --- The text ---


@pytest.mark.parametrize("name", ready_files.names())
def test_a_ready_file_written_again_is_the_same(name):
    made = ready_files.ready(name)
    parts = [f"ignore = {toml_text.text([one.text for one in made.ignored])}\n"]
    for one in made.readers:
        kind = "source" if one in made.sources else "state"
        given = msgspec.structs.replace(one.given, example=one.examples)
        parts.append(toml_text.table(kind, given))
    again = file.parse("\n".join(parts), name)
    assert examples.count(again) == examples.count(made)
    assert list(examples.faults(again)) == []
    assert repr([one.values for one in again.sources]) == repr([one.values for one in made.sources])
    for one, other in zip(again.readers, made.readers, strict=True):
        assert (one.name, one.pattern, one.without) == (other.name, other.pattern, other.without)


@pytest.mark.parametrize(
    "text", ["a", "it's", 'say "x"', "both ' and \"", "\n\t\x00", "ü\u202e", "\\"]
)
def test_any_text_survives(text):

    assert tomllib.loads(f"a = {toml_text.text(text)}") == {"a": text}
    assert tomllib.loads(f"a = {toml_text.text({text: [1.5, 2.0, True, text]})}") == {
        "a": {text: [1.5, 2, True, text]}
    }

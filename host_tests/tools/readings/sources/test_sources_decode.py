# cpython-only: it tests the desktop tools
"""From topic and bytes to a result: what is promised, bounds, and payloads of every kind."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.log.segment_frames import MAX_PAYLOAD_BYTES
from outpost_tools.readings.sources import bounds, file, guarantee
from outpost_tools.readings.sources.bounds import Names
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.result import Ignored, Message, Reading, Refused, State

NOW_MS = 1_768_478_400_000
MAPPING = file.parse(
    """
ignore = ["json/nobody"]

[[source]]
name = "json"
topic = "json/{device}"
values = ["**"]
time = "time"
id = ["src", "n"]
words = { ON = 1 }

[[source]]
name = "number"
topic = "number/{device}/{metric}"
payload = "number"
words = { ON = 1, OFF = 0 }
no_value = ["nan"]
units = { "*power" = "W" }

[[source]]
name = "scaled"
topic = "scaled/{device}"
payload = "number"
metric = "level"
unit = "m"
scale = 0.01

[[source]]
name = "pack"
topic = "pack/{device}"
payload = "senml"

[[source]]
name = "named"
topic = "named"
payload = "senml"

[[source]]
name = "node"
topic = "node"
device = { path = "node" }
values = ["values.*"]
when = { kind = ["data", 3] }

[[state]]
name = "lwt"
topic = "lwt/{device}"
path = "state"
online = "true"
offline = "false"
""",
    "s.toml",
)


def read(topic, payload, received_ms=NOW_MS, retained=False):
    return decode(MAPPING, topic.encode(), payload, received_ms, retained)


# --- Guarantees ---


@pytest.mark.parametrize(
    ("payload", "word", "native_id"),
    [
        (b'{"src":"x","n":7,"v":1}', guarantee.IDENTIFIER, "x/7"),
        (b'{"src":"x","v":1,"time":1768478400}', guarantee.TIME, None),
        (b'{"src":"x","n":{},"v":1}', guarantee.NONE, None),
        (b'{"src":"%s","n":1,"v":1}' % (b"x" * 127), guarantee.NONE, None),
        (b'{"v":1,"time":3}', guarantee.NONE, None),
        (b'{"v":1}', guarantee.NONE, None),
    ],
)
def test_what_is_promised_depends_on_what_the_message_says(payload, word, native_id):
    found = read("json/d", payload)
    assert (found.guarantee, found.native_id) == (word, native_id)


def test_every_guarantee_has_a_meaning():
    words = {guarantee.OUTPOST, guarantee.IDENTIFIER, guarantee.TIME, guarantee.NONE}
    assert guarantee.MEANING.keys() == words


def identity(topic, payload):
    return guarantee.identity(read(topic, payload), topic.encode(), payload)


def test_copies_have_the_same_identity_and_other_messages_another():
    first = identity("json/d", b'{"src":"x","n":7,"v":1}')
    assert first == identity("json/d", b'{"src":"x","n":7,"v":2}')
    assert first != identity("json/d", b'{"src":"x","n":8,"v":1}')
    timed = identity("json/d", b'{"v":1,"time":1768478400}')
    assert timed == identity("json/d", b'{"v":1,"time":1768478400}')
    assert timed != identity("json/d", b'{"v":2,"time":1768478400}')
    assert timed != identity("json/e", b'{"v":1,"time":1768478400}')
    assert identity("json/d", b'{"v":1}') is None


def test_the_identity_does_not_depend_on_what_is_read():
    """So a mended mapping finds the copies that the wrong one has let in."""
    text = '[[source]]\nname = "json"\ntopic = "json/{device}"\nvalues = ["v"]\ntime = "time"\n'
    mended = file.parse(text.replace('"v"', '"w"'), "s.toml")
    payload = b'{"v":1,"w":2,"time":1768478400}'
    other = decode(mended, b"json/d", payload, NOW_MS)
    assert other.readings != read("json/d", payload).readings
    assert guarantee.identity(other, b"json/d", payload) == identity("json/d", payload)


def test_a_retained_message_is_the_last_known_value():
    assert read("json/d", b'{"v":1}', retained=True).is_last_known
    assert read("number/d/m", b"1", retained=True).is_last_known
    assert read("pack/d", b'[{"n":"a","v":1}]', retained=True).is_last_known
    assert read("lwt/d", b"true", retained=True).is_last_known
    assert not read("json/d", b'{"v":1}').is_last_known


# --- Numbers ---


@pytest.mark.parametrize(
    ("payload", "value", "unit"),
    [
        (b"21.5", 21.5, "W"),
        (b" -3e2\n", -300, "W"),
        (b'"7"', 7, "W"),
        (b"ON", 1, "W"),
        (b'"OFF"', 0, "W"),
    ],
)
def test_a_number(payload, value, unit):
    found = read("number/d/fan_power", payload)
    assert found.readings == [Reading("fan_power", unit, value, NOW_MS * 1000)]


def test_a_switch_has_the_unit_of_switches_and_no_scale():
    assert read("number/d/x", b"ON").readings[0].unit == "/"
    assert read("scaled/d", b"150").readings == [Reading("level", "m", 1.5, NOW_MS * 1000)]


@pytest.mark.parametrize(
    "payload", [b"", b"warm", b"1_000", b"inf", b"1e39", "\u0661".encode(), b"\xff", b"0x10"]
)
def test_what_is_no_number_is_refused(payload):
    assert read("number/d/x", payload).reason.startswith("not a number: ")


def test_a_word_for_no_value_is_ignored():
    assert read("number/d/x", b"nan") == Ignored("number", "'nan' is no value")


# --- Devices and states ---


def test_the_payload_may_name_the_device_and_say_its_kind():
    found = read("node", b'{"node":"press-4","kind":"data","values":{"rpm":900}}')
    assert (found.device, found.readings[0].name) == ("press-4", "rpm")
    assert isinstance(read("node", b'{"node":"p","kind":3,"values":{"rpm":900}}'), Message)
    assert isinstance(read("node", b'{"node":"p","kind":[],"values":{"rpm":900}}'), Ignored)
    assert read("node", b'{"kind":"data","values":{"rpm":9}}').reason == "no device at node"


@pytest.mark.parametrize(
    ("payload", "is_online"),
    [(b"true", True), (b'{"state":false}', False), (b'{"state":"true"}', True)],
)
def test_a_state(payload, is_online):
    assert read("lwt/d", payload) == State("lwt", "d", is_online)


def test_another_word_is_no_state():
    assert read("lwt/d", b"maybe").reason == "neither online nor offline: 'maybe'"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (b"json", "no source has this topic"),
        (b"json/\xff", "topic is not UTF-8"),
        (b"json/" + b"x" * 65, "the device's name is too long, or cannot be printed"),
        (b"json/a\x1b", "the device's name is too long, or cannot be printed"),
        (b"number/d/" + b"x" * 65, "the metric's name is too long, or cannot be printed"),
    ],
)
def test_topics_that_nobody_reads(topic, reason):
    assert decode(MAPPING, topic, b"{}", NOW_MS) == Refused(reason)


def test_a_topic_to_ignore():
    assert read("json/nobody", b"\xff") == Ignored("", "a topic to ignore")


# --- SenML ---


def pack(payload, topic="pack/d", received_ms=NOW_MS):
    found = read(topic, payload, received_ms)
    if isinstance(found, Refused):
        return found.reason
    return [(one.name, one.unit, one.value, one.time_us) for one in found.readings]


def test_base_values_apply_from_their_record_on():
    found = pack(
        b'[{"bn":"x/","bu":"W","bv":10,"n":"a","v":1},{"n":"b","u":"V"},{"bv":0,"n":"c","v":3}]'
    )
    now_us = NOW_MS * 1000
    assert found == [("a", "W", 11, now_us), ("b", "V", 10, now_us), ("c", "W", 3, now_us)]


def test_a_base_name_that_changes_stays_in_the_name():
    found = pack(b'[{"bn":"x/","n":"a","v":1},{"bn":"y/","n":"a","v":2},{"bn":"x/","v":3}]')
    assert [one[0] for one in found] == ["a", "y/a", "value"]


def test_without_a_device_in_the_topic_the_base_name_is_the_device():
    found = read("named", b'[{"bn":"urn:dev:ow:10e2073a01080063:","n":"temp","v":23.5}]')
    assert (found.device, found.readings[0].name) == ("urn:dev:ow:10e2073a01080063", "temp")
    assert pack(b'[{"n":"a","v":1}]', "named") == "no base name that can name a device"


@pytest.mark.parametrize(
    ("payload", "times", "origin"),
    [
        (b'[{"bt":1768478300,"n":"a","v":1},{"n":"b","v":1,"t":5}]', [-100, -95], "device"),
        (b'[{"n":"a","v":1,"t":-2.5},{"n":"b","v":1}]', [-2.5, 0], "arrival"),
        (b'[{"n":"a","v":1,"t":1768478300},{"n":"b","v":1}]', [-100, 0], "arrival"),
        (b'[{"bt":4000000000,"n":"a","v":1}]', [0], "arrival"),
    ],
)
def test_times_of_a_pack(payload, times, origin):
    found = read("pack/d", payload)
    assert [(one.time_us / 1000 - NOW_MS) / 1000 for one in found.readings] == times
    assert found.time_from == origin


def test_a_relative_time_without_an_arrival_is_not_known():
    assert pack(b'[{"n":"a","v":1,"t":-2}]', received_ms=None) == [("a", None, 1, None)]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"[]", "not a SenML pack"),
        (b"[1]", "not a SenML pack"),
        (b"{}", "not a SenML pack"),
        (b"[{", "not JSON"),
        (b'[{"n":"a","v":"1"}]', "record 0: bad label v"),
        (b'[{"n":"a","v":1,"vb":true}]', "record 0: several values"),
        (b'[{"n":"a","v":1,"must_":1}]', "record 0: a label that must be understood"),
        (b'[{"bver":11,"n":"a","v":1}]', "record 0: bver is not 1 to 10"),
        (b'[{"n":"a","vs":"x"}]', "no record has a number"),
        (b"[" + b",".join([b'{"n":"a","v":1}'] * 257) + b"]", "more than 256 values"),
    ],
)
def test_odd_packs_are_refused(payload, reason):
    assert pack(payload) == reason


# --- Bounds ---


def test_a_payload_of_the_largest_size_is_read_and_a_longer_one_is_not():
    payload = b'{"v":1}'.ljust(MAX_PAYLOAD_BYTES)
    assert isinstance(read("json/d", payload), Message)
    assert read("json/d", payload + b" ").reason == "longer than 65536 bytes"


def test_more_values_than_a_message_may_have():
    few, many = ({f"k{i}": 1 for i in range(count)} for count in (256, 257))
    assert len(read("json/d", json.dumps(few).encode()).readings) == 256
    assert read("json/d", json.dumps(many).encode()).reason == "more than 256 values"


def test_a_name_that_is_too_long_is_left_out():
    found = read("json/d", b'{"a":1,"%s":2,"b\\u001b":3,"\\ud800":4}' % (b"x" * 65))
    if isinstance(found, Refused):  # half a character is no JSON for some readers
        found = read("json/d", b'{"a":1,"%s":2,"b\\u001b":3}' % (b"x" * 65))
    assert [one.name for one in found.readings] == ["a"]
    assert len(found.left_out) >= 2


def of(device, *names):
    return Message("s", device, [Reading(name, None, 1.0, 0) for name in names], "arrival", "")


def test_a_flood_of_new_names_costs_its_sender():
    names = Names(devices=2, metrics=3)
    assert names.refusal(of("a", "x", "y")) == names.refusal(of("b", "x")) == ""
    assert names.refusal(of("c", "x")) == "a new device, and this source has 2 already"
    assert names.refusal(of("a", "z", "w")) == "2 new names, and this device has 2 of 3 already"
    assert names.refusal(of("a", "x", "z")) == "", "what is known, and the last name, still come"
    assert names.refusal(of("a", "w")).startswith("1 new names")
    assert names.refusal(of("b", "x", "y")) == "", "others are not affected"


# --- Anything ---

TOPICS = st.sampled_from("json/d number/d/m scaled/d pack/d named node lwt/d other".split())
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["time", "src", "n", "node", "values", "kind", "bn", "bt", "v", "t", "s"]),
)  # fmt: skip
KEYS = st.sampled_from("time src n node values kind bn bt bu bv bver v vs vb t s u state x".split())
DOCUMENTS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6)
)
JSON = st.builds(lambda document: json.dumps(document).encode(), DOCUMENTS)
ARRIVALS = st.none() | st.integers(0, 1 << 45)


@given(TOPICS, JSON | st.binary(max_size=60), ARRIVALS, st.booleans())
def test_no_payload_raises_and_decoding_is_repeatable(topic, payload, received_ms, retained):
    found = read(topic, payload, received_ms, retained)
    assert isinstance(found, Message | State | Ignored | Refused)
    if isinstance(found, Refused):
        assert found.reason
    if isinstance(found, Message):
        assert found.readings and bounds.is_name(found.device)
        for one in found.readings:
            assert bounds.is_name(one.name) and abs(one.value) <= 1e38
            assert one.time_us is None or isinstance(one.time_us, int)
    assert repr(read(topic, payload, received_ms, retained)) == repr(found)


@given(st.binary(max_size=40))
def test_no_topic_raises(topic):
    assert isinstance(decode(MAPPING, topic, b"1", NOW_MS), Message | State | Ignored | Refused)


@pytest.mark.parametrize("topic", ["json/d", "pack/d", "node", "lwt/d"])
def test_nesting_without_end_is_refused(topic):
    for payload in (b"[" * 60_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000):
        assert isinstance(read(topic, payload), Refused)

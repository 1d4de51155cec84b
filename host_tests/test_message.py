# cpython-only: the desktop half of the message definition
"""Payloads that are messages, and every kind that is none with the reason that quarantine shows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.common import message

HEAD = {"bn": "board-1/", "bt": 1763694000.123, "sid": "3fa9c1d2", "seq": 1234, "boot": 3, "held": 1200, "ver": 1}
TOPIC = "outpost/board-1/data"


def pack(*records: dict, **changes: object) -> bytes:
    """A good message with labels of its first record changed; None removes one."""
    first = HEAD | {"n": "load", "v": 0.42} | changes
    first = {label: value for label, value in first.items() if value is not None}
    return json.dumps([first, *records]).encode()


def reason(payload: bytes, topic: str = TOPIC, **arguments: object) -> str:
    with pytest.raises(message.Malformed) as caught:
        message.decode(topic, payload, **arguments)
    return str(caught.value)


def test_a_pack_gives_its_readings():
    found = message.decode(TOPIC, pack({"n": "memory", "u": "KiB", "v": 123456, "t": -1.5}))
    assert (found.device, found.stream, found.seq, found.boot, found.held) == ("board-1", "3fa9c1d2", 1234, 3, 1200)
    assert found.readings == [
        message.Reading(0, "load", None, 0.42, 1763694000.123),
        message.Reading(1, "memory", "KiB", 123456.0, 1763693998.623, -1.5),
    ]


def test_without_a_clock_there_is_uptime_and_no_time():
    found = message.decode(TOPIC, pack(bt=None, up=12.5))
    assert (found.uptime_s, found.readings[0].time_s) == (12.5, None)


BAD_LABELS = [
    ({"ver": 2}, "unknown version 2"),
    ({"ver": None}, "missing label ver"),
    ({"ver": True}, "bad label ver"),
    ({"ver": 1.0}, "bad label ver"),
    ({"bn": None}, "bad label bn"),
    ({"bn": "board-1"}, "bad label bn"),
    ({"bn": "../../etc/"}, "bad label bn"),
    ({"bn": "x" * 33 + "/"}, "bad label bn"),
    ({"bn": "board-1\n/"}, "bad label bn"),
    ({"sid": "3FA9C1D2"}, "bad label sid"),
    ({"sid": "3fa9c1d"}, "bad label sid"),
    ({"seq": -1}, "bad label seq"),
    ({"seq": 1 << 30}, "bad label seq"),
    ({"seq": "7"}, "bad label seq"),
    ({"seq": None}, "missing label seq"),
    ({"held": 1235}, "held above seq"),
    ({"boot": 65536}, "bad label boot"),
    ({"up": "soon"}, "bad label up"),
    ({"bt": "now"}, "bad label bt"),
    ({"bt": 1e300}, "record 0: time out of range"),
    ({"bt": -5}, "record 0: time out of range"),
    ({"bt": 0}, "record 0: time out of range"),
    ({"n": ""}, "record 0: bad label n"),
    ({"n": None}, "record 0: bad label n"),
    ({"n": "\ud800"}, "record 0: bad label n"),
    ({"u": 7}, "record 0: bad label u"),
    ({"u": "\udfff"}, "record 0: bad label u"),
    ({"v": None}, "record 0: no value"),
    ({"v": True}, "bad label v"),
    ({"v": "0.42"}, "bad label v"),
    ({"v": 10**400}, "bad label v"),
]


@pytest.mark.parametrize(("changes", "expected"), BAD_LABELS)
def test_a_bad_label_is_named(changes, expected):
    assert reason(pack(**changes)) == expected


BAD_BYTES = [
    (b"", "empty"),
    (b"\xff[]", "not UTF-8 at byte 0"),
    (pack() + b"\xc3", f"not UTF-8 at byte {len(pack())}"),
    (pack()[:-1], "not JSON"),
    (pack() + b"x", "not JSON"),
    (b"\xef\xbb\xbf" + pack(), "not JSON"),
    (pack().replace(b"0.42", b"NaN"), "not JSON"),
    (pack().replace(b"0.42", b"-Infinity"), "not JSON"),
    (pack().replace(b"0.42", b"1e999"), "bad label v"),
    (pack().replace(b"0.42", b"9" * 5000), "not JSON"),
    (b"[" * 10_000, "not JSON"),
    (b'{"a":' * 2_000, "not JSON"),
    (b"null", "not a SenML pack"),
    (b"[]", "not a SenML pack"),
    (b"[[]]", "not a SenML pack"),
    (pack()[:-1] + b",7]", "not a SenML pack"),
    (b"x" * 16_385, "oversize: 16385 bytes, limit 16384"),
]


@pytest.mark.parametrize(("payload", "expected"), BAD_BYTES, ids=[expected for _, expected in BAD_BYTES])
def test_bytes_that_are_no_message_have_a_reason(payload, expected):
    assert reason(payload) == expected


def test_a_retained_message_is_refused():
    assert reason(pack(), retained=True) == "retained"


def test_a_cut_payload_is_oversize_by_its_true_length():
    assert reason(b"x" * 10, original_length=70_000) == "oversize: 70000 bytes, limit 16384"


@pytest.mark.parametrize("topic", ["outpost/board-2/data", "data", "", "outpost/board-1"])
def test_another_devices_topic_is_refused(topic):
    assert reason(pack(), topic) == "device 'board-1' does not match the topic"


_LABELS = st.sampled_from([*HEAD, "n", "u", "v", "t", "up"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(_LABELS, inner),
    max_leaves=12,
)


@given(st.binary() | _JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_message_or_malformed(payload):
    try:
        message.decode(TOPIC, payload)
    except message.Malformed as error:
        assert str(error)


@given(st.dictionaries(_LABELS, st.none() | st.floats() | st.integers() | st.text()))
def test_any_labels_are_a_message_or_malformed(changes):
    try:
        message.decode(TOPIC, pack(**changes))
    except message.Malformed as error:
        assert str(error)

# cpython-only: the desktop half of the message definition
"""Payloads that are messages, and every kind that is none with the reason that quarantine shows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from message_samples import BAD_BYTES, BAD_LABELS, HEAD, TOPIC, pack
from outpost_tools.messages import message


def reason(payload: bytes, topic: str = TOPIC, **arguments: object) -> str:
    with pytest.raises(message.Malformed) as caught:
        message.decode(topic, payload, **arguments)
    return str(caught.value)


def test_a_pack_gives_its_readings():
    found = message.decode(TOPIC, pack({"n": "memory", "u": "KiB", "v": 123456, "t": -1.5}))
    assert (found.device, found.stream, found.seq, found.boot, found.held) == (
        "board-1",
        "3fa9c1d2",
        1234,
        3,
        1200,
    )
    assert found.readings == [
        message.Reading(0, "load", None, 0.42, 1763694000.123),
        message.Reading(1, "memory", "KiB", 123456.0, 1763693998.623, -1.5),
    ]


def test_without_a_clock_there_is_uptime_and_no_time():
    found = message.decode(TOPIC, pack(bt=None, up=12.5))
    assert (found.uptime_s, found.readings[0].time_s) == (12.5, None)


@pytest.mark.parametrize(("changes", "expected"), BAD_LABELS)
def test_a_bad_label_is_named(changes, expected):
    assert reason(pack(**changes)) == expected


@pytest.mark.parametrize(
    ("payload", "expected"), BAD_BYTES, ids=[expected for _, expected in BAD_BYTES]
)
def test_bytes_that_are_no_message_have_a_reason(payload, expected):
    assert reason(payload) == expected


def test_a_retained_message_is_refused():
    assert reason(pack(), retained=True) == "retained"


def test_a_cut_payload_is_oversize_by_its_true_length():
    assert reason(b"x" * 10, original_length=70_000) == "oversize: 70000 bytes, limit 16384"


DAY_S = 86_400
T0 = 1_763_694_000
ARRIVALS = [
    ({"bt": T0 + 32 * DAY_S}, T0, "record 0: time after its arrival"),
    ({"bt": 4_070_908_800}, T0, "record 0: time after its arrival"),  # 2099
    ({"bt": T0 - 6 * 365 * DAY_S}, T0, "record 0: time long before its arrival"),
    ({"bt": T0 + 30 * DAY_S}, T0, None),
    ({"bt": T0 - 4 * 365 * DAY_S}, T0, None),  # an outbox that was years in a drawer
    ({"bt": None, "up": 5}, T0, None),
    ({"bt": 4_070_908_800}, 1000, None),  # the collector's clock was not set
    ({"t": -32 * DAY_S}, T0, "times too far apart"),
    ({"t": -31 * DAY_S}, T0, None),
    ({"bt": None, "t": -32 * DAY_S}, T0, "times too far apart"),
]


@pytest.mark.parametrize(("changes", "received_s", "expected"), ARRIVALS)
def test_times_are_compared_with_the_arrival_and_with_each_other(changes, received_s, expected):
    content = pack({"n": "memory", "v": 1}, **({"bt": T0} | changes))
    if expected is None:
        assert message.decode(TOPIC, content, received_ms=received_s * 1000)
    else:
        assert reason(content, received_ms=received_s * 1000) == expected


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

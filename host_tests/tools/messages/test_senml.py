# cpython-only: the desktop half of the message definition
"""SenML by RFC 8428: base values, kinds of value, versions and labels, in JSON and in CBOR."""

import json

import pytest

from message_samples import HEAD, SENML, SENML_REFUSED, TOPIC, cbor_pack, pack, record
from outpost_tools.messages import message

T0 = HEAD["bt"]


def both(records: list[dict], changes: dict) -> list[message.Message]:
    bodies = pack(*records, **changes), cbor_pack(*(record(**r) for r in records), **changes)
    return [message.decode(TOPIC, body) for body in bodies]


@pytest.mark.parametrize(("records", "changes", "expected"), SENML)
def test_readings_are_resolved(records, changes, expected):
    json_one, cbor_one = both(records, changes)
    assert json_one == cbor_one
    found = [(r.index, r.name, r.unit, r.value, r.time_s) for r in json_one.readings]
    assert found == expected


@pytest.mark.parametrize(("records", "changes", "expected"), SENML_REFUSED)
def test_what_cannot_be_read_rightly_is_refused_by_name(records, changes, expected):
    for body in (pack(*records, **changes), cbor_pack(*(record(**r) for r in records), **changes)):
        with pytest.raises(message.Malformed) as caught:
            message.decode(TOPIC, body)
        assert str(caught.value) == expected


def test_a_value_that_is_no_number_is_left_out_and_named():
    content = pack({"n": "door", "vb": True}, {"n": "state", "vs": "on"}, {"n": "a", "v": 2})
    found = message.decode(TOPIC, content)
    assert [(r.index, r.name) for r in found.readings] == [(0, "load"), (3, "a")]
    assert message.left_out_reason(found) == "records without a number left out: vb, vs"


def test_a_later_base_time_moves_the_distance_from_the_uptime_too():
    """So that `bt` and `up` of the first record tell one clock, whichever record is looked at."""
    found = message.decode(TOPIC, pack({"n": "a", "v": 1, "bt": T0 + 60, "t": 1}, up=5))
    assert [(r.time_s, r.shift_s) for r in found.readings] == [(T0, 0.0), (T0 + 61, 61.0)]


def test_a_reason_shows_no_control_characters_and_no_long_label():
    content = json.dumps([HEAD | {"n": "a", "v": 1, "\x1b[2J" + "x" * 5000 + "\ud800_": 1}])
    with pytest.raises(message.Malformed) as caught:
        message.decode(TOPIC, content.encode())
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 100

# cpython-only: the desktop half of the message definition
"""SenML in CBOR: what is a message, and what a hostile one costs."""

import time
from types import SimpleNamespace

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from message_samples import CBOR, GOOD, TOPIC, cbor_pack, pack, record
from outpost_tools.boards.send import delivery
from outpost_tools.messages import message
from station.clock import Clock
from station.telemetry import Pack
from station.telemetry_cbor import CborPack


@pytest.mark.parametrize(("payload", "reason"), CBOR, ids=range(len(CBOR)))
def test_a_pack_or_a_reason(payload, reason):
    begin = time.process_time()
    try:
        message.decode(TOPIC, payload)
        found = None
    except message.Malformed as error:
        found = str(error)
    assert found == reason
    assert time.process_time() - begin < 0.5


def test_cbor_and_json_give_the_same_message():
    memory = {"n": "memory", "u": "KiB", "v": 123456, "t": -1.5}
    assert message.decode(TOPIC, cbor_pack(record(**memory))) == message.decode(TOPIC, pack(memory))


# --- What boards send ---

NAMES = st.text("abcdefghijklmnopqrstuvwxyz.", min_size=1, max_size=24).map(str.encode)
READINGS = st.tuples(
    NAMES,
    st.sampled_from([b"", b"Cel", b"%RH", b"a.unit.of.24.characters."]),
    st.integers(-(1 << 29), (1 << 30) - 1),
    st.integers(-9, 9),
)


@given(
    st.lists(READINGS, min_size=1, max_size=20),
    st.integers(0, (1 << 30) - 1),
    st.integers(0, 65535),
    st.none() | st.tuples(st.integers(20_000, 45_000), st.integers(0, 86_399_999)),
    st.tuples(st.integers(0, 9999), st.integers(0, 86_399_999)),
)
def test_a_boards_cbor_says_what_its_json_says(readings, seq, boot, time, uptime):
    day, ms = time or (0, 0)
    now = SimpleNamespace(day=day, ms=ms, up_day=uptime[0], up_ms=uptime[1])
    outbox = SimpleNamespace(stream=b"3fa9c1d2", next_seq=seq, oldest_seq=seq // 2, boot=boot)
    found = []
    for kind in (Pack, CborPack):
        made = kind(b"d1", 4000)
        for now.is_set in (False, time is not None):  # from the first on it has `up`
            made.begin(outbox, now)
        assert all(made.add(*reading) for reading in readings)
        payload = bytes(made.buffer[: made.end()])
        found.append((message.decode("x/d1/data", payload), message.key_of(b"x/d1/data", payload)))
    assert found[0] == found[1]


@given(st.integers(0, 2), st.text("abc' -", max_size=80))
def test_an_answer_to_a_command_in_both(result, why):
    found = []
    for kind in (Pack, CborPack):
        made = kind(b"d1")
        made.begin(SimpleNamespace(stream=b"3fa9c1d2", next_seq=7, oldest_seq=7, boot=1), Clock(0))
        head = f',"n":"command","v":{result},"cmd":"k3v9q2","what":"set","why":"{why}"'
        made.put_record(head)
        made.add(b"load", b"", 42, -2)
        payload = bytes(made.buffer[: made.end()])
        found.append((message.decode("x/d1/data", payload), delivery.answer_in(payload)))
    assert found[0] == found[1] and found[0][1][1].why == why


def test_a_decimal_fraction_is_its_number():
    assert message.decode(TOPIC, CBOR[3][0]).readings[0].value == 273.15


def test_a_decimal_fraction_beyond_a_float_is_refused():
    good = cbor2.loads(GOOD)
    body = b"\x81" + cbor2.dumps(good[0]).replace(
        cbor2.dumps(0.42), b"\xc4\x82\x1a\x3f\xff\xff\xff\x01"
    )
    with pytest.raises(message.Malformed, match="bad label v"):
        message.decode(TOPIC, body)


@given(
    st.binary(max_size=200).map(lambda tail: b"\x81" + tail)
    | st.integers(0, len(GOOD) * 256 - 1).map(
        lambda n: GOOD[: n // 256] + bytes([n % 256]) + GOOD[n // 256 + 1 :]
    )
)
def test_any_bytes_are_a_message_or_malformed(payload):
    try:
        message.decode(TOPIC, payload)
    except message.Malformed as error:
        assert str(error)

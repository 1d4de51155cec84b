# cpython-only: the desktop half of the message definition
"""SenML in CBOR: what is a message, and what a hostile one costs."""

import time

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from message_samples import CBOR, GOOD, TOPIC, cbor_pack, pack, record
from outpost_tools.common import message


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

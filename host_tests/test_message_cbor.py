# cpython-only: the desktop half of the message definition
"""SenML in CBOR: what is a message, and what a hostile one costs."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.common import message
from test_message import HEAD, TOPIC, pack

try:
    import cbor2
except ImportError as problem:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip(f"needs the pipeline's packages: {problem}", allow_module_level=True)

INTEGER_LABELS = {"bn": -2, "bt": -3, "n": 0, "u": 1, "v": 2, "t": 6}


def record(**labels: object) -> dict:
    return {INTEGER_LABELS.get(label, label): value for label, value in labels.items() if value is not None}


def cbor_pack(*records: dict, **changes: object) -> bytes:
    """The CBOR of what test_message.pack() gives as JSON; None removes a label."""
    return cbor2.dumps([record(**(HEAD | {"n": "load", "v": 0.42} | changes)), *records])


GOOD = cbor_pack()
CBOR = [
    (GOOD, None),
    (cbor_pack(record(n="memory", u="KiB", v=123456, t=-1.5)), None),
    (b"\x9f" + GOOD[1:] + b"\xff", None),  # of indefinite length
    (cbor_pack(v=cbor2.loads(b"\xc4\x82\x21\x19\x6a\xb3")), None),  # 273.15 as a decimal fraction
    (GOOD[:-1], "not CBOR"),
    (GOOD + b"\x00", "not CBOR"),
    (GOOD + GOOD, "not CBOR"),
    (b"\x80", "not a SenML pack"),
    (b"\x81\x01", "not a SenML pack"),
    (b"\x81" * 16_000, "not CBOR"),  # depth
    (b"\x9f" * 16_000, "not CBOR"),
    (b"\x9b" + b"\xff" * 8, "not CBOR"),  # an array of 2^64 - 1
    (b"\x9a\x7f\xff\xff\xff", "not CBOR"),
    (b"\x81\xbb\x00\x00\x00\xff\xff\xff\xff\xff", "not CBOR"),  # a map of 2^40
    (b"\x81\x5b\x00\x00\x00\xff\xff\xff\xff\xff", "not CBOR"),  # bytes of 2^40
    (b"\x81\xa1\x02\xc2\x59\x10\x00" + b"\xff" * 4096, "not CBOR"),  # a big number
    (b"\x81\xa1\x02\xd8\x23\x64(a+)", "not CBOR"),  # a regular expression
    (b"\x81\xd8\x1c\x81\xd8\x1d\x00", "not CBOR"),  # an array that holds itself
    (b"\x81\xa1\x02\xc0\x74" + b"2013-03-21T20:04:00Z", "not CBOR"),  # a date
    (b"\x81\xa1\x02\xd9\x99\x99\x00", "not CBOR"),  # a tag that nobody knows
    (b"\x81\xa2\x00\x61a\x00\x61b", "not CBOR"),  # a label twice
    (b"\x81\xa2\x21\x61a\x62bn\x61b", "not CBOR"),  # a label twice, as number and as text
    (b"\x81\xa1\x81\x01\x02", "missing label ver"),  # a label that is a list
    (b"\x81\xa1\x63\xed\xa0\x80\x01", "not CBOR"),  # half a character
    (cbor_pack(v=float("nan")), "bad label v"),
    (cbor_pack(v=float("-inf")), "bad label v"),
    (cbor_pack(v=True), "bad label v"),
    (cbor_pack(v=b"1"), "bad label v"),
    (cbor_pack(seq=1234.0), "bad label seq"),
    (cbor_pack(ver=2), "unknown version 2"),
    (cbor_pack(ver=None), "missing label ver"),
    (cbor_pack(sid=b"3fa9c1d2"), "bad label sid"),
    (cbor_pack(bn="../../etc/"), "bad label bn"),
    (b"\x81\xa1\x02\xc4\x82\x1a\x3f\xff\xff\xff\x01", "missing label ver"),  # 1 with a thousand million zeros
]


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
    body = b"\x81" + cbor2.dumps(good[0]).replace(cbor2.dumps(0.42), b"\xc4\x82\x1a\x3f\xff\xff\xff\x01")
    with pytest.raises(message.Malformed, match="bad label v"):
        message.decode(TOPIC, body)


@given(
    st.binary(max_size=200).map(lambda tail: b"\x81" + tail)
    | st.integers(0, len(GOOD) * 256 - 1).map(lambda n: GOOD[: n // 256] + bytes([n % 256]) + GOOD[n // 256 + 1 :])
)
def test_any_bytes_are_a_message_or_malformed(payload):
    try:
        message.decode(TOPIC, payload)
    except message.Malformed as error:
        assert str(error)

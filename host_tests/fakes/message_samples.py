"""Payloads as boards send them, in JSON and CBOR, and payloads that are not messages, each with the
reason to refuse it.
"""

import json

import cbor2

from outpost_tools.messages import labels

HEAD = {
    "bn": "board-1/",
    "bt": 1763694000.123,
    "sid": "3fa9c1d2",
    "seq": 1234,
    "boot": 3,
    "held": 1200,
    "ver": 1,
}
TOPIC = "outpost/board-1/data"


def pack(*records: dict, **changes: object) -> bytes:
    """A good message with labels of its first record changed; None removes one."""
    first = HEAD | {"n": "load", "v": 0.42} | changes
    first = {label: value for label, value in first.items() if value is not None}
    return json.dumps([first, *records]).encode()


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
    ({"bt": 1e300}, "label bt out of range"),
    ({"bt": 4_102_444_800}, "record 0: time out of range"),
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
    ({"v": 1.1e38}, "label v out of range"),
    ({"v": -(10**39)}, "label v out of range"),
    ({"up": 1e300}, "label up out of range"),
    ({"bt": None, "up": 1e13}, "label up out of range"),
    ({"up": -1}, "label up out of range"),
    ({"t": 1e300}, "label t out of range"),
    ({"bt": None, "t": -4_102_444_801}, "label t out of range"),
]
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


_T0 = HEAD["bt"]
_A, _B, _DOOR = {"n": "a", "v": 1}, {"n": "b", "v": 1}, {"n": "door", "vb": False}
_BME = {"bn": "board-1/bme-", "n": "a", "v": 1}


def _load(value: float = 0.42, unit: str | None = None, time_s: float | None = _T0) -> tuple:
    return 0, "load", unit, value, time_s


def _other(index: int, name: str, value: float, time_s: float | None = _T0) -> tuple:
    return index, name, None, value, time_s


# How RFC 8428 resolves a pack: later records, changes of the first; readings, or why not.
SENML = [
    ([], {"bv": 20, "v": 1.5}, [_load(21.5)]),
    ([_A], {"bv": 20, "v": 1}, [_load(21.0), _other(1, "a", 21.0)]),
    ([_A | {"bv": 5}, _B], {}, [_load(), _other(1, "a", 6.0), _other(2, "b", 6.0)]),
    ([_A], {"bu": "Cel", "u": "V"}, [_load(unit="V"), (1, "a", "Cel", 1.0, _T0)]),
    (
        [_A | {"bt": _T0 + 60, "t": 1}, _B],
        {},
        [_load(), _other(1, "a", 1.0, _T0 + 61), _other(2, "b", 1.0, _T0 + 60)],
    ),
    (
        [_BME, {"v": 2}, _B | {"bn": "board-1/"}],
        {},
        [_load(), _other(1, "bme-a", 1.0), _other(2, "bme-", 2.0), _other(3, "b", 1.0)],
    ),
    (
        [_A | {"t": 5}],
        {"bt": None, "t": 1763694000},
        [_load(time_s=1763694000.0), _other(1, "a", 1.0, None)],
    ),
    ([], {"bt": None, "t": 268435455}, [_load(time_s=None)]),
    ([], {"bver": 10, "unknown": 1}, [_load()]),
    ([_DOOR, _A], {}, [_load(), _other(2, "a", 1.0)]),
    ([{"n": "energy", "s": 12}], {"ut": 60, "s": 5}, [_load()]),
]
SENML_REFUSED = [
    ([], {"bver": 11}, "record 0: bver is not 1 to 10"),
    ([_A | {"bver": 99}], {}, "record 1: bver is not 1 to 10"),
    ([], {"bver": "10"}, "bad label bver"),
    ([], {"bver": True}, "bad label bver"),
    ([], {"x_": 1}, "record 0: unknown label 'x_'"),
    ([_A | {"must_": 1}], {}, "record 1: unknown label 'must_'"),
    ([_A | {"bn": "board-2/"}], {}, "record 1: bn is not of this device"),
    ([_A | {"bn": "board-1"}], {}, "record 1: bn is not of this device"),
    ([_BME, {"bn": "board-1/", "v": 2}], {}, "record 2: bad label n"),
    ([], {"bv": "20"}, "bad label bv"),
    ([], {"bv": 1e39}, "label bv out of range"),
    ([], {"bv": 9e37, "v": 9e37}, "record 0: bv and v out of range"),
    ([], {"bu": 7}, "record 0: bad label bu"),
    ([_A | {"bt": 5}], {}, "record 1: time out of range"),
    ([], {"bt": None, "up": 5, "t": 1763694000}, "record 0: up, and no bt in record 0"),
    ([_A | {"bt": _T0}], {"bt": None, "up": 5}, "record 1: up, and no bt in record 0"),
    ([], {"vs": "on"}, "record 0: both v and vs"),
    ([], {"v": None, "vs": "on"}, "no reading has a number: vs"),
    ([{"n": "a", "vb": True}], {"v": None, "s": 1}, "no reading has a number: s, vb"),
    ([], {"v": None, "bv": 5}, "record 0: no value"),
]


INTEGER_LABELS = {label: number for number, label in labels.CBOR.items()}


def record(**labels: object) -> dict:
    return {
        INTEGER_LABELS.get(label, label): value
        for label, value in labels.items()
        if value is not None
    }


def cbor_pack(*records: dict, **changes: object) -> bytes:
    """The CBOR of what pack() returns as JSON; None removes a label."""
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
    (b"\x81\xa1\x02\xd9\x99\x99\x00", "not CBOR"),  # an unknown tag
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
    # 1 with a thousand million zeros
    (b"\x81\xa1\x02\xc4\x82\x1a\x3f\xff\xff\xff\x01", "missing label ver"),
]

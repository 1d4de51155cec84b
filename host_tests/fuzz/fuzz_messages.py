"""Feeds hostile SenML to both readers of segments, and on to the streams' state and the clocks: the
readers agree row for row, and nothing fails.

    python host_tests/fuzz/fuzz_messages.py [COUNT] [SEED]

COUNT is 1,000,000 and SEED 1 by default: this takes some minutes. `test_pipeline_decode.py` runs a
short form; `test_pipeline.py` takes such messages through Spark to the last table.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter

import cbor2
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.log import segments
from outpost_tools.messages import labels
from outpost_tools.readings.pipeline import clocks, decode, exact, fingerprints, schemas, transforms

DEVICE = "hostile"
TOPIC = f"outpost/{DEVICE}/data".encode()
RECEIVED_MS = 1_763_694_000_000
_T0, _YEAR = RECEIVED_MS // 1000, 365 * 86_400
_SECONDS = (
    *(0, 5, -1, -0.0, 0.1, 86_400, -86_400, 1e9, 1e13, 1e300, -1e300, 5e-324, 2**28, 2**28 - 1),
    *(2**30, 2**30 + 1, 2**53, 2**63, 10**400, -(2**31), labels.MAX_TIME_S, -labels.MAX_TIME_S),
)
_TIMES = (
    *(_T0, _T0 + 0.123, _T0 + 1e-7, _T0 - _YEAR, _T0 - 5 * _YEAR, _T0 - 5 * _YEAR - 1),
    *(_T0 + 31 * 86_400, _T0 + 31 * 86_400 + 1, 4_070_908_800, 946_684_800, *_SECONDS),
)
_VALUES = (*_SECONDS, 1.5, 1e38, 1.1e38, -1e38, 1e-400, True, "1", [1], {"v": 1}, None)
_TEXTS = ("load", "left_out", "torn", "battery", "°C", "", "\0", "\x1b[2J", "\ud800", "x" * 300, 7)
_BASE_NAMES = (f"{DEVICE}/", f"{DEVICE}/bme-", "board-1/", DEVICE, "../../etc/", "", 7)
_INTEGERS = (0, 1, 2, 7, 65_535, 65_536, 2**30 - 1, 2**30, 2**63, -1, 1.0, 1e0, True, "1", None)
_POOLS = {
    **dict.fromkeys(("t", "bt"), _TIMES),
    **dict.fromkeys(("v", "bv", "up", "x", "x_", "vs", "vb", "vd", "s", "ut"), _VALUES),
    **dict.fromkeys(("n", "u", "bu"), _TEXTS),
    **dict.fromkeys(("seq", "held", "boot", "ver", "bver"), _INTEGERS),
    "bn": _BASE_NAMES,
    "sid": ("00000009", "0000000a", "0000000A", "", 9),
}
_LABELS = sorted(_POOLS)
_CBOR = {label: number for number, label in labels.CBOR.items()}


def payload(chance: random.Random) -> bytes:
    """Returns one message: mostly valid labels with some invalid ones, in JSON or CBOR, sometimes
    with bytes changed."""
    records = [_record(chance) for _ in range(chance.choice((0, 0, 1, 2, 5)))]
    content = _encoded([_first(chance), *records], chance)
    return _changed(content, chance) if chance.random() < 0.1 else content


def _first(chance: random.Random) -> dict:
    seq = chance.randrange(40)
    head = {
        "bn": f"{DEVICE}/",
        "sid": "00000009",
        "seq": seq,
        "held": 0,
        "boot": seq // 8,
        "ver": 1,
    }
    if chance.random() < 0.6:
        head["bt"] = chance.choice(_TIMES) if chance.random() < 0.4 else _T0 + seq
    if chance.random() < 0.6:
        head["up"] = chance.choice(_SECONDS) if chance.random() < 0.4 else seq
    return head | {"n": "load", "v": seq} | _odd(chance, 0.5)


def _record(chance: random.Random) -> dict:
    return {"n": chance.choice("abc"), "v": chance.randrange(9)} | _odd(chance, 0.3)


def _odd(chance: random.Random, part: float) -> dict:
    if chance.random() > part:
        return {}
    names = chance.sample(_LABELS, chance.choice((1, 1, 1, 2, 3)))
    return {name: chance.choice(_POOLS[name]) for name in names}


def _encoded(records: list[dict], chance: random.Random) -> bytes:
    if chance.random() < 0.7:
        return json.dumps(records, ensure_ascii=chance.random() < 0.9).encode("utf-8", "replace")
    numbered = [{_CBOR.get(label, label): v for label, v in one.items()} for one in records]
    try:
        return cbor2.dumps(numbered)
    except (cbor2.CBORError, UnicodeEncodeError):  # half a character
        return json.dumps(records).encode()


def _changed(content: bytes, chance: random.Random) -> bytes:
    changed, at = bytearray(content), chance.randrange(len(content))
    changed[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(changed)


def segment(count: int, chance: random.Random) -> bytes:
    frames = [segments.encode_frame(RECEIVED_MS + n, TOPIC, payload(chance)) for n in range(count)]
    return segments.sealed_bytes(frames)


def rows_of(data: bytes) -> tuple[list[tuple], pa.Table]:
    """Returns the fast reader's rows, with times as integers, and its table."""
    batches = decode.segment_batches(data, "c", 3)
    table = pa.Table.from_batches(batches, schema=schemas.FRAME)
    plain = [
        column.cast("int64") if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return list(zip(*(column.to_pylist() for column in plain), strict=True)), table


def check(data: bytes) -> Counter[str]:
    """Returns how many rows were refused for each reason. Raises if the two readers differ or a
    step fails."""
    found, table = rows_of(data)
    expected = list(exact.segment_rows(data, "c", 3))
    differing = set(map(repr, found)) ^ set(map(repr, expected))
    if differing or len(found) != len(expected):
        raise AssertionError("the readers differ:\n" + "\n".join(sorted(differing)[:4]))
    rows = table.filter(pc.is_null(table["reason"])).select(schemas.READING.names)
    marked = transforms.mark_streams(rows, schemas.STREAM.empty_table(), fingerprints.Known())
    _check_bounds(clocks.place(marked.readings, clocks.from_state(marked.state)))
    return Counter(reason or "taken in" for reason in table["reason"].to_pylist())


def _check_bounds(readings: pa.Table) -> None:
    """Placed times too: what gold computes from them fits its types."""
    for row in readings.select(["value", "uptime_s", "shift_s"]).to_pylist():
        assert abs(row["value"]) <= 1e38, row
        assert abs(row["uptime_s"] or 0.0) + abs(row["shift_s"]) < 1e10, row
    for time_us in readings["time"].drop_null().cast("int64").to_pylist():
        assert -5 * _YEAR <= time_us / 1e6 - _T0 <= 31 * 86_400 + 1, time_us


def fuzz(count: int, seed: int, per_segment: int = 500) -> Counter[str]:
    """Fuzz `count` messages. A failure prints the segment to repeat."""
    outcomes: Counter[str] = Counter()
    for number in range(-(-count // per_segment)):
        try:
            outcomes += check(segment(per_segment, random.Random(f"{seed}-{number}")))
        except BaseException:
            print(f"segment {number} of seed {seed}", file=sys.stderr)
            raise
    return outcomes


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    started = time.monotonic()
    counts = fuzz(wanted, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for name, times in counts.most_common(30):
        print(f"{times:9,} {name}")
    print(f"{wanted:,} messages in {time.monotonic() - started:.0f} s: the readers agree")

#!/usr/bin/env python3
"""Passes mutated series messages to the exact reader: each is refused with a reason, or read within
its bounds. Of those that are read, one in 16 is also read by the tests' own reader, with the same
result.

    .venv/bin/python host_tests/fuzz/fuzz_series.py --count 10000000

Prints how many were read and refused. The same seed gives the same messages.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import series_samples
import series_writer
from outpost_tools.messages import series
from outpost_tools.messages.senml import Malformed

BATCH = 100_000


def seeds(dice: random.Random) -> list[bytes]:
    """Returns good messages of every kind, all short, so that changes hit all parts alike."""
    found = []
    for columns in (series_writer.CLIMATE, (("n", "", 0),), (("a", "V", -3), ("b", "", 2))):
        for rows in (0, 1, 2, 5):
            time, taken = 0, []
            for _ in range(rows):
                values = [dice.choice((None, 5, 2150, -(1 << 29))) for _ in columns]
                taken.append((time, [values[0] or 1, *values[1:]]))
                time += dice.choice((10, 10, 4000))
            for uptime_ms in (None, 90_000_000):
                found.append(
                    series_writer.payload(
                        taken,
                        columns,
                        uptime_ms=uptime_ms,
                        time_parameter=dice.randrange(4),
                        parameters=[dice.randrange(6) for _ in columns],
                    )
                )
    return found


def mutated(dice: random.Random, good: list[bytes]) -> bytes:
    payload = bytearray(dice.choice(good))
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        way = dice.randrange(8)
        # The samples are at the end, and half of the changes go there.
        at = (
            dice.randrange(len(payload))
            if way & 1
            else max(0, len(payload) - dice.randrange(1, 12))
        )
        if way < 4:
            payload[at] ^= 1 << dice.randrange(8)
        elif way < 6:
            payload[at] = dice.choice((0, 0xFF, dice.randrange(256)))
        elif way == 6:
            del payload[at : at + dice.randrange(4)]
        else:
            payload[at:at] = dice.randbytes(dice.randrange(5))
        if not payload:
            break
    return bytes(payload)


def judge(payload: bytes, also: bool) -> str:
    """Returns how the message was treated. Raises AssertionError if the reader is wrong."""
    try:
        found = series.decode(payload)
    except Malformed as error:
        assert str(error), payload
        return re.sub(r"\d+", "n", str(error))
    assert len(found.samples) <= 4 * len(payload), payload
    for sample in found.samples:
        assert abs(sample.time_ms - found.start_ms) < series.SPAN_LIMIT_MS, payload
        assert any(value is not None for value in sample.values), payload
        for value in sample.values:
            assert value is None or -(1 << 29) <= value < 1 << 29, payload
    key = series.key_in(payload)
    assert key == (found.device, found.stream, found.seq, found.held), payload
    if also:
        other = series_samples.read(payload)
        assert other["samples"] == [tuple(sample) for sample in found.samples], payload
        assert other["columns"] == [tuple(column) for column in found.columns], payload
    return "read"


def batch(seed: int) -> Counter[str]:
    dice = random.Random(seed)
    good = seeds(dice)
    return Counter(judge(mutated(dice, good), not i % 16) for i in range(BATCH))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="K", help="of the first 100,000")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    total: Counter[str] = Counter()
    with ProcessPoolExecutor(args.processes) as pool:
        for one in pool.map(batch, range(args.seed, args.seed - (-args.count // BATCH))):
            total.update(one)
    for what, count in total.most_common():
        print(f"{count:11,}  {what}")
    print(f"{total.total():11,}  messages, none read wrongly")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""How often a torn sample is accepted: samples as sensors give them, each program torn at random,
read as the firmware reads them.

    .venv/bin/python host_tests/fuzz/series_tears.py --count 1000000

A tear leaves some of the cells that should be 0 at 1: each with the same probability, which is
drawn for each tear, or all from some cell on. Counts what reads as a whole sample but differs from
the programmed one, and what a check with CRC-16 alone would have accepted.
"""

from __future__ import annotations

import argparse
import random
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import series_loss  # noqa: F401 - its fast stand-ins for portable.py
from outpost import series_outbox

COLUMNS = 3
ROOM = 48


def sample(dice: random.Random) -> str:
    """Returns the codes of a sample, as bits: k is 0 for the time, 2 for the values."""
    codes = [0 if dice.random() < 0.9 else dice.randrange(2, 9)]
    codes += [min(int(dice.expovariate(0.15)), 4000) for _ in range(COLUMNS)]
    text = ""
    for index, number in enumerate(codes):
        bits = f"{number + (4 if index else 1):b}"
        text += "0" * (len(bits) - 1 - 2 * (index > 0)) + bits
    return text


def torn(dice: random.Random, data: bytes) -> bytes:
    size = 8 * len(data)
    number = int.from_bytes(data, "big")
    if dice.random() < 0.2:
        stays = (1 << dice.randrange(size)) - 1
    else:
        probability = dice.random()
        stays = sum(1 << i for i in range(size) if dice.random() < probability)
    return (number | stays).to_bytes(len(data), "big")


def run(count: int, seed: int) -> tuple[int, int, int]:
    """Returns (tears, those accepted as a sample, those of them with CRC-16 instead)."""
    dice = random.Random(seed)
    gather = series_outbox._Gather()
    gather.columns, gather.shape, gather.mark_bits = COLUMNS, 7 << 5 | COLUMNS, 3
    gather.ks[1:4] = b"\2\2\2"
    gather.room, gather.end = 0, ROOM
    tears = taken = taken_by_crc = 0
    while tears < count:
        text = sample(dice)
        bits = int(text + "1" * (-len(text) % 8), 2)
        data = bits.to_bytes(len(text) + 7 >> 3, "big")
        gather.crc = dice.getrandbits(30)
        check = series_outbox.check_of(data, 0, len(data), gather.crc, False)
        whole = data + check.to_bytes(2, "little")
        after = torn(dice, whole)
        if after == whole:
            continue
        tears += 1
        gather.buffer = after + b"\xff" * (ROOM - len(after))
        gather.is_lost = False
        found = gather._bits(0)
        taken += gather._checked(0, found) > 0
        end = (found >> 1) + 7 >> 3
        crc = zlib.crc32(data, gather.crc).to_bytes(4, "little")[:2]
        other = torn(dice, data + crc)
        gather.buffer = other + b"\xff" * (ROOM - len(other))
        end = (gather._bits(0) >> 1) + 7 >> 3
        if end and other != data + crc and gather._bits(0) & 1 == 0:
            seen = zlib.crc32(gather.buffer[:end], gather.crc).to_bytes(4, "little")[:2]
            taken_by_crc += seen == gather.buffer[end : end + 2]
    return tears, taken, taken_by_crc


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="K")
    args = parser.parse_args()
    tears, taken, by_crc = run(args.count, args.seed)
    print(f"{tears:,} torn samples: {taken} taken for whole; {by_crc} with CRC-16 as the check")
    return 0


if __name__ == "__main__":
    sys.exit(main())

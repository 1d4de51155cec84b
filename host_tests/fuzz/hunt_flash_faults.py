#!/usr/bin/env python3
"""The long hunt for faults of the flash other than power cuts.

    .venv/bin/python host_tests/fuzz/hunt_flash_faults.py            dead blocks, and sampled flips
    .venv/bin/python host_tests/fuzz/hunt_flash_faults.py --all      every bit of three images: 1 h

Dead blocks: one of 16, then two, each dying at one of several moments of the first five rounds.
Flips: each bit of every byte that is not erased, one at a time, and one bit in 601 of all.
"""

from __future__ import annotations

import argparse
import collections
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend([*paths.ALL, str(paths.HOST_TESTS / "firmware" / "outpost")])

from flash_faults import flip_states, judge_flip
from test_outbox_faults import dying, formatted, mounted

BLOCKS = 16
MOMENTS = (1, 5, 11, 13, 50, 97, 150, 193, 260, 400, 577)  # publishes before the block dies
PUBLISHES = 700
HELD = 20


def flips(every_bit: bool) -> None:
    for name, state in flip_states(4, messages=6, length=40):
        image = state[0]
        bits = range(len(image) * 8)
        if not every_bit:
            step = 23 if name == "wrapped" else 1
            used = [
                8 * at + bit for at, byte in enumerate(image) if byte != 0xFF for bit in range(8)
            ]
            bits = [*used[::step], *bits[::601]]
        lost = collections.Counter(judge_flip(state, bit) for bit in bits)
        if max(lost) > 1:
            raise SystemExit(f"{name}: a flip costs {max(lost)} messages")
        print(f"flips, {name}: {len(bits)}, of which {lost[1]} cost a message, none two")


def life(dead: tuple[int, ...], moment: int) -> tuple[int, int]:
    """Returns (publishes refused, erases) of one life. SystemExit when a message is not
    delivered."""
    flash = dying(BLOCKS)
    outbox = formatted(flash)
    stored, delivered, refused = [], [], 0
    for number in range(PUBLISHES):
        if number == moment:
            flash.dead = dead
        text = b"%06d" % number
        if outbox.append(b"t", text + bytes(294), 300) == 0:
            stored.append(text)
        else:
            refused += 1
        most = HELD if number < PUBLISHES - 1 else 0
        while outbox.next_seq - outbox.oldest_seq > most and outbox.load(outbox.oldest_seq) == 0:
            at = outbox.topic_at + outbox.topic_length
            delivered.append(bytes(outbox.buffer[at : at + 6]))
            outbox.discard(outbox.loaded_seq)
        if number % 97 == 0:
            outbox = mounted(flash)
    if sorted(set(delivered)) != stored:
        raise SystemExit(f"dead {dead} from {moment} on: {len(set(stored) - set(delivered))} lost")
    return refused, flash.erases


def dead_blocks() -> None:
    pairs = [(block, (block + 1) % BLOCKS) for block in range(0, BLOCKS, 3)]
    pairs += [(block, (block + 7) % BLOCKS) for block in range(0, BLOCKS, 5)]
    sound = life((), 0)[1]
    for name, groups in (("one", [(block,) for block in range(BLOCKS)]), ("two", pairs)):
        lives = [life(dead, moment) for dead in groups for moment in MOMENTS]
        refused, erases = sum(one[0] for one in lives), [one[1] - sound for one in lives]
        print(
            f"{name} dead of {BLOCKS}: {len(lives)} lives, {len(lives) * PUBLISHES} publishes, "
            f"{refused} refused, 0 lost, {sum(erases) / len(erases):.1f} erases more on average, "
            f"{max(erases)} at most"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="flip every bit of the images")
    args = parser.parse_args()
    dead_blocks()
    flips(args.all)


if __name__ == "__main__":
    main()

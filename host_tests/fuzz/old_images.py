#!/usr/bin/env python3
"""Outboxes that earlier versions wrote, 72 of each, are read and continued by today's firmware.

    host_tests/fuzz/old_images.py            makes them from the history of this repository
    host_tests/fuzz/old_images.py --write    also renews the sample that test_old_images.py reads

For each version, that firmware is taken from git and makes the images itself
(`old_images_maker.py`): three sizes of the ring, four alignments, six contents. It also says what
it stored, what it promised, and what it finds after a start.
"""

from __future__ import annotations

import argparse
import base64
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import power_loss  # noqa: F401 - gives the firmware zlib's CRC
from fake_flash import PowerCut
from outbox_invariants import contents
from outpost.outbox import Outbox
from outpost.state_note import NotedOutbox
from virtual.chip import ERASE_WAYS, PROGRAM_WAYS, Chip

# The name of each version, and its commit. 0.1.0: the last one of outbox format 1.
VERSIONS = {"4dc0c3b": "4dc0c3b", "0.1.0": "d55b1acb", "cfb93e31": "cfb93e31"}
SAMPLE = paths.HOST_TESTS / "firmware" / "outpost" / "images" / "old_images.json.xz"
SAMPLED = 7  # one image of so many: all sizes, alignments and contents are among them
PAGE_BYTES = 256
ROUNDS = 3  # how often the ring is filled again


def made_by(commit: str) -> dict[str, dict]:
    """The images of a version, by name. Raises CalledProcessError without the history."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", commit, "firmware/outpost"],
            cwd=paths.REPOSITORY,
            check=True,
            capture_output=True,
        ).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        parts = Path(folder) / "firmware", paths.STUBS, paths.FAKES, paths.PROVE, paths.UNIX_BOARD
        parts += (paths.BENCH_BOARD,)
        maker = paths.FUZZ / "old_images_maker.py"
        done = subprocess.run(
            [sys.executable, maker],
            env={**os.environ, "PYTHONPATH": paths.joined(*parts)},
            check=True,
            capture_output=True,
        )
    return json.loads(done.stdout)


class Check:
    """One image: what today's firmware finds in it, and how it goes on.

    align: as today's board says; the image may have a larger one.
    """

    def __init__(self, old: dict, align: int) -> None:
        image = zlib.decompress(base64.b64decode(old["image"]))
        blocks = [image[at : at + 4096] for at in range(0, len(image), 4096)]
        self.old, self.align = old, align
        self.kind = NotedOutbox if old["noted"] else Outbox
        self.chip = Chip(len(blocks), PAGE_BYTES, data=blocks)
        self.held = {seq: old["stored"][str(seq)][2].encode() for seq in old["promised"]}
        self.number = 0

    def is_read(self) -> None:
        outbox = self.mounted()
        assert outbox.next_seq >= self.old["next_seq"]
        found = self.found(outbox)
        assert all(one in found for one in self.old["held"]), "found by that version"
        assert {seq for seq, *_ in found} >= {*self.old["promised"]}, "promised"
        assert all(self.old["stored"].get(str(seq)) == text for seq, *text in found), "invented"
        assert self.aside(outbox) == self.old["aside"], "aside"
        assert bytes(outbox.note[: outbox.note_length]).decode() == self.old["note"], "note"

    def is_continued(self, seed: int) -> None:
        """The ring is filled again and again, over starts and a power cut, and nothing is lost."""
        dice = random.Random(seed)
        outbox = self.mounted()
        room = self.chip.blocks * 16
        for step in range(ROUNDS * room):
            outbox = self.stored(outbox, dice, step == room)
            if step % 20 == 19:
                outbox = self.mounted()
            if step % 20 == 0:
                there = contents(outbox)
                assert {seq: there.get(seq) for seq in self.held} == self.held, step
        assert bytes(outbox.note[: outbox.note_length]).decode() == self.old["note"], "note"

    def stored(self, outbox: Outbox, dice: random.Random, is_cut: bool) -> Outbox:
        self.number += 1
        payload = b"new %d" % self.number + b"y" * dice.randrange(400)
        seq = outbox.next_seq
        assert all(seq > one for one in self.held)
        try:
            self.chip.cut_at = is_cut
            self.chip.cut_way = dice.choice(sorted(PROGRAM_WAYS.keys() & ERASE_WAYS.keys()))
            status = outbox.append(b"t", payload, len(payload))
        except PowerCut:
            return self.mounted()
        finally:
            self.chip.cut_at = 0
        if status == 0:
            self.held[seq] = payload
        while len(self.held) > 8 or (status and self.held):
            seq = min(self.held)
            assert outbox.load(seq) == 0 and outbox.loaded_seq == seq
            outbox.discard(seq)
            del self.held[seq]
            if len(self.held) < 4:
                break
        return outbox

    def mounted(self) -> Outbox:
        outbox = self.kind(self.chip, 512, self.align, PAGE_BYTES)
        assert outbox.mount() == 0
        return outbox

    def found(self, outbox: Outbox) -> list:
        return [
            [seq, outbox.flags, *self.text_of(outbox)]
            for seq in contents(outbox)
            if outbox.load(seq) == 0 and outbox.loaded_seq == seq
        ]

    def aside(self, outbox: Outbox) -> list:
        shelf = outbox.shelf() if outbox.aside else None
        return [
            [shelf.seq, outbox.flags, *self.text_of(outbox)]
            for index in range(outbox.aside)
            if shelf.load(index) == 0
        ]

    @staticmethod
    def text_of(outbox: Outbox) -> list[str]:
        middle = outbox.topic_at + outbox.topic_length
        topic = bytes(outbox.buffer[outbox.topic_at : middle])
        return [
            topic.decode(),
            bytes(outbox.buffer[middle : middle + outbox.payload_length]).decode(),
        ]


def check(old: dict, seed: int) -> None:
    """Raises AssertionError. The alignment is the image's, and that of today's boards."""
    for align in sorted({4, old["align"]}):
        Check(old, align).is_read()
        Check(old, align).is_continued(seed)


def sample() -> dict[str, dict]:
    """Some images of each version, from the file in the repository."""
    versions = json.loads(lzma.decompress(SAMPLE.read_bytes()))
    return {f"{v}: {name}": old for v, images in versions.items() for name, old in images.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"renew {SAMPLE.name}")
    args = parser.parse_args()
    kept, faults = {}, 0
    for version, commit in VERSIONS.items():
        images, bad = made_by(commit), []
        for seed, (name, old) in enumerate(images.items()):
            try:
                check(old, seed)
            except AssertionError as fault:
                bad.append(f"  {name}: {fault}")
        count = f"{len(images) - len(bad)} of {len(images)}"
        print(f"{version}: {count} read and continued", *bad, sep="\n")
        faults += len(bad)
        kept[version] = dict(list(images.items())[::SAMPLED])
    if args.write:
        SAMPLE.write_bytes(lzma.compress(json.dumps(kept).encode()))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

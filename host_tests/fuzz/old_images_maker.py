"""Makes images of outboxes with the firmware that PYTHONPATH names, of any version, and says what
that firmware finds in them. `old_images.py` runs it; prints JSON.
"""

import base64
import inspect
import json
import sys
import zlib

from fake_flash import PowerCut
from outpost import outbox_setup  # noqa: F401 - so that quick() finds it; as old versions name it
from outpost.outbox import Outbox
from virtual.chip import Chip

try:
    from outpost.state_note import NotedOutbox
except ImportError:
    from outpost.notes import NotedOutbox

BLOCKS, ALIGNS = (3, 5, 8), (4, 32, 64, 256)
CONTENTS = ("few", "full", "holes", "torn record", "torn erase", "note and shelf")
PAGE_BYTES = 256


def crc30(seed, buf, at, end):
    return zlib.crc32(memoryview(buf)[at:end], seed) & 0x3FFFFFFF


def crc30_of_4dc0c3b(buf, at, end, seed):
    return crc30(seed, buf, at, end)


def quick():
    """Replace the firmware's CRC, which is slow here."""
    for name, module in list(sys.modules.items()):
        found = getattr(module, "crc30", None)
        if name.startswith("outpost") and found is not None:
            is_first = next(iter(inspect.signature(found).parameters)) == "seed"
            module.crc30 = crc30 if is_first else crc30_of_4dc0c3b


class Life:
    """An outbox, and what is stored in it."""

    def __init__(self, blocks, align, content):
        self.kind = NotedOutbox if content == "note and shelf" else Outbox
        self.align, self.number = align, 0
        self.stored = {}  # by number: flags, topic, payload; that of the interrupted call, too
        self.chip = Chip(blocks, PAGE_BYTES)
        self.outbox = self.open()
        assert self.outbox.format(b"0badcafe") == 0
        getattr(self, content.replace(" ", "_"))()

    def open(self):
        return self.kind(self.chip, 512, self.align, PAGE_BYTES)

    def append(self):
        self.number += 1
        topic, length = b"t/%d" % (self.number % 7), 90 * self.number % 480
        payload = b"%d" % self.number + b"x" * length
        flags, seq = 0x10 + 0x40 * (length == 0), self.outbox.next_seq
        self.stored[seq] = [flags, topic.decode(), payload.decode()]
        status = self.outbox.append(topic, payload, len(payload), flags)
        if status:
            del self.stored[seq]
        return status

    def not_released(self):
        """Returns the numbers of the messages that are promised now."""
        oldest, acked = self.outbox.oldest_seq, self.outbox.acked << 1
        seqs = range(oldest, self.outbox.next_seq)
        return [seq for seq in seqs if not acked >> seq - oldest & 1]

    def turn(self, count):
        """Store `count` messages; all but ten are released."""
        for _ in range(count):
            assert self.append() == 0
            self.outbox.discard_through(self.outbox.next_seq - 10)

    def few(self):
        self.turn(7)

    def full(self):
        self.turn(60)
        while self.append() == 0:
            pass

    def holes(self):
        self.turn(50)
        self.outbox.discard(self.outbox.oldest_seq)
        for distance in (1, 2, 5):
            self.outbox.discard(self.outbox.oldest_seq + distance)
        assert self.outbox.save_state() == 0

    def torn_record(self):
        self.turn(33)
        self.cut("all but 4 bytes", False)

    def torn_erase(self):
        self.turn(33)
        self.cut("zeros, random", True)

    def cut(self, way, is_erase):
        """Cut the power in the next program, or in the next erase."""
        self.chip.cut_way = way
        self.chip.on_operation = lambda *operation: self.arm(operation[0] == is_erase)
        try:
            while True:
                self.append()
                self.outbox.discard_through(self.outbox.next_seq - 10)
        except PowerCut:
            self.chip.cut_at = 0

    def arm(self, is_it):
        if is_it:
            self.chip.cut_at = 1

    def note_and_shelf(self):
        self.turn(40)
        assert self.outbox.set_note(b"what it must remember", 21) == 0
        self.turn(8)
        for _ in range(3 if hasattr(self.outbox, "shelf") else 0):
            seq = self.outbox.oldest_seq
            if self.outbox.shelf().put(seq) == 0:
                self.outbox.discard(seq)
        assert self.outbox.save_state() == 0

    def found(self):
        """What the firmware finds at a start."""
        image = b"".join(self.chip.data)
        promised = self.not_released()
        self.chip = Chip(self.chip.blocks, PAGE_BYTES, data=self.chip.data)
        outbox = self.open()
        assert outbox.mount() == 0
        held, seq = [], 0
        while outbox.load(seq) == 0:
            seq = outbox.loaded_seq + 1
            distance = seq - 1 - outbox.oldest_seq
            if not outbox.acked << 1 >> distance & 1:
                held.append([seq - 1, outbox.flags, *text_of(outbox)])
        aside = []
        for index in range(getattr(outbox, "aside", 0)):
            assert outbox.shelf().load(index) == 0
            aside.append([outbox.shelf().seq, outbox.flags, *text_of(outbox)])
        note = bytes(outbox.note[: outbox.note_length]) if self.kind is NotedOutbox else b""
        return {
            "align": self.align,
            "noted": self.kind is NotedOutbox,
            "image": base64.b64encode(zlib.compress(image, 9)).decode(),
            "stored": self.stored,
            "promised": promised,
            "held": held,
            "aside": aside,
            "note": note.decode(),
            "next_seq": outbox.next_seq,
        }


def text_of(outbox):
    middle = outbox.topic_at + outbox.topic_length
    topic = bytes(outbox.buffer[outbox.topic_at : middle])
    return topic.decode(), bytes(outbox.buffer[middle : middle + outbox.payload_length]).decode()


if __name__ == "__main__":
    quick()
    made = {
        f"{blocks} blocks, align {align}, {content}": Life(blocks, align, content).found()
        for blocks in BLOCKS
        for align in ALIGNS
        for content in CONTENTS
    }
    print(json.dumps(made))

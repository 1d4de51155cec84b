"""Cuts the power in every program and erase of a load, in five ways, and holds what is left against a model.

The load runs on undisturbed; at each flash operation the chip is copied, the operation is left half done on the copy, and the
copy is mounted, checked, used further, cut a second time at a random operation and checked again.

Checked after every mount: each message whose append() returned OK and that was not freed is there, whole, once, in order; what is
there besides is the message of the call that was cut, or one whose acknowledgement no record carried yet (a duplicate).
"""

import random
import sys

from fake_flash import PowerCut, flash_in_ram, image_of
from nor_flash import CUT_MODES, NorFlash
from outpost.outbox import Outbox

if sys.implementation.name == "cpython":  # the hunt is long, and bytecode.py slow there: the same CRC from zlib
    import zlib

    from outpost import sectors

    sectors.crc30 = lambda buf, at, end, seed: zlib.crc32(memoryview(buf)[at:end], seed) & 0x3FFFFFFF

TOPIC = b"outpost/board-1/data"


class Violation(Exception):
    """The outbox broke its promise; str() says how."""


class Model:
    """What the outbox has promised. `trying` is the content of the append() under way."""

    def __init__(self):
        self.held = {}
        self.unsaved = {}  # freed since the last record: may come back after a cut
        self.saving = False
        self.trying = None
        self.next_seq = 0

    def copy(self):
        twin = Model()
        twin.held, twin.unsaved = dict(self.held), dict(self.unsaved)
        twin.trying, twin.next_seq = self.trying, self.next_seq
        return twin

    def append(self, outbox, payload):
        self.trying = payload
        status = outbox.append(TOPIC, payload, len(payload))
        self.trying = None
        if status == 0:
            self.held[self.next_seq] = payload
            self.next_seq += 1
            self.unsaved = {}
        return status

    def free(self, outbox, seq):
        if outbox.discard(seq):
            self.unsaved[seq] = self.held.pop(seq)

    def save(self, outbox):
        if outbox.save_state() == 0:
            self.unsaved = {}

    def check(self, outbox):
        """Compare with what the freshly mounted outbox holds, and take over what it found. Gives the number of duplicates."""
        found = {}
        last = -1
        outbox.seek(0)
        while outbox.load() == 0:
            at = outbox.topic_at + outbox.topic_length
            payload = bytes(outbox.buffer[at : at + outbox.payload_length])
            if outbox.cursor_seq <= last:
                raise Violation("out of order: %d after %d" % (outbox.cursor_seq, last))
            last = outbox.cursor_seq
            if last >= outbox.oldest_seq and not (outbox.acked << 1) >> (last - outbox.oldest_seq) & 1:
                found[last] = payload
            outbox.advance()
        for seq, payload in self.held.items():
            if found.get(seq) != payload:
                raise Violation("lost: %d of %s, found %s" % (seq, sorted(self.held), sorted(found)))
        return self._extra(outbox, found)

    def _extra(self, outbox, found):
        duplicates = 0
        for seq, payload in found.items():
            if seq in self.held:
                continue
            if seq in self.unsaved and self.unsaved[seq] == payload:
                duplicates += 1
            elif seq != self.next_seq or payload != self.trying:
                raise Violation("invented: %d %s" % (seq, payload[:20]))
        if outbox.next_seq not in (self.next_seq, self.next_seq + (self.trying is not None)):
            raise Violation("next number %d, model %d" % (outbox.next_seq, self.next_seq))
        self.held, self.unsaved, self.trying, self.next_seq = found, {}, None, outbox.next_seq
        return duplicates


class ForkingFlash(NorFlash):
    """Calls on_fork(image, mode) for each way in which the power could go in each operation."""

    on_fork = None

    def writeblocks(self, block, buf, offset=None):
        self._fork("writeblocks", block, buf, offset)
        NorFlash.writeblocks(self, block, buf, offset)

    def ioctl(self, op, arg):
        if op == 6:
            self._fork("ioctl", op, arg, None)
        return NorFlash.ioctl(self, op, arg)

    def _fork(self, method, first, second, third):
        if not self.on_fork:
            return
        image = image_of(self)
        for mode in CUT_MODES:
            twin = flash_in_ram(self.blocks, self.unit_bytes, image)
            twin.cut_at, twin.cut_mode = 1, mode
            try:
                if method == "ioctl":
                    twin.ioctl(first, second)
                else:
                    twin.writeblocks(first, second, third)
            except PowerCut:
                pass
            self.on_fork(twin, mode)


class Hunt:
    """One load on one geometry. cuts, second_cuts, duplicates, most_duplicates: what happened."""

    def __init__(self, blocks, align, page_bytes, payload_bytes, seed, outbox_class=Outbox):
        self.geometry = (align, page_bytes)
        self.payload_bytes, self.outbox_class = payload_bytes, outbox_class
        self.random = random
        random.seed(seed)
        self.cuts = self.second_cuts = self.duplicates = self.most_duplicates = 0
        ram = flash_in_ram(blocks, page_bytes)
        self.flash = ForkingFlash(ram._file, blocks, page_bytes)
        self.model = Model()
        self.outbox = self._mounted(self.flash, format_it=True)
        self.flash.on_fork = self._forked

    def _mounted(self, flash, format_it=False):
        align, page_bytes = self.geometry
        outbox = self.outbox_class(flash, align=align, page_bytes=page_bytes)
        status = outbox.format(b"0badcafe") if format_it else outbox.mount()
        if status != 0:
            raise Violation("mount: status %d" % status)
        return outbox

    def _payload(self, seq):
        text = b"%d:%d:" % (seq, random.getrandbits(24))
        return text + b"x" * (random.getrandbits(16) % self.payload_bytes)

    def step(self, model, outbox, busy):
        """A few messages in, a few out; `busy` of 16 chances are for a message."""
        if random.getrandbits(4) < busy:
            model.append(outbox, self._payload(model.next_seq))
        elif random.getrandbits(4) == 0:
            model.save(outbox)
        elif model.held:
            window = sorted(model.held)[:8]
            model.free(outbox, window[random.getrandbits(8) % len(window)])

    def run(self, steps, busy):
        for _ in range(steps):
            self.step(self.model, self.outbox, busy)
        return self

    def _forked(self, flash, mode):
        self.cuts += 1
        model = self.model.copy()
        outbox = self._mounted(flash)
        self._count(model.check(outbox))
        if random.getrandbits(2):
            return
        flash.cut_at = flash.operations + 1 + random.getrandbits(3)
        flash.cut_mode = CUT_MODES[random.getrandbits(8) % 5]
        try:
            for _ in range(24):
                self.step(model, outbox, 10)
        except PowerCut:
            self.second_cuts += 1
        flash.cut_at = 0
        self._count(model.check(self._mounted(flash)))

    def _count(self, duplicates):
        self.duplicates += duplicates
        self.most_duplicates = max(self.most_duplicates, duplicates)


GEOMETRIES = ((2, 4, 256), (3, 32, 32), (4, 4, 256), (4, 256, 256), (5, 8, 64))
LOADS = (("steady", 8), ("burst", 12), ("full", 15), ("idle", 4))


def hunt(steps, seed, outbox_class=Outbox, payload_bytes=440):
    """Every geometry under every load: (cuts, second cuts, most duplicates). Raises Violation, with the way to repeat it."""
    cuts = second = most = 0
    for blocks, align, page_bytes in GEOMETRIES:
        for name, busy in LOADS:
            one = Hunt(blocks, align, page_bytes, payload_bytes, seed, outbox_class)
            try:
                one.run(steps, busy)
            except Violation as fault:
                where = "%s blocks=%d align=%d page=%d seed=%d cut %d" % (name, blocks, align, page_bytes, seed, one.cuts)
                raise Violation("%s: %s" % (where, fault))
            cuts, second, most = cuts + one.cuts, second + one.second_cuts, max(most, one.most_duplicates)
    return cuts, second, most

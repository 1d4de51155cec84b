"""Cuts the power in every program and erase of a load, in five ways, and holds what is left against
a model.

The load runs on undisturbed; at each flash operation the chip is copied, the operation is left half
done on the copy, and the copy is mounted and checked; one in four is used further, cut a second
time at a random operation and checked again.

Checked after every mount: each message whose append() returned OK and that was not freed is there,
whole, once, in order; what is there besides is the message of the call that was cut, or one whose
acknowledgement no record carried yet (a duplicate).
"""

import random
import sys

from fake_flash import PowerCut, flash_in_ram, image_of
from nor_flash import CUT_MODES, NorFlash
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from outpost.state_note import NotedOutbox

# the hunt is long, and portable.py slow there: the same CRC from zlib
if sys.implementation.name == "cpython":
    import zlib

    from outpost import checksum, policies, portable, sectors

    def crc30(seed, buf, at, end):
        return zlib.crc32(memoryview(buf)[at:end], seed) & 0x3FFFFFFF

    checksum.crc30 = sectors.crc30 = policies.crc30 = portable.crc30 = crc30

LAST_SEQ = (1 << 30) - 1
STREAM = b"0badcafe"
JUMP = 254


class Violation(Exception):
    """The outbox broke its promise; str() says how."""


class Model:
    """What an outbox that refuses has promised: `held` by number. `trying`: the payload of the
    append() under way.
    """

    topics = (b"outpost/board-1/data",)

    def __init__(self, first_seq=0):
        self.held = {}
        self.unsaved = {}  # freed since the last record: may come back after a cut
        self.trying = self.note_trying = None
        self.note = b""
        self.next_seq = first_seq
        self.renewing = False

    def copy(self):
        twin = type(self)(self.next_seq)
        twin.held, twin.unsaved = dict(self.held), dict(self.unsaved)
        twin.trying, twin.note, twin.note_trying, twin.renewing = (
            self.trying,
            self.note,
            self.note_trying,
            self.renewing,
        )
        return twin

    def append(self, outbox, payload):
        self.renewing = self.next_seq == LAST_SEQ and not self.held
        self.trying = payload
        status = outbox.append(self.topics[0], payload, len(payload))
        self.trying = None
        self._settle(outbox)
        if status == 0:
            self.next_seq = 0 if self.renewing else self.next_seq
            self.held[self.next_seq] = payload
            self.next_seq += 1
            self.unsaved = {}
        self.renewing = False
        return status

    def _settle(self, outbox):
        """After an append(): nothing that is held may have been dropped."""

    def free(self, outbox):
        """One of the oldest eight is acknowledged."""
        window = sorted(self.held)[:8]
        seq = window[random.getrandbits(8) % len(window)] if window else -1
        if outbox.discard(seq):
            self.unsaved[seq] = self.held.pop(seq)

    def save(self, outbox):
        if outbox.save_state() == 0:
            self.unsaved = {}

    def set_note(self, outbox):
        note = b"note %d" % random.getrandbits(20)
        self.note_trying = note[: random.getrandbits(4)]
        if outbox.set_note(self.note_trying, len(self.note_trying)) == 0:
            self.note = self.note_trying
            self.unsaved = {}
        self.note_trying = None

    def check(self, outbox):
        """Compare with what the freshly mounted outbox holds, and take over what it found. Gives
        the number of duplicates.
        """
        found = contents(outbox)
        for seq, payload in self.held.items():
            if found.get(seq) != payload:
                raise Violation(
                    "lost: %d of %s, found %s" % (seq, sorted(self.held), sorted(found))
                )
        duplicates = 0
        for seq, payload in found.items():
            if seq in self.held:
                continue
            if self.unsaved.get(seq) == payload:
                duplicates += 1
            elif payload != self.trying or seq != (0 if self.renewing else self.next_seq):
                raise Violation("invented: %d %s" % (seq, payload[:20]))
        self._check_next(outbox)
        self._check_note(outbox)
        self.held, self.unsaved, self.trying, self.renewing = found, {}, None, False
        return duplicates

    def _check_next(self, outbox):
        possible = [self.next_seq]
        if self.trying is not None:
            possible += [0, 1] if self.renewing else [self.next_seq + 1]
        possible += [seq + JUMP for seq in possible]  # past what a lost sector may have used
        if outbox.next_seq not in possible:
            raise Violation("next number %d, model %d" % (outbox.next_seq, self.next_seq))
        self.next_seq = outbox.next_seq

    def _check_note(self, outbox):
        if isinstance(outbox, NotedOutbox):
            note = bytes(outbox.note[: outbox.note_length])
            if note not in (self.note, self.note if self.note_trying is None else self.note_trying):
                raise Violation("note %s, model %s or %s" % (note, self.note, self.note_trying))
            self.note, self.note_trying = note, None


class DropModel(Model):
    """Drop the oldest: what the outbox gave up is no longer promised, but may come back until a
    record says so.
    """

    def _settle(self, outbox):
        for seq in sorted(self.held):
            if seq < outbox.oldest_seq:
                self.unsaved[seq] = self.held.pop(seq)

    def at_cut(self, outbox):
        self._settle(outbox)


class TopicModel(Model):
    """Newest per topic: numbers change, so a message is its payload, and `held` is by topic, in the
    order of publishing.
    """

    topics = tuple([b"t/%d" % i for i in range(5)])

    def append(self, outbox, payload):
        topic = self.topics[random.getrandbits(8) % len(self.topics)]
        self.trying = payload = topic + b" " + payload
        status = outbox.append(topic, payload, len(payload))
        self.trying = None
        if status == 0:
            self.held[topic] = payload
            self.unsaved[payload] = topic
            self.next_seq += 1
        return status

    def free(self, outbox):
        """The oldest is acknowledged: its topic may have nothing that must be kept."""
        if outbox.load(0) == 0:
            payload = payload_of(outbox)
            topic = payload.split(b" ")[0]
            outbox.discard(outbox.loaded_seq)
            if self.held.get(topic) == payload:
                del self.held[topic]

    def save(self, outbox):
        outbox.save_state()

    def check(self, outbox):
        """The newest message of each topic is there; all that is there was published; each topic's
        come in their order.
        """
        last = {}
        for seq, payload in sorted(contents(outbox).items()):
            topic = payload.split(b" ")[0]
            if payload not in self.unsaved and payload != self.trying:
                raise Violation("invented: %d %s" % (seq, payload[:20]))
            if self._order(payload) < self._order(last.get(topic, payload)):
                raise Violation("out of order: %s after %s" % (payload[:20], last[topic][:20]))
            last[topic] = payload
        for topic, payload in self.held.items():
            if last.get(topic) != payload and last.get(topic) != self.trying:
                raise Violation(
                    "lost: %s, newest found %s" % (payload[:20], last.get(topic, b"nothing")[:20])
                )
        if self.trying:
            self.unsaved[self.trying] = self.trying.split(b" ")[0]
        self.held, self.trying, self.next_seq = last, None, max(self.next_seq, outbox.next_seq)
        return 0

    def _order(self, payload):
        return int(payload.split(b" ")[1].split(b":")[0])


def payload_of(outbox):
    at = outbox.topic_at + outbox.topic_length
    return bytes(outbox.buffer[at : at + outbox.payload_length])


def contents(outbox):
    """What the outbox holds, by number; those acknowledged out of order left out. Looks only: no
    record is written to make sure of the newest one's number.
    """
    found, last = {}, -1
    unproven, outbox._unproven = outbox._unproven, -1
    while outbox.load(last + 1) == 0:
        payload = payload_of(outbox)
        if outbox.loaded_seq <= last:
            raise Violation("out of order: %d after %d" % (outbox.loaded_seq, last))
        last = outbox.loaded_seq
        if last >= outbox.oldest_seq and not (outbox.acked << 1) >> (last - outbox.oldest_seq) & 1:
            found[last] = payload
    outbox._unproven = unproven
    return found


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
    """One load on one geometry. cuts, second_cuts, most_duplicates: what happened.

    busy: of 16 steps that many append. warm_up: steps before the first cut, so that a large ring
    has gone round.
    """

    def __init__(self, geometry, load, seed, outbox_class=None):
        self.blocks, self.align, self.page_bytes = geometry
        self.load = load
        self.outbox_class = outbox_class or load.outbox_class
        random.seed(seed)
        self.cuts = self.second_cuts = self.most_duplicates = 0
        ram = flash_in_ram(self.blocks, self.page_bytes)
        self.flash = ForkingFlash(ram._file, self.blocks, self.page_bytes)
        self.model = load.model_class(load.first_seq)
        self.outbox = self._mounted(self.flash, format_it=True)

    def _mounted(self, flash, format_it=False):
        outbox = self.outbox_class(flash, align=self.align, page_bytes=self.page_bytes)
        status = outbox.format(STREAM, False, self.load.first_seq) if format_it else outbox.mount()
        if status != 0:
            raise Violation("mount: status %d" % status)
        return outbox

    def _payload(self, number):
        text = b"%d:%d:" % (number, random.getrandbits(24))
        return text + b"x" * (random.getrandbits(16) % 440)

    def step(self, model, outbox):
        """A message in, or one released; now and then what the load has besides."""
        dice = random.getrandbits(4)
        if dice < self.load.busy:
            model.append(outbox, self._payload(model.next_seq))
        elif random.getrandbits(4) == 0:
            model.save(outbox)
        elif self.load.notes and random.getrandbits(2) == 0:
            model.set_note(outbox)
        elif self.load.erases_ahead and random.getrandbits(1):
            outbox.erase_ahead()
        else:
            model.free(outbox)

    def run(self, steps, warm_up=0):
        for _ in range(warm_up):
            self.step(self.model, self.outbox)
        self.flash.on_fork = self._forked
        for _ in range(steps):
            self.step(self.model, self.outbox)
        return self

    def _forked(self, flash, mode):
        self.cuts += 1
        model = self.model.copy()
        if self.load.model_class is DropModel:
            model.at_cut(self.outbox)
        outbox = self._mounted(flash)
        self._count(model.check(outbox))
        if random.getrandbits(2):
            return
        flash.cut_at = flash.operations + 1 + random.getrandbits(3)
        flash.cut_mode = CUT_MODES[random.getrandbits(8) % 5]
        try:
            for _ in range(24):
                self.step(model, outbox)
        except PowerCut:
            self.second_cuts += 1
        flash.cut_at = 0
        if self.load.model_class is DropModel:
            model.at_cut(outbox)
        self._count(model.check(self._mounted(flash)))

    def _count(self, duplicates):
        self.most_duplicates = max(self.most_duplicates, duplicates)


class Load:
    def __init__(
        self,
        name,
        busy,
        outbox_class=Outbox,
        model_class=Model,
        notes=False,
        erases_ahead=False,
        first_seq=0,
    ):
        self.name, self.busy, self.outbox_class, self.model_class = (
            name,
            busy,
            outbox_class,
            model_class,
        )
        self.notes, self.erases_ahead, self.first_seq = notes, erases_ahead, first_seq


LOADS = (
    Load("steady", 8),
    Load("burst", 12),
    Load("full, refuse", 15),
    Load("full, drop oldest", 14, DropOldest, DropModel),
    Load("full, newest per topic", 13, NewestPerTopic, TopicModel),
    Load("idle acknowledgements", 4),
    Load("erase ahead", 8, erases_ahead=True),
    Load("notes, as QoS 2 keeps", 7, NotedOutbox, notes=True),
    Load("end of the numbers", 8, first_seq=LAST_SEQ - 12),
)
# blocks, align, page_bytes
GEOMETRIES = (
    (2, 4, 256),
    (3, 32, 32),
    (4, 4, 256),
    (4, 256, 256),
    (5, 8, 64),
    (16, 4, 256),
    (64, 4, 4096),
)


def hunt(steps, seed, outbox_class=None, loads=LOADS, geometries=GEOMETRIES):
    """Every load on every geometry: (cuts, second cuts, most duplicates). Raises Violation, with
    the way to repeat it.

    outbox_class: a mutant, for the loads that use the plain Outbox.
    """
    cuts = second = most = 0
    for geometry in geometries:
        for load in loads:
            if load.outbox_class is NewestPerTopic and geometry[0] < 16:
                continue
            if outbox_class and load.outbox_class is not Outbox:
                continue
            one = Hunt(geometry, load, seed, outbox_class)
            try:
                one.run(steps, 0 if load.first_seq else geometry[0] * 10 if geometry[0] > 5 else 0)
            except Violation as fault:
                where = "%s blocks=%d align=%d page=%d" % ((load.name,) + geometry)
                raise Violation("%s seed=%d cut %d: %s" % (where, seed, one.cuts, fault))
            cuts, second, most = (
                cuts + one.cuts,
                second + one.second_cuts,
                max(most, one.most_duplicates),
            )
    return cuts, second, most

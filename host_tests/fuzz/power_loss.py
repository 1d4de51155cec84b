"""Cuts the power in every program and erase of a load, in ways taken in turn from those of the cut
model (`virtual/chip.py`), and compares what is left with the promise (`outbox_invariants.py`).

The load runs undisturbed. At each flash operation the chip is copied, the operation is left half
done on the copy, and the copy is mounted and checked; if cells are unstable, it is mounted and
checked again. One copy in four is used further, cut a second time at a random operation and
checked, and half of these a third time. Some loads have a driver that raises, or blocks that fail.
"""

import random
import sys

from fake_flash import PowerCut
from outbox_invariants import (
    LAST_SEQ,
    DropPromise,
    Promise,
    Violation,
    contents,
    payload_of,
    require,
)
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from outpost.state_note import NotedOutbox
from virtual.chip import ERASE_WAYS, PROGRAM_WAYS, Chip, ChipRuleError

# the hunt is long, and portable.py is slow here: the same functions from zlib and slices
if sys.implementation.name == "cpython":
    from outbox_real import crc30, fill, is_blank, unload
    from outpost import checksum, memory, outbox, policies, portable
    from outpost.flash import make, mount, ring, settle

    _MODULES = (
        checksum, memory, outbox, make, mount, settle, policies, portable,
        ring,
    )  # fmt: skip
    for module in _MODULES:
        for function in (crc30, fill, is_blank, unload):
            # memory.unload() stays: modules that others import later use it.
            if hasattr(module, function.__name__) and (module, function) != (memory, unload):
                setattr(module, function.__name__, function)

STREAM = b"0badcafe"
WAYS_PER_OPERATION = 6
ANY_VIEW = 4  # unstable cells: each read differs
_PROGRAM_WAYS = sorted(PROGRAM_WAYS)
_ERASE_WAYS = sorted(ERASE_WAYS)


class Model(Promise):
    """What the user of an outbox that refuses does, and what was promised."""

    topics = (b"outpost/board-1/data",)

    def store(self, outbox, payload):
        return self.append(outbox, self.topics[0], payload)

    def free(self, outbox):
        """One of the oldest eight messages was sent, and is acknowledged."""
        window = sorted(self.held)[:8]
        if window:
            seq = window[random.getrandbits(8) % len(window)]
            if self.load(outbox, seq):
                self.discard(outbox, seq)

    def new_note(self, outbox):
        note = b"note %d" % random.getrandbits(20)
        self.set_note(outbox, note[: random.getrandbits(4)])


class DropModel(DropPromise):
    topics, store, free = Model.topics, Model.store, Model.free


class TopicModel(Model):
    """Newest per topic: numbers change, so a message is identified by its payload, and `held` is by
    topic, in the order of publishing.
    """

    topics = tuple([b"t/%d" % i for i in range(5)])

    def store(self, outbox, payload):
        topic = self.topics[random.getrandbits(8) % len(self.topics)]
        payload = topic + b" " + payload
        self.unsaved[payload] = topic  # if interrupted, it may be there as well
        status = outbox.append(topic, payload, len(payload))
        if status == 0:
            self.held[topic] = payload
            self.next_seq += 1
        return status

    def save(self, outbox):
        outbox.save_state()  # `unsaved` has all payloads for which append() was ever called

    def free(self, outbox):
        """The oldest message is acknowledged, so its topic may have nothing that must be kept."""
        if outbox.load(0) == 0:
            payload = payload_of(outbox)
            topic = payload.split(b" ")[0]
            outbox.discard(outbox.loaded_seq)
            if self.held.get(topic) == payload:
                del self.held[topic]

    def check(self, outbox, settled=True):
        """The newest message of each topic is there; all that is there was published; each topic's
        messages are in order.
        """
        last = {}
        for seq, payload in sorted(contents(outbox).items()):
            topic = payload.split(b" ")[0]
            require(payload in self.unsaved, "invented", "%d %s", seq, payload[:20])
            is_later = _order(payload) >= _order(last.get(topic, payload))
            require(is_later, "order", "%s after %s", payload[:20], last.get(topic, b"")[:20])
            last[topic] = payload
        for topic, payload in self.held.items():
            found = last.get(topic, b"nothing")
            kept = found == payload or _order(found) > _order(payload)
            require(kept, "kept", "%s lost, newest found %s", payload[:20], found[:20])
        if settled:
            self.held = last
        self.next_seq = max(self.next_seq, outbox.next_seq)
        return 0


def _order(payload):
    return int(payload.split(b" ")[1].split(b":")[0]) if b" " in payload else -1


class Hunt:
    """One load on one geometry. cuts: how many of each kind; second_cuts, third_cuts,
    most_duplicates: the results.

    busy: this many of 16 steps append. warm_up: steps before the first cut, so that a large ring
    has wrapped.
    """

    def __init__(self, geometry, load, seed, outbox_class=None):
        self.blocks, self.align, self.page_bytes = geometry
        self.load = load
        self.outbox_class = outbox_class or load.outbox_class
        random.seed(seed)
        self.cuts = {}
        self.second_cuts = self.third_cuts = self.errors = self.bad_blocks = 0
        self.most_duplicates = self._turn = self._number = 0
        self.chip = Chip(self.blocks, self.page_bytes)
        self.chip.view = ANY_VIEW
        self.model = load.model_class(load.first_seq)
        self.outbox = self._mounted(self.chip, format_it=True)

    def _mounted(self, chip, format_it=False):
        outbox = self.outbox_class(chip, align=self.align, page_bytes=self.page_bytes)
        status = outbox.format(STREAM, False, self.load.first_seq) if format_it else outbox.mount()
        require(status == 0, "mounts", "status %d", status)
        return outbox

    def _payload(self):
        self._number += 1
        text = b"%d:%d:" % (self._number, random.getrandbits(24))
        dice = random.getrandbits(3)
        filler = b"\xff" if dice == 0 else b"\0" if dice == 1 else b"x"
        return text + filler * (random.getrandbits(16) % 440)

    def step(self, model, outbox):
        """Store or release a message; sometimes do what the load has in addition."""
        dice = random.getrandbits(4)
        if dice < self.load.busy:
            model.store(outbox, self._payload())
        elif random.getrandbits(4) == 0:
            model.save(outbox)
        elif self.load.notes and random.getrandbits(2) == 0:
            model.new_note(outbox)
        elif self.load.erases_ahead and random.getrandbits(1):
            outbox.erase_ahead()
        else:
            model.free(outbox)

    def _step(self, chip, model, outbox):
        """Do a step, with the faults of this load."""
        if self.load.errors and random.getrandbits(3) == 0:
            chip.fail_call = 1 + random.getrandbits(8) % 6
            way = random.getrandbits(8) % (len(_ERASE_WAYS) + 2)
            chip.fail_way = (["before", "after"] + _ERASE_WAYS)[way]
            if chip.fail_way not in PROGRAM_WAYS and way > 1:
                chip.fail_way = "random"
        if self.load.bad_blocks and random.getrandbits(6) == 0:
            self._wear(chip)
        try:
            self.step(model, outbox)
        except OSError:
            raise Violation("raises", "OSError")
        self.errors += self.load.errors and not chip.fail_call
        chip.fail_call = 0

    def _wear(self, chip):
        bad = self.blocks - chip.bad.count(None)
        if bad < max(1, self.blocks // 8) and self.blocks > 3:
            block = random.getrandbits(16) % self.blocks
            if chip.bad[block] is None:
                chip.bad[block] = ("deaf", "refusing", "stuck")[random.getrandbits(8) % 3]
                self.bad_blocks += 1

    def run(self, steps, warm_up=0):
        for _ in range(warm_up):
            self.step(self.model, self.outbox)
        self.chip.on_operation = self._fork
        for _ in range(steps):
            self._step(self.chip, self.model, self.outbox)
        return self

    def _fork(self, is_erase, block, offset, data):
        ways = _ERASE_WAYS if is_erase else _PROGRAM_WAYS
        for _ in range(WAYS_PER_OPERATION):
            self._turn += 1
            way = ways[self._turn % len(ways)]
            twin = self.chip.copy()
            twin.random.seed(random.getrandbits(20))
            twin.cut(is_erase, block, offset, data, way)
            kind = ("erase: " if is_erase else "program: ") + way
            self.cuts[kind] = self.cuts.get(kind, 0) + 1
            self._forked(twin)

    def _forked(self, chip):
        model = self.model.copy()
        model.drop(self.outbox)
        outbox = self._check(chip, model)
        if random.getrandbits(2):
            return
        if self._go_on(chip, model, outbox):
            self.second_cuts += 1
            if random.getrandbits(1):
                self.third_cuts += self._go_on(chip, model, self._check(chip, model))
        self._check(chip, model)

    def _go_on(self, chip, model, outbox):
        """Use what the cut left, until the next cut. True when that came."""
        chip.cut_at = 1 + random.getrandbits(3)
        chip.cut_way = _ERASE_WAYS[random.getrandbits(8) % len(_ERASE_WAYS)]
        if chip.cut_way not in PROGRAM_WAYS:
            chip.cut_way = "random"
        try:
            for _ in range(24):
                self._step(chip, model, outbox)
        except PowerCut:
            model.drop(outbox)
            return True
        finally:
            chip.cut_at = chip.fail_call = 0
        return False

    def _check(self, chip, model):
        """Mount and compare; if cells are unstable, do it again before the outbox is used
        further."""
        settled = chip.is_settled()
        for _ in range(1 if settled else 2):
            outbox = self._mounted(chip)
            self.most_duplicates = max(self.most_duplicates, model.check(outbox, settled))
        return outbox


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
        errors=False,
        bad_blocks=False,
    ):
        self.name, self.busy, self.outbox_class, self.model_class = (
            name,
            busy,
            outbox_class,
            model_class,
        )
        self.notes, self.erases_ahead, self.first_seq = notes, erases_ahead, first_seq
        self.errors, self.bad_blocks = errors, bad_blocks


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
    Load("end of the numbers, tail right behind the head", 14, first_seq=LAST_SEQ - 40),
    Load("driver errors", 8, erases_ahead=True, errors=True),
    Load("bad blocks", 8, erases_ahead=True, bad_blocks=True),
    Load("bad blocks, full, drop oldest", 14, DropOldest, DropModel, bad_blocks=True),
    Load("bad blocks, notes", 7, NotedOutbox, notes=True, bad_blocks=True),
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
    """Runs every load on every geometry. Returns the sum of the results. Raises Violation, with the
    way to repeat it.

    outbox_class: a mutant, for the loads that use the plain Outbox.
    """
    total = Tally()
    for geometry in geometries:
        for load in loads:
            if load.outbox_class is NewestPerTopic and geometry[0] < 16:
                continue
            if outbox_class and load.outbox_class is not Outbox:
                continue
            one = Hunt(geometry, load, seed, outbox_class)
            try:
                one.run(steps, 0 if load.first_seq else geometry[0] * 10 if geometry[0] > 5 else 0)
            except (Violation, ChipRuleError) as fault:
                where = "%s blocks=%d align=%d page=%d" % ((load.name,) + geometry)
                name = getattr(fault, "name", "chip")
                raise Violation(name, "%s seed=%d: %s" % (where, seed, fault))
            total.add(one)
    return total


class Tally:
    """The results of hunts: cuts by kind, and the rest by name."""

    NAMES = ("second_cuts", "third_cuts", "errors", "bad_blocks")

    def __init__(self):
        self.kinds = {}
        self.second_cuts = self.third_cuts = self.errors = self.bad_blocks = 0
        self.most_duplicates = 0

    @property
    def cuts(self):
        return sum(self.kinds.values())

    def add(self, other):
        """Add another tally, or a hunt."""
        for kind, count in (other.kinds if isinstance(other, Tally) else other.cuts).items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count
        for name in self.NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.most_duplicates = max(self.most_duplicates, other.most_duplicates)

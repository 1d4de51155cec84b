"""Random histories of a whole store: ring, shelf and state note over many starts, with power cuts,
cells that are weak after them, and a block that fails in one of several ways.

Each history is a life of some hundred steps; starts are cut, too. After each start that is not,
everything that was promised must be there: in the ring, on the shelf, or in the note; nothing else
may be, no number is given twice, and what an emptied store is offered it takes. Must not know the
bytes in flash.
"""

import random

from fake_flash import PowerCut
from outbox_invariants import Promise, Violation, contents, payload_of, require
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from outpost.state_note import NotedOutbox
from power_loss import DropModel
from virtual.chip import ERASE_WAYS, PROGRAM_WAYS, VIEWS, Chip, ChipRuleError

STREAM = b"0badcafe"
TOPIC = b"outpost/board-1/data"
STARTS = 12
STEPS = 14  # of a start, at most
GEOMETRIES = ((3, 4, 256), (4, 4, 256), (5, 256, 256), (4, 32, 32), (8, 4, 256))
AILMENTS = ("deaf", "refusing", "stuck", "high")
# As in the proof: a torn program whose cells all read as erased twice, and otherwise later, cannot
# be told from an erased place by any reader.
_WEAK = ("unstable, half", "unstable, later", "unstable, some", "a weak cell")
_UNSTABLE = [way for way in ERASE_WAYS if way.startswith(("unstable", "a weak"))]
_STABLE = [way for way in PROGRAM_WAYS if not way.startswith(("unstable", "a weak"))]


class StorePromise(Promise):
    """aside: payload by number of what is set aside. maybe_aside: what may be there too, because
    its put() or release() was interrupted."""

    def __init__(self, next_seq=0):
        Promise.__init__(self, next_seq)
        self.aside, self.maybe_aside = {}, {}

    def put(self, outbox, seq):
        payload = self.held[seq]
        self.maybe_aside[seq] = payload
        status = outbox.shelf().put(seq)
        if status == 0:
            self.aside[seq] = self.maybe_aside.pop(seq)
        return status

    def release(self, outbox, index):
        shelf = outbox.shelf()
        if shelf.load(index):
            return
        seq = shelf.seq
        self.maybe_aside[seq] = payload_of(outbox)
        self.aside.pop(seq, None)
        if shelf.release(index) == 0:
            del self.maybe_aside[seq]

    def check_shelf(self, outbox):
        """What was set aside is on the shelf, or in the ring."""
        there = {}
        for index in range(outbox.aside):
            if outbox.shelf().load(index):
                continue  # it reads differently now
            there[outbox.shelf().seq] = payload_of(outbox)
        found = contents(outbox)
        for seq, payload in self.aside.items():
            is_there = there.get(seq) == payload or found.get(seq) == payload
            require(is_there, "kept", "%d aside is in neither", seq)
        for seq, payload in there.items():
            known = payload in (self.aside.get(seq), self.maybe_aside.get(seq))
            require(known, "invented", "%d on the shelf", seq)
        return there


class History:
    def __init__(self, seed, weak=True, bad=True):
        self.dice = dice = random.Random(seed)
        random.seed(seed)
        self.blocks, self.align, self.page = dice.choice(GEOMETRIES)
        self.kind = dice.choice((Outbox, Outbox, NotedOutbox, DropOldest))
        self.chip = Chip(self.blocks, self.page)
        self.chip.random.seed(seed)
        self.ways = [*_STABLE, *_WEAK * 3] if weak else _STABLE
        self.erase_ways = [way for way in ERASE_WAYS if weak or way not in _UNSTABLE]
        self.bad_at = dice.randrange(STARTS) if bad else -1
        self.promise = StorePromise()
        self.cuts = self.number = 0
        self.is_drop = self.kind is DropOldest
        self.outbox = self.kind(self.chip, 512, self.align, self.page)
        assert self.outbox.format(STREAM) == 0

    def run(self):
        for start in range(STARTS):
            if start == self.bad_at:
                self._wear()
            self.chip.cut_at = self.dice.choice((0, 1, 2, 3, 5, 8, 13, 21))
            self._live(self._steps)
            while self.dice.randrange(3) == 0:  # starts are cut as well
                self.chip.cut_at = self.dice.choice((1, 2, 3))
                self._live(self._begin)
            self.chip.cut_at = 0
            self._start()
        return self.cuts

    def _wear(self):
        block = self.dice.randrange(self.blocks)
        self.chip.bad[block] = self.dice.choice(AILMENTS)
        at = self.dice.choice((self.dice.randrange(32), self.dice.randrange(600)))
        self.chip.cell[block] = at, self.dice.randrange(8)

    def _live(self, act):
        operate = self.chip._operate

        ways = self.dice.choice(self.ways), self.dice.choice(self.erase_ways)

        def cut(is_erase, block, offset, data):
            self.chip.cut_way = ways[is_erase]
            operate(is_erase, block, offset, data)

        self.chip._operate = cut
        try:
            act()
        except PowerCut:
            self.cuts += 1
            if act == self._steps:  # a start drops nothing
                self._drop()
        del self.chip._operate

    def _steps(self):
        for _ in range(self.dice.randrange(STEPS)):
            self._step()

    def _begin(self):
        self.chip.view = self.dice.randrange(4)
        self.outbox = self.kind(self.chip, 512, self.align, self.page)
        try:
            require(self.outbox.mount() == 0, "mounts", "when its programs may be cut")
        finally:  # it may have skipped numbers
            self.promise.top_seq = max(self.promise.top_seq, self.outbox.next_seq)

    def _drop(self):
        if self.is_drop:
            DropModel.most = 10000
            for seq in [seq for seq in self.promise.held if seq < self.outbox.oldest_seq]:
                self.promise.unsaved[seq] = self.promise.held.pop(seq)

    def _step(self):  # noqa: C901 - one branch an act
        outbox, promise, dice = self.outbox, self.promise, self.dice
        act = dice.randrange(16)
        if act < 7:
            self.number += 1
            data = b"%d:%d:" % (self.number, dice.getrandbits(24)) + b"x" * dice.choice(
                (0, 9, 60, 60, 300, 440)
            )
            promise.trying(data, outbox.next_seq)
            status = outbox.append(TOPIC, data, len(data))
            self._drop()
            promise.tried(outbox, data, status)
        elif act < 10:
            window = sorted(promise.held)[:8]
            if window:
                seq = dice.choice(window)
                if promise.load(outbox, seq) and promise.discard(outbox, seq):
                    if seq in promise.aside:  # it went out: it need not be on the shelf as well
                        promise.maybe_aside[seq] = promise.aside.pop(seq)
        elif act == 10:
            promise.save(outbox)
            self._drop()
        elif act == 11:
            outbox.erase_ahead()
            self._drop()
        elif act == 12 and hasattr(outbox, "set_note"):
            promise.set_note(outbox, b"note %d" % dice.getrandbits(20))
        elif act < 14 and promise.held:
            seq = dice.choice(sorted(promise.held)[:8])
            if promise.load(outbox, seq) and promise.put(outbox, seq) == 0 and dice.randrange(4):
                promise.discard(outbox, seq)
        elif act == 14 and outbox.aside:
            promise.release(outbox, dice.randrange(outbox.aside))
        elif outbox.lent:
            outbox.shelf().tidy()

    def _start(self):
        """Start once, or several times without storing anything; each start finds the same."""
        for _ in range(self.dice.choice((1, 1, 2, 4))):
            self.chip.view = self.dice.randrange(len(VIEWS))
            if self.chip.view == 4:
                self.chip.view = self.dice.randrange(4)
            self.outbox = self.kind(self.chip, 512, self.align, self.page)
            status = self.outbox.mount()
            require(status == 0, "mounts", "status %d", status)
            settled = self.chip.is_settled()
            found = self.promise.check_shelf(self.outbox)
            self.promise.check(self.outbox, settled)
            if settled:  # what a cut put() left stays where it is, and may count later
                self.promise.aside = found
            for seq in sorted(self.promise.held):
                self.promise.load(self.outbox, seq, settled)


def run(seed, weak=True, bad=True):
    """Returns the number of cuts. Raises Violation."""
    try:
        return History(seed, weak, bad).run()
    except ChipRuleError as fault:
        raise Violation("chip", str(fault))

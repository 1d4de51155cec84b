#!/usr/bin/env python3
"""Runs the outbox's own code to a fixpoint at small geometries: every action from every state, and
every cut of every flash operation in every way of the model. Checks each outcome against the
invariants. `make prove`; see firmware/PROOF.md.

A scope is closed when every state has been expanded: what was checked then holds for histories of
any length at that geometry. One that is out of reach stops at its `most_states`: states are
expanded in the order of their depth, so what was checked holds for every history of so many actions
as the table says.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from outbox_actions import ACTIONS
from outbox_invariants import DropPromise, Promise, Violation, goes_on
from outbox_real import Real
from outbox_scopes import SCOPES, Scope
from outbox_states import Keys, Ram, TaggedChip, attempt_of, payload
from virtual.chip import ChipRuleError

STREAM = b"0badcafe"
BLANK = -10
# (how unstable cells read while mounting, and afterwards)
VIEWS = ((0, 0), (1, 1), (0, 1), (1, 0), (2, 2), (3, 0))
SETTLED = ((0, 0),)
TWINS = 16  # this many of 256 states are expanded from two of their forms


@dataclass
class Result:
    scope: Scope
    states: int = 0
    transitions: int = 0
    cuts: Counter = field(default_factory=Counter)
    mounts: int = 0
    errors: int = 0
    twins: int = 0
    seconds: float = 0.0
    closed: bool = False
    violations: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    waiting: int = 0
    depth: int = 0  # every history of so many actions was tried


class Explorer:
    """Explores one scope. `run()` expands states until none is left, or until a limit."""

    def __init__(self, scope: Scope, real: Real | None = None, most_violations: int = 1) -> None:
        self.scope = scope
        self.real = real or Real(scope.block_bytes)
        self.real.enter()
        self.result = Result(scope)
        self.most_violations = most_violations
        self.chip = TaggedChip(scope.blocks, 1, scope.block_bytes)
        self.chip.align = scope.align
        self.outbox = self._new_outbox()
        self.ram: Any = self._new_ram()
        self.keys = Keys(self.chip, self.ram, scope.folding)
        self.promise: Any = self._new_promise()
        self.parents: dict[bytes, tuple[bytes, str]] = {}
        self.waiting: deque[tuple[bytes, tuple]] = deque()
        self.twins: dict[bytes, dict[bytes, str] | None] = {}
        self.forms: dict[bytes, list[bytes]] = {}
        self.found: dict[bytes, str] | None = None  # what the present expansion reached, and how
        self.operations: list[tuple] = []
        self.pending: list[tuple[str, list]] = []  # operations of mounts, to be cut
        self.origin = b""
        self.seen_off: set[bytes] = set()
        self.seen_here: set[bytes] = set()  # as seen_off, in a state that is expanded twice

    def _new_outbox(self) -> Any:
        scope = self.scope
        module = "state_note" if scope.kind == "NotedOutbox" else "policies"
        if scope.kind == "Outbox":
            module = "outbox"
        kind = getattr(getattr(self.real, module), scope.kind)
        more = (1,) if scope.kind == "NewestPerTopic" else ()
        return kind(self.chip, scope.record_bytes, scope.align, scope.page_bytes, *more)

    def _new_ram(self) -> Ram:
        return Ram(self.outbox)

    def _new_promise(self) -> Any:
        kind = DropPromise if self.scope.kind == "DropOldest" else Promise
        promise = kind(self.scope.first_seq)
        promise.most = (self.scope.block_bytes - 32) // 20
        promise.extra = (0, 0)  # blocks worn, bits flipped
        promise.bits_flip = self.scope.flips > 0
        return promise

    # --- The search ---

    def run(self, most_states: int = 1 << 60, progress: Any = None) -> Result:
        start = time.process_time()
        self.origin = b""
        try:
            self._begin()
            layer = len(self.waiting)  # states of one depth that are left
            while self.waiting and self.result.states < most_states:
                key, state = self.waiting.popleft()
                self.result.states += 1
                self._expand(key, state)
                layer -= 1
                if not layer:
                    self.result.depth, layer = self.result.depth + 1, len(self.waiting)
                if progress and not self.result.states % 500:
                    progress(self.result, len(self.waiting))
                if len(self.result.violations) >= self.most_violations:
                    break
            self.result.closed = not self.waiting
        except Violation as fault:
            self._report(fault, "the start")
        self.result.seconds = time.process_time() - start
        self.result.waiting = len(self.waiting)
        return self.result

    def _begin(self) -> None:
        self.chip.on_operation = self._note_operation
        if self.scope.starts_blank:
            self._start_blank()
            return
        if self.promise.format(self.outbox, STREAM, False, self.scope.first_seq) != 0:
            raise Violation("mounts", "format() of a blank chip")
        self._restore_extra()
        self._reached("format")

    def _restore_extra(self) -> None:
        self.promise.extra = (0, 0)

    def _start_blank(self) -> None:
        """Do every cut of the first format(), and format() again after each."""
        self.operations = []
        before = self._state()
        self.promise.format(self.outbox, STREAM, False, self.scope.first_seq)
        self.promise.extra = (0, 0)
        self._reached("format")
        self._cut_all("format", self.operations, before[2])

    def _state(self) -> tuple:
        return self.chip.snapshot(), self.ram.snapshot(), self.promise.copy()

    def _restore(self, state: tuple) -> None:
        self.chip.restore(state[0])
        self.ram.restore(state[1])
        self.promise = state[2].copy()
        self.operations = []

    def _expand(self, key: bytes, state: tuple) -> None:
        self.origin = key
        sampled = key[0] < TWINS
        if sampled:
            self.found, self.seen_here = {}, set()
        for name, act in self._actions(state):
            self._try(name, act, state)
        if sampled:
            self.twins[key], self.found = self.found, None
            self.forms[key] = list(state[0][0])

    def _actions(self, state: tuple) -> list:
        self._restore(state)
        return [one for name in self.scope.actions for one in ACTIONS[name](self)] + self._world()

    def _try(self, name: str, act: Any, state: tuple) -> None:
        self._restore(state)
        self.result.transitions += 1
        try:
            act(self)
            operations = self.operations
            self._reached(name)
            self._cut_all(name, operations, None)
            if self.scope.errors and name != "off":
                self._fail_all(name, act, state)
        except Violation as fault:
            self._report(fault, name)
        except (ChipRuleError, ValueError) as fault:
            self._report(Violation("chip", str(fault)), name)
        except OSError:
            self._report(Violation("raises", "OSError"), name)

    def _reached(self, name: str) -> None:
        """Add the present state, reached by `name`: it is new, or folds into a known one."""
        self._forget_attempts()
        key = self.keys.on(self.promise)
        if self.found is not None:
            self.found.setdefault(key, name)
        if key in self.parents:
            if self.found is None and self.twins.get(key) and self.forms[key] != self.chip.data:
                self._compare(key, name)
            return
        self.parents[key] = self.origin, name
        state = self._state()
        self.waiting.append((key, state))
        if self.scope.checks_progress and self.chip.is_settled():
            operations, self.operations = self.operations, []
            goes_on(self.outbox, self.promise, self.payload(4))
            self._restore(state)
            self.operations = operations

    def _forget_attempts(self) -> None:
        """Forget attempts that left nothing in flash, because nothing can come of them."""
        there = {(piece.first, piece.payload[:1]) for block in self.chip.pieces for piece in block}
        maybe = self.promise.maybe
        for seq in list(maybe):
            maybe[seq] = tuple(data for data in maybe[seq] if (seq, data[:1]) in there)
            if not maybe[seq]:
                del maybe[seq]

    def _compare(self, key: bytes, name: str) -> None:
        """Expand this form of a folded state as well: it must reach the same states."""
        expected, self.twins[key] = self.twins[key], None
        state, operations, origin = self._state(), self.operations, self.origin
        pending, self.pending = self.pending, []
        self.found, self.seen_here = {}, set()
        self.origin = key
        for label, act in self._actions(state):
            self._try(label, act, state)
        found, self.found = self.found, None
        self.origin = origin
        self._restore(state)
        self.operations, self.pending = operations, pending
        self.result.twins += 1
        self.last = key, expected, found
        if set(found) != set(expected):
            first = [f"only the first: {expected[one]}" for one in expected if one not in found]
            second = [f"only the second: {found[one]}" for one in found if one not in expected]
            raise AssertionError(
                f"{self.scope.name}: a state was folded into one that differs:\n"
                + "\n".join([*first, *second, *self.path(key, "first form")])
                + "\n"
                + "\n".join(self.path(origin, f"second form: {name}"))
            )

    # --- What the world does ---

    def _note_operation(self, is_erase: bool, block: int, offset: int, data: bytes) -> None:
        promise = self.promise.copy()
        promise.drop(self.outbox)
        promise.top_seq = max(
            promise.top_seq, self.outbox.next_seq
        )  # a mount may have skipped some
        self.chip.number, self.chip.sample = self.outbox.next_seq, self._sample_under_way()
        cut = is_erase, block, offset, data
        note = self.chip.number, self.chip.sample
        self.operations.append((cut, self.chip.snapshot(), promise, note))

    def _sample_under_way(self) -> Any:
        """Returns what makes the piece of the program that begins, if that is a sample's."""
        return None

    def _world(self) -> list:
        """Returns what may happen at any moment: blocks fail, bits flip, unstable cells read
        differently."""
        worn, flipped = self.promise.extra
        found = self._wearing() if worn < self.scope.wear else []
        if not self.chip.is_settled():
            views = [view for view in (0, 1, 2) if view != self.chip.view]
            return found + [(f"cells read otherwise: {view}", _see(view)) for view in views]
        return found + (self._flipping() if flipped < self.scope.flips else [])

    def _wearing(self) -> list:
        return [
            (f"block {block} {ailment}", _wear(block, ailment))
            for block, bad in enumerate(self.chip.bad)
            for ailment in self.scope.ailments
            if bad is None
        ]

    def _flipping(self) -> list:
        return [
            (f"a bit of block {block}, {index}", _flip(block, index))
            for block, pieces in enumerate(self.chip.pieces)
            for index, piece in enumerate(pieces)
            if self.chip.data[block][piece.at : piece.at + len(piece.data)] == piece.data
        ]

    def _cut_all(self, name: str, operations: list, promise: Any) -> None:
        """Cut each of the operations, and then those of the mounts that follow, in each way."""
        self._cut_each(name, operations, promise)
        while self.pending:
            self._cut_each(*self.pending.pop(), None)

    def _cut_each(self, name: str, operations: list, promise: Any) -> None:
        for number, (cut, chip, then, note) in enumerate(operations):
            is_erase = cut[0]
            ways = self.scope.erase_ways if is_erase else self.scope.program_ways
            for way in ways:
                self.result.cuts[way] += 1
                self.chip.restore(chip)
                self.promise = (promise or then).copy()
                self.chip.random.seed(1)
                self.chip.number, self.chip.sample = note
                self.chip.cut(*cut, way)
                kind = "erase" if is_erase else "program"
                self.power_off(f"{name}, cut in {kind} {number}: {way}")

    def power_off(self, name: str) -> None:
        """Mount what is left, in each way in which unstable cells may read, and check it."""
        key = self.keys.off(self.promise)
        if self.found is None or self.scope.cuts_mounts:  # else both forms are mounted
            seen = self.seen_off if self.found is None else self.seen_here
            if key in seen:
                return
            seen.add(key)
        chip, promise = self.chip.snapshot(), self.promise
        for while_mounting, after in SETTLED if self.chip.is_settled() else VIEWS:
            self.chip.restore(chip)
            self.promise = promise.copy()
            self.result.mounts += 1
            self._mount(f"{name}, views {while_mounting} {after}", while_mounting, after)

    def _mount(self, name: str, while_mounting: int, after: int) -> None:
        self.chip.view = while_mounting
        self.operations = []
        try:
            status = self.outbox.mount()
            if status == BLANK and self.may_be_blank():
                self.promise.format(self.outbox, STREAM, False, self.scope.first_seq)
                self.promise.extra = (0, 0)
            elif status != 0:
                raise Violation("mounts", f"status {status}")
            operations, self.operations = self.operations, []
            self.chip.view = after
            ram = self.ram.snapshot()
            self.promise.check(self.outbox, self.chip.is_settled())
            self.ram.restore(ram)
            self._reached(name)
            if operations and self.scope.cuts_mounts:
                self.pending.append((f"{name}, mount", operations))
        except Violation as fault:
            self._report(fault, name)
        except OSError:
            self._report(Violation("raises", "OSError from mount()"), name)

    def may_be_blank(self) -> bool:
        return self.scope.starts_blank and not self.promise.next_seq

    def _fail_all(self, name: str, act: Any, state: tuple) -> None:
        """Repeat the action, once for each call to the driver that may raise, in three ways."""
        for way in ("before", "after", "random"):
            for call in range(1, 64):
                self._restore(state)
                self.chip.fail_call, self.chip.fail_way = call, way
                self.chip.random.seed(1)
                act(self)
                if self.chip.fail_call:
                    break
                self.result.errors += 1
                self._reached(f"{name}, call {call} raises {way}")

    # --- For the actions ---

    def format_again(self, stream: bytes) -> None:
        """Call format() with force. Until it is done, either stream may be there."""

    def payload(self, size: int, filler: int = -1) -> bytes:
        """Returns a payload for the next message that no attempt under its number has used."""
        seq = self.outbox.next_seq + len(self.open_record())
        return payload(seq, self.new_attempt(seq), size, filler)

    def new_attempt(self, seq: int) -> int:
        """Returns an attempt that none has used to store a message under the number."""
        used = {attempt_of(data) for data in self.promise.maybe.get(seq, ())}
        for pieces in self.chip.pieces:
            for piece in pieces:
                if piece.kind & 1 and piece.first == seq:
                    used.add(attempt_of(piece.payload))
        return next(number for number in range(99) if number not in used)

    def open_record(self) -> set[int]:
        """Returns the number of the series' record that takes samples."""
        return set()

    def path(self, key: bytes, name: str) -> tuple[str, ...]:
        """Returns the history of a state, followed by `name`."""
        path = [name]
        while key in self.parents:
            key, label = self.parents[key]
            path.append(label)
        return tuple(reversed(path))

    def _report(self, fault: Violation, name: str) -> None:
        self.result.violations.append((str(fault), self.path(self.origin, name)))


def _wear(block: int, ailment: str) -> Any:
    def act(explorer: Explorer) -> None:
        explorer.chip.bad[block] = ailment
        worn, flipped = explorer.promise.extra
        explorer.promise.extra = worn + 1, flipped

    return act


def _flip(block: int, index: int) -> Any:
    def act(explorer: Explorer) -> None:
        chip = explorer.chip
        piece = chip.pieces[block][index]
        at = piece.at + 5
        data = bytearray(chip.data[block])
        data[at] ^= 1
        chip.data[block] = bytes(data)
        worn, flipped = explorer.promise.extra
        explorer.promise.extra = worn, flipped + 1
        if piece.kind & 1 and explorer.promise.held.get(piece.first):
            del explorer.promise.held[piece.first]
            explorer.promise.maybe[piece.first] = (piece.payload,)

    return act


def _see(view: int) -> Any:
    def act(explorer: Explorer) -> None:
        explorer.chip.view = view

    return act


def explorer(scope: Scope, real: Real | None = None) -> Explorer:
    """Returns the explorer for a scope."""
    if not scope.is_series:
        return Explorer(scope, real)
    from prove_series import SeriesExplorer  # which inherits from Explorer

    return SeriesExplorer(scope, real)


def run(scope: Scope, most_states: int | None = None, quiet: bool = False) -> Result:
    start = time.time()

    def progress(result: Result, waiting: int) -> None:
        print(
            f"  {scope.name}: {result.states} states, {waiting} waiting, "
            f"{sum(result.cuts.values())} cuts, {time.time() - start:.0f} s",
            flush=True,
        )

    most = scope.most_states if most_states is None else most_states
    return explorer(scope).run(most, None if quiet else progress)


def table(results: list[Result]) -> str:
    rows = [
        "| scope | states | transitions | cuts | mounts | driver errors | twins | CPU s | closed |"
    ]
    rows.append("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for one in results:
        closed = "yes" if one.closed else f"{one.depth} actions; {one.waiting:,} waiting"
        rows.append(
            f"| {one.scope.name} | {one.states:,} | {one.transitions:,} | "
            f"{sum(one.cuts.values()):,} | {one.mounts:,} | {one.errors:,} | {one.twins} | "
            f"{one.seconds:.0f} | {closed} |"
        )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scope", action="append", help="only this one; may be repeated")
    parser.add_argument("--short", action="store_true", help="only what .ci/run runs")
    parser.add_argument("--states", type=int, help="stop a scope after so many (its own bound)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args()
    scopes = [
        scope
        for scope in SCOPES
        if (not args.scope or scope.name in args.scope) and (not args.short or scope.short)
    ]
    if args.processes == 1:
        results = [run(scope, args.states, args.quiet) for scope in scopes]
    else:
        with ProcessPoolExecutor(args.processes) as pool:
            waiting = [pool.submit(run, scope, args.states, args.quiet) for scope in scopes]
            results = [one.result() for one in waiting]
    print(table(results))
    for one in results:
        for fault, path in one.violations:
            print(f"\n{one.scope.name}: {fault}")
            print("".join(f"    {step}\n" for step in path), end="")
    return int(any(one.violations for one in results))


if __name__ == "__main__":
    sys.exit(main())

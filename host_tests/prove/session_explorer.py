"""Runs a scope to its fixpoint: every action from every state, with the power cut in each flash
operation of it, until no state is new.

A state's `way out` is what follows if no fault occurs from here on: the client sends, and the
server answers in order. When all states are known, each must come to rest, drained, by its ways
out, so no state is a trap. From each state at rest, more messages than the window is wide are sent
with an orderly server, and each must arrive as if there had been no history.
"""

from __future__ import annotations

import hashlib
import marshal
import time
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from session_collector import CollectorWorld
from session_facts import Violation, require
from session_scopes import Scope
from session_world import Disabled, PowerCut, World

NOWHERE = -1
WAY_OUT = ("connect", "step", "message", "ack", "tick", "collect", "wait")
AFTERWARDS = ((2,), (1,), (1, 2))  # the QoS of those messages, in turn
MESSAGES_AFTERWARDS = 20  # the session keeps bits by seq & 15


@dataclass
class Result:
    scope: Scope
    states: int = 0
    transitions: int = 0
    cuts: int = 0
    waiting: int = 0
    at_rest: int = 0
    seconds: float = 0.0
    violation: str = ""
    trace: list[tuple] = field(default_factory=list)

    @property
    def closed(self) -> bool:
        return not self.waiting and not self.violation


def world_of(scope: Scope, classes: dict[str, Any]) -> World:
    kind = CollectorWorld if scope.session == "DurableSession" else World
    return kind(scope, classes)


def digest(key: tuple) -> bytes:
    """Version 2 of marshal has no references, so equal keys give equal bytes."""
    return hashlib.blake2b(marshal.dumps(key, 2), digest_size=12).digest()


def go_on(world: World, kinds: list[int]) -> None:
    """Publish messages of these QoS, without faults, until all is drained."""
    kinds = kinds[::-1]
    for _ in range(3000):
        outbox = world.outbox
        while kinds and outbox.next_seq - outbox.oldest_seq < world.scope.window:
            world.perform(("publish", kinds.pop()))
        if not one_step_out(world):
            break
    require(not kinds and world.is_drained(), "it does not drain any more")


def one_step_out(world: World) -> bool:
    """Take one step of the way out. False: nothing is left to do."""
    before, possible = world.key(), world.actions()
    for name in ("drop",) if world.server.up_is_dead else WAY_OUT:
        for action in possible:
            if action[0] == name:
                try:
                    world.perform(action)
                except Disabled:
                    continue
                if world.key() != before:
                    return True
    return False


class Explorer:
    def __init__(self, scope: Scope, classes: dict[str, Any]) -> None:
        self.world = world_of(scope, classes)
        self.result = Result(scope)
        self.number: dict[bytes, int] = {}  # of a state, by its key
        self.booted: dict[bytes, int] = {}  # of the state after a power cut, by what it left
        self.parents = array("l")
        self.by: list[tuple] = []  # the action that led to it first
        self.out = array("l")  # where its way out leads
        self.waiting: deque[tuple[int, tuple]] = deque()
        self.is_drained = bytearray()
        self.rests: set[bytes] = set()
        self.at, self.doing = 0, ()  # the state and the action that are examined now

    def run(self, most_states: int, time_limit_s: float) -> Result:
        result, began = self.result, time.monotonic()
        self._reached(NOWHERE, ())
        try:
            while self.waiting and len(self.by) < most_states:
                if time.monotonic() - began > time_limit_s:
                    break
                number, saved = self.waiting.popleft()
                self._expand(number, saved)
            result.waiting = len(self.waiting)
            if result.closed:
                self._all_come_to_rest()
        except Violation as violation:
            result.violation = str(violation)
            result.trace = [*self.trace_to(self.at), self.doing]
        result.states = len(self.by)
        result.seconds = time.monotonic() - began
        return result

    def _expand(self, number: int, saved: tuple) -> None:
        world, outs = self.world, {}
        world.restore(saved)
        self.at, is_dead = number, world.server.up_is_dead
        for action in world.actions():
            world.restore(saved)
            reached, operations = self._perform(number, action)
            if reached not in (NOWHERE, number):
                outs.setdefault(action[0], reached)
            for at in range(1, operations + 1):
                for mode in world.modes:
                    world.restore(saved)
                    self._perform(number, action, at, mode)
        for name in ("drop",) if is_dead else WAY_OUT:
            if name in outs:
                self.out[number] = outs[name]
                return
        self._try_afterwards(saved)

    def _try_afterwards(self, saved: tuple) -> None:
        """Publish from a state at rest. Only the client and its flash matter, not how they got
        there."""
        world = self.world
        world.restore(saved)
        name = digest(world.key_of_board())
        if name in self.rests:
            return
        self.rests.add(name)
        self.result.at_rest += 1
        for kinds in AFTERWARDS:
            if not set(kinds) <= set(world.scope.qos):
                continue
            self.doing = "afterwards", kinds
            world.restore(saved)
            world.store.arm(0, "")
            go_on(world, [kinds[n % len(kinds)] for n in range(MESSAGES_AFTERWARDS)])

    def _all_come_to_rest(self) -> None:
        state = bytearray(len(self.by))  # 1: on the present way, 2: it comes to rest
        for start in range(len(state)):
            way, number = [], start
            while number != NOWHERE and not state[number]:
                state[number] = 1
                way.append(number)
                number = self.out[number]
            last = way[-1] if way else start
            self.at, self.doing = last, ("and so on",)
            require(number == NOWHERE or state[number] == 2, "it goes round and round")
            if number == NOWHERE and way:
                require(self.is_drained[last], "it is at rest, and not drained")
            for passed in way:
                state[passed] = 2

    def _perform(self, number: int, action: tuple, at: int = 0, mode: str = "") -> tuple[int, int]:
        """Returns (the state that it leads to, its flash operations)."""
        world, result = self.world, self.result
        label = (*action, at, mode) if at else action
        self.doing = label
        world.store.arm(at, mode)
        try:
            world.perform(action)
            require(not at or mode == "refuse", "operation %d did not come again", at)
        except Disabled:
            return NOWHERE, 0
        except PowerCut:
            result.cuts += 1
            result.transitions += 1
            return self._rebooted(number, label), 0
        result.transitions += 1
        return self._reached(number, label), world.store.operations

    def _rebooted(self, parent: int, label: tuple) -> int:
        """Return the state after a reboot. It depends only on the flash and the server, so few are
        started."""
        self.world.lose_power()
        name = digest(self.world.key_without_power())
        number = self.booted.get(name)
        if number is None:
            self.world.power_on()
            number = self.booted[name] = self._reached(parent, label)
        return number

    def _reached(self, parent: int, label: tuple) -> int:
        name = digest(self.world.key())
        number = self.number.get(name)
        if number is None:
            number = self.number[name] = len(self.by)
            self.parents.append(parent)
            self.by.append(label)
            self.out.append(NOWHERE)
            self.is_drained.append(self.world.is_drained())
            self.waiting.append((number, self.world.save()))
        return number

    def trace_to(self, number: int) -> list[tuple]:
        found = []
        while number > 0:
            found.append(self.by[number])
            number = self.parents[number]
        return found[::-1]

"""Collector mode: the board, a broker that queues, and a collector that confirms.

The broker acknowledges a message when it has it, and may lose what it has queued. The collector
takes messages in the broker's order, and publishes as a retained message the number up to which all
are durable. The board releases a message only when it is durable there. Actions in addition to
those of `session_world.py`: ("collect",) the collector takes a message and confirms | ("wait",)
more time passes than any deadline of the session.
"""

from __future__ import annotations

from typing import Any

from session_facts import ACKED, OLD, PUBACK, SENT, require
from session_outbox import STREAM
from session_server import Server
from session_world import FOREVER_MS, World

SUBSCRIBE, SUBACK, CONFIRMATION = 0x82, 0x90, 0x31
TOPIC = b"w"


class Broker(Server):
    """queued: for the collector, in order; retained: the confirmation that the broker keeps; -1:
    none. durable: what the collector has, in addition to all before `through`."""

    def __init__(self, level: int, clean: bool, hands_on_at_release: bool) -> None:
        Server.__init__(self, level, clean, hands_on_at_release)
        self.queued: tuple[int, ...] = ()
        self.retained = -1
        self.through = -1
        self.durable: frozenset[int] = frozenset()
        self.is_subscribed = False

    def cut_off(self) -> None:
        Server.cut_off(self)
        self.is_subscribed = False

    def forget(self, known_ids: frozenset[int]) -> None:
        Server.forget(self, known_ids)
        self.queued, self.retained = (), -1

    def _take(self, first: int, body: bytes) -> None:
        if first != SUBSCRIBE:
            Server._take(self, first, body)
            return
        require(body[2:] == b"\0\1w\0", "SUBSCRIBE %r", body)
        self.is_subscribed = True
        self.messages += ((SUBACK, body[0] << 8 | body[1]),)
        self._confirm()

    def _published(self, seq: int, packet_id: int) -> None:
        self._set(seq, self.ghosts[seq] | ACKED)
        if seq not in self.queued:
            self.queued += (seq,)
        self._answer(PUBACK, packet_id)

    def collect(self) -> None:
        seq, self.queued = self.queued[0], self.queued[1:]
        self.durable |= {seq}
        while self.through + 1 in self.durable:
            self.through += 1
        self.durable = frozenset(seq for seq in self.durable if seq > self.through)
        self.retained = self.through
        self._confirm()

    def _confirm(self) -> None:
        """A later confirmation replaces one that still waits in the broker."""
        if self.is_subscribed and self.retained >= 0:
            rest = tuple(one for one in self.messages if one[0] != CONFIRMATION)
            self.messages = (*rest, (CONFIRMATION, self.retained))


class CollectorWorld(World):
    def __init__(self, scope: Any, classes: dict[str, Any]) -> None:
        World.__init__(self, scope, classes)
        self.server.through = scope.first_seq - 1

    def make_server(self) -> Server:
        return Broker(self.scope.level, self.scope.clean, False)

    def save(self) -> tuple:
        session = self.session
        return *World.save(self), [entry[2] for entry in session.filters], len(session._requested)

    def restore(self, saved: tuple) -> None:
        World.restore(self, saved[:-2])
        codes, requested = saved[-2:]
        self.session.filters = [[TOPIC, 0, code] for code in codes]
        self.session._requested = self.session.filters[:requested]

    def key_of_board(self) -> tuple:
        session = self.session
        filters = [entry[2] for entry in session.filters], len(session._requested)
        return *World.key_of_board(self), filters

    def key_without_power(self) -> tuple:
        return *World.key_without_power(self), self._key_of_broker()

    def key(self) -> tuple:
        return *World.key(self), self._key_of_broker()

    def _key_of_broker(self) -> tuple:
        server, origin = self.server, self.store.durable_oldest()

        def near(seq: int) -> int:
            return max(seq - origin, -1)

        queued = tuple(dict.fromkeys(near(seq) for seq in server.queued))
        durable = tuple(sorted(map(near, server.durable)))
        retained = near(server.retained) if server.retained >= 0 else -2
        return queued, durable, retained, near(server.through), server.is_subscribed

    def key_of_message(self, first: int, number: int, origin: int) -> tuple:
        if first == SUBACK:
            return first, (number - origin) % 65_535
        return (first, max(number - origin, -1)) if first == CONFIRMATION else (first, number)

    def is_drained(self) -> bool:
        return World.is_drained(self) and not self.server.queued

    def actions(self) -> list[tuple]:
        found = World.actions(self)
        if self.server.queued:
            found.append(("collect",))
        if self.server.link:
            found.append(("wait",))
        return found

    def may_free(self, seq: int, ghost: int) -> None:
        require(seq <= self.server.through, "message %d freed, which is not durable", seq)

    def packet_of(self, first: int, number: int) -> bytes:
        if first == SUBACK:
            return bytes((SUBACK, 3, number >> 8, number & 255, 0))
        if first == CONFIRMATION:
            text = STREAM + b" %d" % number
            return bytes((CONFIRMATION, 3 + len(text), 0, 1)) + TOPIC + text
        return World.packet_of(self, first, number)

    def _do_ack(self, place: int) -> None:
        """A message sent again after its acknowledgement is a new exchange."""
        seq = self.server.message_of(self.server.acks[place][1])
        World._do_ack(self, place)
        ghosts = self.server.ghosts
        if seq in ghosts:
            self.server.ghosts = {**ghosts, seq: ghosts[seq] & ~(SENT | OLD)}

    def _do_collect(self) -> None:
        self.server.collect()

    def _do_wait(self) -> None:
        self.now_ms += FOREVER_MS
        self.session.now_ms = self.now_ms
        self._do_tick()

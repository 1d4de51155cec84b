"""A board and a server, driven by actions: the firmware's own session over an outbox, and the
server of `session_server.py`. States are saved, restored, and made canonical here.

Canonical: numbers count from the oldest message that a power cut could bring back, the bits that
the session keys by seq & 15 are rotated accordingly, clocks are times since, and what the next
packet overwrites is left out. So histories of any length fold together.

Actions, as tuples: ("publish", QoS) | ("connect",) | ("step",) the session sends what is due |
("tick",) the same once 16 ms have passed | ("lose",) a step whose packet is lost, as all later ones
of this connection | ("ack", n) the client takes one of the server's acknowledgements | ("again", n)
and it will come once more | ("message",) it takes what comes in order | ("send", QoS) the server
has a message | ("drop",) | ("forget",) the server loses its session | ("save",) an idle board saves
| ("close",) so does one that is about to sleep | ("cut",) the power goes between two of these; (at,
mode) after any of them: in its flash operation number `at`.
"""

from __future__ import annotations

from typing import Any

from fake_flash import PowerCut
from session_facts import HELD, LOST, OLD, RECEIVED, SENT, TWO, Violation, may_free, noted, require
from session_outbox import ChipStore, FastStore
from session_scopes import Scope
from session_server import ACCEPTED, CONNACK, NONE, OPENED, Server

CLOSED, CONNECTED = 0, 2
TOO_MANY, STORAGE = -24, -5
NETWORK_LOST = 104  # not the peer's doing: no message is suspected
TOPIC = b"t"
TICKS = 0x3FFFFFFF
FOREVER_MS = 1500  # every deadline of a scope is shorter, or is a lost connection anyway

# Of a session: constants, counters, what the next packet overwrites, and what follows from the rest
_IGNORED = frozenset(
    "outbox window connect_packet keep_alive_s response_ms rx_bytes timeout_ms tx out buffer "
    "_append _release _topic _retain on_message on_acknowledged on_piece in_flight _answers _note "
    "sent redelivered acknowledged ignored skipped connects longest_outage_ms received "
    "handler_errors refused unnoted confirmations replays return_code session_present first length "
    "have topic_length payload_at payload_length out_at check_ms is_tick now_ms _rested_seq "
    "_request_id topic".split()
)
# How a field (@) is made canonical; o: the oldest message that may come back
_RAW = "@"
_NUMBER = "(@ - o if @ > o else 0)"
_BITS = "((@ >> (o & 15) | @ << 16 - (o & 15)) & 0xFFFF)"
_ANSWER = "(-1 - ((@ & 0xFFFF) - o) % 65535 if @ >> 16 in (0x62, 0x6A) else @)"
_TIME = f"(min(now - @ & T, {FOREVER_MS}) if @ >= 0 else -1)"
_KINDS = {
    **dict.fromkeys(("base", "next_send", "high", "_exchanged", "maybe_sent"), _NUMBER),
    **dict.fromkeys(("_ended_seq", "_replay_end"), _NUMBER),
    **dict.fromkeys(("_two", "_released", "_due"), _BITS),
    **{"_answer": _ANSWER, "through": "max(@ + 1 - o, 0)"},
    **{
        "_acked_before": "(f['acknowledged'] != @)",
        "_hold_ms": _RAW,
        "_bits_base": "min(f['base'] - @, 16)",
    },
}
_SET_BY_OPEN = frozenset("next_send _answer _due _awaited_ms _is_request_due".split())


class Disabled(Exception):
    """The action is impossible here, or changes nothing."""


class World:
    """classes: the firmware's, by name (see session_firmware.py)."""

    def __init__(self, scope: Scope, classes: dict[str, Any]) -> None:
        self.scope = scope
        self.kind = classes[scope.session]
        self.has_note = scope.session == "ExactlyOnceSession"
        store = ChipStore if scope.chip else FastStore
        self.store = store(scope.first_seq, self.has_note)
        self.outbox = self.store.outbox
        self.server = self.make_server()
        self.session = self.kind.__new__(self.kind)
        self.modes = (*self.store.MODES, "refuse") if scope.fails else self.store.MODES
        self.now_ms = 0
        self.cuts = 0  # counted only if the scope bounds them
        self._start()
        self._key_of_session = self._key_maker()

    def make_server(self) -> Server:
        return Server(self.scope.level, self.scope.clean, self.scope.at_release)

    def _start(self) -> None:
        """Power on."""
        session, scope = self.session, self.scope
        session.__dict__ = {}
        session.__init__(self.outbox, b"d", **scope.options())
        session.now_ms = self.now_ms
        if hasattr(session, "on_message"):
            session.on_message = self._on_message
        session.on_acknowledged = self._on_acknowledged

    # --- States ---

    def save(self) -> tuple:
        session = self.session.__dict__
        note = bytes(session["_note"][: session["_note_end"]]) if self.has_note else b""
        server = self.server.__dict__.copy()
        return session.copy(), note, self.store.save(), server, (self.now_ms, self.cuts)

    def restore(self, saved: tuple) -> None:
        session, note, store, server, (self.now_ms, self.cuts) = saved
        self.session.__dict__ = session.copy()
        if note:
            session["_note"][: len(note)] = note
        self.store.restore(store)
        self.server.__dict__ = server.copy()

    def _key_maker(self) -> Any:
        """Returns a function of (fields of the session, origin, now) that returns their canonical
        values. It is compiled, because most of the time is spent here."""
        found = []
        for name, value in sorted(self.session.__dict__.items()):
            if name in _IGNORED or not isinstance(value, (int, bytes, type(None))):
                continue
            kind = _KINDS.get(name, _TIME if name.endswith("_ms") else _RAW)
            text = kind.replace("@", f"f[{name!r}]")
            found.append(text if self.scope.exact else self._folded(name, text))
        if self.has_note:
            found.append("bytes(f['_note'][6 : f['_note_end']])")
        return eval(f"lambda f, o, now: ({', '.join(found)},)", {"T": TICKS})

    def _folded(self, name: str, text: str) -> str:
        """Omit what is set before it is read."""
        if name in _SET_BY_OPEN:
            return f"(0 if not f['state'] else {text})"
        if name == "_shift":
            return f"(0 if f['is_between'] else {text})"
        if name in ("owes", "_tick_ms") and not self.scope.fine:
            return "0"
        if name == "_bits_base":
            return f"({text} if f['_two'] or f['_released'] or f['_due'] else 0)"
        return text

    def key(self) -> tuple:
        return *self.key_of_board(), self._key_of_server(self.store.durable_oldest()), self.cuts

    def key_of_board(self) -> tuple:
        origin = self.store.durable_oldest()
        its = self._key_of_session(self.session.__dict__, origin, self.now_ms)
        return its, self.store.key(origin, self.scope.exact)

    def _key_of_server(self, origin: int) -> tuple:
        server, id_0 = self.server, origin % 65535
        received = tuple(sorted([(key - id_0) % 65535 for key in server.received]))
        acks = tuple([(kind, (packet_id - id_0) % 65535) for kind, packet_id in server.acks])
        ghosts = tuple(sorted([(seq - origin, ghost) for seq, ghost in server.ghosts.items()]))
        flags = (
            server.link,
            server.up_is_dead,
            server.has_session,
            *map(sorted, (server.stale, server.doubtful)),
        )
        messages = [self.key_of_message(*one, origin) for one in server.messages]
        return received, tuple(map(tuple, server.inbound)), acks, messages, ghosts, flags

    def key_of_message(self, first: int, number: int, origin: int) -> tuple:
        return first, number

    def is_drained(self) -> bool:
        server, outbox = self.server, self.outbox
        is_quiet = not (server.inbound or server.acks or server.messages)
        return is_quiet and outbox.oldest_seq == outbox.next_seq

    def known_ids(self) -> frozenset[int]:
        """Returns the identifiers that arrived, according to the session or its note in flash."""
        return self.noted_ids() | self.arrived_ids()

    def arrived_ids(self) -> frozenset[int]:
        if not self.has_note:
            return frozenset()
        fields = self.session.__dict__
        return frozenset(fields["_note"][7 : fields["_note_end"] : 2])

    def noted_ids(self) -> frozenset[int]:
        return frozenset(self.store.durable_note()[7::2])

    # --- What the server asks of the flash ---

    def is_released(self, seq: int) -> bool:
        note = self.store.durable_note()
        base, bits = int.from_bytes(note[:4], "big"), int.from_bytes(note[4:6], "big")
        return base <= seq < base + 16 and bits >> (seq & 15) & 1 > 0

    def has_arrived(self, packet_id: int) -> bool:
        return packet_id in self.noted_ids()

    # --- What the session calls ---

    def _on_message(self, session: Any) -> None:
        self.server.handed(session.buffer[session.payload_at])

    def _on_acknowledged(self, seq: int) -> None:
        require(seq in self.server.ghosts, "message %d reported, which is not held", seq)

    # --- Actions ---

    def actions(self) -> list[tuple]:
        scope, server, outbox = self.scope, self.server, self.outbox
        found: list[tuple] = []
        at_end = scope.total is not None and outbox.next_seq - scope.first_seq >= scope.total
        if outbox.next_seq - outbox.oldest_seq < scope.held and not at_end:
            found += [("publish", qos) for qos in scope.qos]
        if server.link == NONE:
            found.append(("connect",))
            if server.has_session and scope.forgets:
                found.append(("forget",))
        else:
            found += self._actions_of_link()
        if outbox.unsaved():
            found.append(("save",))
        if outbox.acked:
            found.append(("close",))
        if scope.cuts is None or self.cuts < scope.cuts:
            found.append(("cut",))
        return found

    def _actions_of_link(self) -> list[tuple]:
        scope, server = self.scope, self.server
        found: list[tuple] = [("tick",)]
        if scope.fine and not self.session.owes:
            found.append(("step",))
        if not server.up_is_dead:
            found.append(("lose",))
        if server.messages:
            found.append(("message",))
        if server.link == ACCEPTED and not (server.messages and server.messages[0][0] == CONNACK):
            places = range(len(server.acks) if scope.reorders else min(1, len(server.acks)))
            found += [("ack", place) for place in places]
            if scope.repeats:
                found += [("again", place) for place in places]
            if len(server.inbound) < scope.inbound:
                found += [("send", qos) for qos in scope.inbound_qos]
        found.append(("drop",))
        return found

    def perform(self, action: tuple) -> None:
        """Raises Disabled, Violation, PowerCut."""
        getattr(self, "_do_" + action[0])(*action[1:])
        self._settle_facts()

    def _note_facts(self) -> None:
        """Update the facts of messages that are held, and drop those of others."""
        outbox, ghosts = self.outbox, self.server.ghosts
        done, changed = outbox.acked << 1, {}
        note = self.store.durable_note()
        base, bits = int.from_bytes(note[:4], "big"), int.from_bytes(note[4:6], "big")
        for seq, ghost in ghosts.items():
            place = seq - outbox.oldest_seq
            if place < 0 or done >> place & 1:
                self.may_free(seq, ghost)
            elif ghost & TWO:
                now = noted(seq, ghost, base <= seq < base + 16 and bits >> (seq & 15) & 1 > 0)
                if now != ghost:
                    changed[seq] = now
        if changed:
            self.server.ghosts = {**ghosts, **changed}

    def may_free(self, seq: int, ghost: int) -> None:
        may_free(seq, ghost)

    def _settle_facts(self) -> None:
        """Check what must hold after anything the client did."""
        server = self.server
        self._note_facts()
        session = self.session
        width = session.next_send - session.base
        require(0 <= width <= self.scope.window, "%d messages in flight", width)
        ids = self.known_ids(), self.noted_ids()
        server.prune(self.store.durable_oldest(), session.base, session.next_send, *ids)

    def _do_publish(self, qos: int) -> None:
        seq = self.outbox.next_seq
        status = self.session.publish(TOPIC, seq.to_bytes(4, "big"), qos)
        if status:
            raise Disabled
        self._stored(seq, qos)

    def _stored(self, seq: int, qos: int) -> None:
        self.server.ghosts = {**self.server.ghosts, seq: HELD | (TWO if qos == 2 else 0)}

    def _do_connect(self) -> None:
        self.session.open()
        self.server.link = OPENED
        if not self.scope.fine:
            self._do_tick()

    def _do_step(self) -> int:
        """Returns the number of bytes sent."""
        session = self.session
        count = session.next_packet()
        if not count:
            return 0
        # first what it wrote to flash, because that precedes the write to the stream
        self._note_facts()
        data = bytes(session.out[session.out_at : session.out_at + count])
        session.out_end = 0
        self.server.takes(data, self)
        return count

    def _do_tick(self) -> None:
        self.session.owes = True
        self._do_step()

    def _do_lose(self) -> None:
        self.server.up_is_dead = True
        if not self.scope.fine:
            self.session.owes = True
        if not self._do_step():
            raise Disabled
        if not self.scope.fine:
            self._do_drop()

    def _receive(self, data: bytes) -> None:
        session = self.session
        taken = session.receive(data, 0, len(data))
        if taken == 0:
            raise Disabled  # an answer must go out first
        if taken < 0:
            allowed = (TOO_MANY, STORAGE)[: 2 if self.scope.fails else 1]
            require(taken in allowed, "%s closes with %d", data.hex(), taken)
            self._do_drop()
            self.server.excuse(self.arrived_ids())
        require(taken < 0 or taken == len(data), "%d of %s taken", taken, data.hex())

    def _do_ack(self, place: int) -> None:
        server = self.server
        kind, packet_id = server.acks[place]
        seq = server.message_of(packet_id)
        self._receive(bytes((kind, 2, packet_id >> 8, packet_id & 255)))
        if server.link and (kind, packet_id) in server.acks:
            server.acks = tuple([ack for ack in server.acks if ack != (kind, packet_id)])
        if kind == 0x50:
            server.ghosts = {**server.ghosts, seq: server.ghosts[seq] | RECEIVED}

    def _do_again(self, place: int) -> None:
        acks = self.server.acks
        self._do_ack(place)
        if self.server.link:
            self.server.acks = acks

    def _do_message(self) -> None:
        server = self.server
        first, packet_id = server.messages[0]
        rest = server.messages[1:]
        if first == CONNACK and (self.scope.clean or (self.scope.level == 4 and not packet_id)):
            server.told_of_loss()
        self._receive(self.packet_of(first, packet_id))
        if server.link:
            server.messages = rest

    def packet_of(self, first: int, number: int) -> bytes:
        """Returns a packet from the server. number: the flags of CONNACK, else the packet
        identifier."""
        if first == CONNACK:
            return bytes((CONNACK, 2, number, 0))
        if first & 0xF0 == 0x30:
            return bytes((first, 6, 0, 1, 0x63, 0, number, number))
        return bytes((first, 2, 0, number))

    def _do_send(self, qos: int) -> None:
        self.server.send(qos)

    def _do_drop(self) -> None:
        self.session.lost(NETWORK_LOST)
        self.server.cut_off()

    def _do_forget(self) -> None:
        self.server.forget(self.known_ids())

    def _do_save(self) -> None:
        if self.outbox.save_state():
            raise Disabled

    def _do_close(self) -> None:
        """As client.close() does before a deep sleep."""
        if self.server.link:
            self._do_drop()
        self._do_save()

    def _do_cut(self) -> None:
        raise PowerCut

    def lose_power(self) -> None:
        """After a PowerCut: only the flash and the server remain."""
        store, outbox, server = self.store, self.outbox, self.server
        store.boot()
        for seq in range(outbox.oldest_seq, outbox.next_seq):
            if seq not in server.ghosts:  # the cut was in its publish(), and the record is whole
                self._stored(seq, store.kind_of(seq) >> 4)
        server.ghosts = {seq: self._recalled(seq, ghost) for seq, ghost in server.ghosts.items()}
        server.power_lost(self.noted_ids())
        self.cuts += self.scope.cuts is not None

    def key_without_power(self) -> tuple:
        origin = self.store.durable_oldest()
        return self.store.key(origin, self.scope.exact), self._key_of_server(origin), self.cuts

    def power_on(self) -> None:
        self._start()
        self._settle_facts()

    def _recalled(self, seq: int, ghost: int) -> int:
        """A PUBREC without a note is forgotten; so is the knowledge that the server lost its
        session."""
        if not self.is_released(seq):
            ghost &= ~RECEIVED
        elif ghost & LOST:
            ghost |= RECEIVED
        return ghost if ghost & SENT else ghost | OLD


__all__ = ["CLOSED", "CONNECTED", "Disabled", "PowerCut", "Violation", "World"]

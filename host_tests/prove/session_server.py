"""A server that follows the standard: each choice that the standard leaves is an action of the
explorer.

It takes a packet of the client or never sees it (`up_is_dead`: nothing more of this connection
arrives), answers in any order, answers twice, sends its own messages, and keeps its session after a
lost connection or loses it. All fields are immutable values, so a copy of __dict__ is a snapshot.
"""

from __future__ import annotations

from typing import Any

from session_facts import (
    ACKED,
    IDS,
    LOST,
    NOTED,
    OLD,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    RECEIVED,
    SENT,
    TWO,
    Inbound,
    delivered,
    handed_over,
    may_finish,
    may_publish,
    may_release,
    require,
)

CONNECT, CONNACK, DISCONNECT = 0x10, 0x20, 0xE0
NONE, OPENED, ACCEPTED = 0, 1, 2


class Server:
    """hands_on_at_release: QoS 2 by method A of 4.3.3, handing the message on at PUBREL; else by
    method B."""

    def __init__(self, level: int, clean: bool, hands_on_at_release: bool) -> None:
        self.level, self.clean, self.at_release = level, clean, hands_on_at_release
        self.link = NONE
        self.up_is_dead = False
        self.has_session = False
        self.received: dict[int, int] = {}  # identifiers that await PUBREL: message
        self.inbound: tuple[Inbound, ...] = ()
        self.acks: tuple[tuple[int, int], ...] = ()  # (kind, identifier) not yet taken
        self.messages: tuple[tuple[int, int], ...] = ()  # in order; CONNACK: (0x20, flags)
        self.ghosts: dict[int, int] = {}  # of each message that is held or may come back
        # Identifiers of a session that the server lost, which the client knows as arrived. stale:
        # it was not told of the loss; doubtful: it was, but a power cut now would make it forget
        # that.
        self.stale: frozenset[int] = frozenset()
        self.doubtful: frozenset[int] = frozenset()

    # --- Links ---

    def cut_off(self) -> None:
        self.link, self.up_is_dead, self.acks, self.messages = NONE, False, (), ()

    def forget(self, known_ids: frozenset[int]) -> None:
        """The session is lost, and with it everything in it."""
        self.has_session = False
        self.received, self.inbound = {}, ()
        self.stale |= known_ids
        self.ghosts = {
            seq: ghost | LOST if ghost & SENT else ghost for seq, ghost in self.ghosts.items()
        }

    def told_of_loss(self) -> None:
        """The client has taken CONNACK with session-present 0 in level 4, or its session was
        clean."""
        self.doubtful |= self.stale
        self.stale = frozenset()
        keep = ~(RECEIVED | NOTED)
        self.ghosts = {seq: ghost & keep for seq, ghost in self.ghosts.items()}

    def _connected(self) -> None:
        require(self.link == OPENED, "CONNECT in a connection")
        self.link = ACCEPTED
        if self.clean:
            self.forget(frozenset())
        flags = 1 if self.has_session and self.level == 4 else 0
        again = [self._packet_of(message, True) for message in self.inbound]
        self.messages = ((CONNACK, flags), *again)
        self.has_session = True

    def _packet_of(self, message: Inbound, is_dup: bool) -> tuple[int, int]:
        if message.phase:
            return PUBREL | (8 if is_dup and self.level == 3 else 0), message.packet_id
        return PUBLISH | message.qos << 1 | (8 if is_dup else 0), message.packet_id

    # --- What the client says ---

    def takes(self, data: bytes, noted: Any) -> None:
        """Take the packets that the client writes. noted.has_arrived(packet_id): in flash."""
        at = 0
        while at < len(data):
            end = at + 2 + data[at + 1]
            first, body = data[at], data[at + 2 : end]
            self._facts_of(first, body, noted)
            if not self.up_is_dead:
                self._take(first, body)
            at = end

    def _facts_of(self, first: int, body: bytes, noted: Any) -> None:
        """Check what the client may send, whether it arrives or not."""
        if first & 0xF0 == PUBLISH:
            seq = int.from_bytes(body[5:], "big")
            ghost = self.ghosts.get(seq, 0)
            may_publish(seq, ghost, body[3] << 8 | body[4], first & 8 > 0, first >> 1 & 3)
            self._set(seq, (ghost | SENT) & ~OLD)
        elif first == PUBREL:
            seq = self.message_of(body[0] << 8 | body[1])
            may_release(seq, self.ghosts.get(seq, 0))
        elif first == PUBREC:
            require(noted.has_arrived(body[1]), "PUBREC %d before the note", body[1])
        elif first == PUBCOMP:
            require(not noted.has_arrived(body[1]), "PUBCOMP %d while noted", body[1])

    def _set(self, seq: int, ghost: int) -> None:
        self.ghosts = {**self.ghosts, seq: ghost}

    def message_of(self, packet_id: int) -> int:
        """Returns the number of the held message that has this identifier; -1: none."""
        for seq in self.ghosts:
            if seq % IDS + 1 == packet_id:
                return seq
        return -1

    def _take(self, first: int, body: bytes) -> None:
        if first == CONNECT:
            self._connected()
            return
        require(self.link == ACCEPTED, "packet %x before CONNECT", first)
        if first & 0xF0 == PUBLISH:
            self._published(int.from_bytes(body[5:], "big"), body[3] << 8 | body[4])
        elif first == PUBREL:
            self._released(body[0] << 8 | body[1])
        elif first in (PUBACK, PUBREC, PUBCOMP):
            self._answered(first, body[0] << 8 | body[1])
        else:
            require(False, "a client sent %x", first)

    def _published(self, seq: int, packet_id: int) -> None:
        ghost = self.ghosts[seq]
        if not ghost & TWO:
            self._set(seq, delivered(seq, ghost, self.ghosts, not self.at_release) | ACKED)
            self._answer(PUBACK, packet_id)
            return
        other = self.received.get(packet_id, seq)
        require(other == seq, "identifier %d of %d is in use for %d", packet_id, seq, other)
        if packet_id not in self.received:
            self.received = {**self.received, packet_id: seq}
            if not self.at_release:
                self._set(seq, delivered(seq, ghost, self.ghosts, True))
        self._answer(PUBREC, packet_id)

    def _released(self, packet_id: int) -> None:
        seq = self.received.get(packet_id, -1)
        if seq >= 0:
            self.received = {key: held for key, held in self.received.items() if held != seq}
            if self.at_release:
                self._set(seq, delivered(seq, self.ghosts[seq], self.ghosts, False))
        seq = self.message_of(packet_id)
        self._set(seq, self.ghosts[seq] | ACKED)
        self._answer(PUBCOMP, packet_id)

    def _answer(self, kind: int, packet_id: int) -> None:
        self.acks = tuple(sorted({*self.acks, (kind, packet_id)}))

    def _answered(self, first: int, packet_id: int) -> None:
        for place, message in enumerate(self.inbound):
            if message.packet_id != packet_id:
                continue
            rest = self.inbound[:place], self.inbound[place + 1 :]
            if first == PUBREC:
                require(message.qos == 2, "PUBREC of a message with QoS %d", message.qos)
                if not message.phase:
                    released = message._replace(phase=1)
                    self.inbound = (*rest[0], released, *rest[1])
                    self.messages += (self._packet_of(released, False),)
            else:
                may_finish(message, 1 if first == PUBACK else 2)
                self.inbound = rest[0] + rest[1]
            return

    # --- What the client takes ---

    def send(self, qos: int) -> None:
        """Send a message of its own, with the lowest free identifier."""
        used = {message.packet_id for message in self.inbound}
        packet_id = min(set(range(1, len(used) + 2)) - used)
        message = Inbound(packet_id, qos, 0, 0, packet_id in self.stale)
        self.inbound += (message,)
        self.messages += (self._packet_of(message, False),)

    def handed(self, packet_id: int) -> None:
        for place, message in enumerate(self.inbound):
            if message.packet_id == packet_id:
                now = handed_over(message)
                self.inbound = (*self.inbound[:place], now, *self.inbound[place + 1 :])
                return
        require(False, "handed over: message %d, which the server did not send", packet_id)

    def excuse(self, arrived_ids: frozenset[int]) -> None:
        """The power went, or flash refused the note, between the handler's return and the note:
        what the client does not know as arrived may be handed over again."""
        self.inbound = tuple(
            message._replace(handed=0)
            if message.qos == 2 and not message.phase and message.packet_id not in arrived_ids
            else message
            for message in self.inbound
        )

    def power_lost(self, noted_ids: frozenset[int]) -> None:
        """The power went, maybe between CONNACK and the note that nothing is kept."""
        back = self.doubtful & noted_ids
        self.stale |= back
        self.inbound = tuple(
            message._replace(is_excused=message.is_excused or message.packet_id in back)
            for message in self.inbound
        )
        self.cut_off()
        self.excuse(noted_ids)

    def prune(
        self, oldest: int, base: int, next_send: int, known_ids: frozenset, noted_ids: frozenset
    ) -> None:
        """Forget what can neither come back nor be distinguished."""
        if any(seq < oldest for seq in self.ghosts):
            self.ghosts = {seq: ghost for seq, ghost in self.ghosts.items() if seq >= oldest}
        self.stale &= known_ids
        self.doubtful &= noted_ids
        if self.acks:
            live = range(base, next_send)
            self.acks = tuple([ack for ack in self.acks if self.message_of(ack[1]) in live])

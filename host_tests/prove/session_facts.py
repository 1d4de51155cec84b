"""What must hold between a client and a server, each as a function of the facts about a message.

The facts of an outgoing message are bits of one integer (`ghost`), those of an incoming one an
Inbound. Nothing here knows the client's code.
"""

from __future__ import annotations

from typing import NamedTuple

IDS = 65_535
TWO = 1  # QoS 2
OLD = 2  # it was stored before the last power cut
SENT = 4  # a PUBLISH of it was sent
RECEIVED = 8  # the client took its PUBREC, and was not told since that the server lost its session
NOTED = 16  # the note in flash says so
ACKED = 32  # the server sent PUBACK or PUBCOMP
LOST = 64  # the server lost its session after it had received the message
ONCE = 128  # the server's application received it
HELD = 256  # the client holds it, or it may come back
PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x30, 0x40, 0x50, 0x62, 0x70


class Violation(BaseException):
    """An invariant does not hold. Not an Exception, so that no handler of the firmware catches
    it."""


class Inbound(NamedTuple):
    """A message from the server. phase: 0, its PUBLISH awaits an answer; 1, its PUBREL does."""

    packet_id: int
    qos: int
    phase: int
    handed: int  # how often the client's application received it; 2: more than once
    is_excused: bool  # the client could not know that it is not the previous one


def require(fact: object, text: str, *values: object) -> None:
    if not fact:
        raise Violation(text % values)


def id_of(seq: int) -> int:
    return seq % IDS + 1


# --- Outgoing ---


def may_publish(seq: int, ghost: int, packet_id: int, is_dup: bool, qos: int) -> None:
    """[MQTT-2.3.1-1, 3.3.1-1, 4.3.3-1, 4.4.0-1]."""
    require(ghost, "PUBLISH of %d, which is not held", seq)
    require(packet_id == id_of(seq), "PUBLISH of %d with identifier %d", seq, packet_id)
    require(qos == 1 + (ghost & TWO), "PUBLISH of %d with QoS %d", seq, qos)
    require(is_dup or not ghost & SENT, "PUBLISH of %d again, without DUP", seq)
    require(not is_dup or ghost & (SENT | OLD), "the first PUBLISH of %d has DUP", seq)
    require(not ghost & RECEIVED, "PUBLISH of %d after its PUBREC", seq)
    require(not ghost & NOTED, "PUBLISH of %d, which is noted as released", seq)


def may_release(seq: int, ghost: int) -> None:
    """[MQTT-4.3.3-1]. Allowed also for a message whose PUBCOMP a power cut made the client
    forget."""
    require(ghost & TWO, "PUBREL of %d, which is not held or not QoS 2", seq)
    require(ghost & SENT, "PUBREL of %d, which was never published", seq)
    require(ghost & RECEIVED, "PUBREL of %d before its PUBREC", seq)
    require(ghost & NOTED, "PUBREL of %d before the note", seq)


def delivered(seq: int, ghost: int, ghosts: dict[int, int], in_order: bool) -> int:
    """The server hands it on. Returns the new ghost."""
    if ghost & ONCE:
        exempt = not ghost & TWO or ghost & LOST
        require(exempt, "QoS 2 message %d handed on twice", seq)
        return ghost
    for other, facts in ghosts.items():
        if in_order and other < seq:
            require(facts & (ONCE | LOST), "%d was handed on before %d", seq, other)
    return ghost | ONCE


def noted(seq: int, ghost: int, is_noted: bool) -> int:
    """Returns the ghost after the note in flash says `is_noted` of a held message."""
    if ghost & LOST and not ghost & RECEIVED:  # the client knows, the note maybe not yet
        return ghost | NOTED if is_noted else ghost & ~NOTED
    require(is_noted or not ghost & NOTED, "the note has lost that %d is released", seq)
    require(not is_noted or ghost & RECEIVED, "%d noted as released before its PUBREC", seq)
    return ghost | NOTED if is_noted else ghost


def may_free(seq: int, ghost: int) -> None:
    require(ghost & ACKED, "message %d freed before its acknowledgement", seq)
    require(ghost & (ONCE | LOST), "message %d freed, and handed on to nobody", seq)


# --- Incoming ---


def handed_over(message: Inbound) -> Inbound:
    again = message.handed and message.qos == 2
    require(not again, "QoS 2 message %d handed over twice", message.packet_id)
    return message._replace(handed=min(message.handed + 1, 2))


def may_finish(message: Inbound, qos: int) -> None:
    """Check the client's last answer to it, after which the server may forget it."""
    require(message.qos == qos, "the answer to QoS %d, of message %d", qos, message.packet_id)
    taken = message.handed or message.is_excused
    require(taken, "message %d acknowledged, but not handed over", message.packet_id)

"""What the fuzzer's model is made of: the framing of MQTT, a message, a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from scripted_server import decode as _decode

CLOSED, CONNECTING, CONNECTED = 0, 1, 2
PROTOCOL_ERROR, REFUSED, TOO_MANY, STORAGE = -20, -21, -24, -5
IDS = 65_535
ARRIVED = 32
decode = lru_cache(8192)(_decode)  # most packets come again


class Violation(BaseException):
    """The invariant does not hold. Not an Exception, so that no handler of the firmware can catch
    it.
    """


class BadLength(ValueError):
    """A remaining length of more than four bytes."""


def require(fact: object, text: str, *values: object) -> None:
    if not fact:
        raise Violation(text % values)


def id_of(seq: int) -> int:
    return seq % IDS + 1


def next_packet(data: bytes | bytearray, at: int, end: int) -> tuple[int, int, int] | None:
    """(first byte, where the body is, its length) of the packet at `at`; None while its length is
    not there.
    """
    length = 0
    for place in range(4):
        if at + 1 + place >= end:
            return None
        byte = data[at + 1 + place]
        length += byte % 128 * 128**place
        if byte < 128:
            return data[at], at + 2 + place, length
    raise BadLength()


def well_formed(topic: bytes) -> bool:
    """A topic: UTF-8 as CPython knows it, without NUL and wildcards."""
    try:
        return not set("\0#+") & set(topic.decode())
    except UnicodeDecodeError:
        return False


@dataclass(slots=True)
class Message:
    """One that the outbox has taken."""

    seq: int
    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    written: bool = False  # went out whole, in an exchange that is not complete
    loads: int = 0
    acked: bool = False
    released: bool = False


@dataclass(slots=True)
class Connection:
    """What is known of one connection."""

    state: int = CONNECTING
    parsed: int = 0  # bytes from the server
    # bytes to the server, those included that still wait to be written
    started: bytearray = field(default_factory=bytearray)
    packets: int = 0
    flight: dict[int, Message] = field(default_factory=dict)
    last_seq: int = -1
    asked: tuple[str, int, int] | None = None  # kind, identifier, number of filters
    answer: tuple[str, int] | None = None
    call: tuple[int, bytes, bytes] | None = None  # that the handler must get
    acked: Message | None = None  # that must be reported and freed
    due: set[int] = field(default_factory=set)  # identifiers whose PUBREL must go out
    # an inbound identifier that must be noted, or taken out of the note
    saving: tuple[int, bool] | None = None
    passed_over: bool = False  # a QoS 2 message, because too many await PUBREL
    error: int = 0
    ping_ms: int = -1

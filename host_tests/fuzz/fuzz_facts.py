"""The parts of the fuzzer's model: the framing of MQTT, a message, a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from scripted_server import decode as _decode

CLOSED, CONNECTING, CONNECTED = 0, 1, 2
PROTOCOL_ERROR, REFUSED, TOO_MANY, STORAGE = -20, -21, -24, -5
IDS = 65_535
ARRIVED = 32
decode = lru_cache(8192)(_decode)  # most packets occur repeatedly


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
    """Returns (first byte, offset of the body, its length) of the packet at `at`; None while its
    length is incomplete. On purpose not the codec of the rigs: the model judges by itself.
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
    """True for a topic: UTF-8 by CPython's rules, without NUL and wildcards."""
    try:
        return not set("\0#+") & set(topic.decode())
    except UnicodeDecodeError:
        return False


@dataclass(slots=True)
class Message:
    """A message that the outbox has accepted."""

    seq: int
    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    written: bool = False  # was sent whole, in an exchange that is not complete
    loads: int = 0
    acked: bool = False
    released: bool = False


@dataclass(slots=True)
class Connection:
    """What is known about one connection."""

    state: int = CONNECTING
    parsed: int = 0  # bytes from the server
    # bytes to the server, including those still waiting to be written
    started: bytearray = field(default_factory=bytearray)
    packets: int = 0
    last_publish_id: int = 0  # of the last packet, if it is a PUBLISH with one
    half_sent: int = 0  # identifier of the PUBLISH that is partly written; 0: none
    flight: dict[int, Message] = field(default_factory=dict)
    last_seq: int = -1
    asked: tuple[str, int, int] | None = None  # kind, identifier, number of filters
    answer: tuple[str, int] | None = None
    call: tuple[int, bytes, bytes] | None = None  # what the handler must receive
    acked: Message | None = None  # must be reported and released
    due: set[int] = field(default_factory=set)  # identifiers whose PUBREL must be sent
    # an inbound identifier that must be added to the note, or removed from it
    saving: tuple[int, bool] | None = None
    passed_over: bool = False  # a QoS 2 message was, because too many await PUBREL
    error: int = 0
    ping_ms: int = -1

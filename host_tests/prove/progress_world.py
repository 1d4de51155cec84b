"""A board, a path and a server in virtual time, for the explorer of the law of progress. The server
acknowledges the messages that it takes, and answers each other one in the way of its verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fake_flash import flash_in_ram
from fuzz_facts import decode
from outpost.client import Client
from outpost.durable import DurableSession
from outpost.exactly_once import ExactlyOnceSession
from outpost.level5 import over
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.state_note import NotedOutbox
from virtual.packets import encode

STREAM = b"01234567"
CONFIRMED = b"w"  # the topic of the confirmations
# Between two polls: the shortest while things happen, doubled by each poll that finds nothing to
# do, up to the longest, as of a board that polls once a second.
TICK_MS, IDLE_MS = 16, 1024
RAM, FLASH, COLLECTOR, TWICE = "RAM", "flash", "collector", "QoS 2"
STORES = (RAM, FLASH, COLLECTOR, TWICE)

Fields = dict[str, Any]  # of a packet, as virtual/packets.py returns them


@dataclass(frozen=True)
class Verdict:
    """What the server does with a message. kind: accept, close, reset, disconnect (code), refuse
    (code), garbage, silence (it answers pings), hang (from now on it answers nothing), pass over
    (collector mode: it acknowledges, and the collector never gets it), pass over and close."""

    kind: str = "accept"
    code: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.code:#x}" if self.code else self.kind

    @property
    def takes(self) -> bool:
        return self.kind == "accept"


ACCEPT = Verdict()


@dataclass(frozen=True)
class Setting:
    """level, store, window: of the client. rtt_ms: of the path. interval_ms: between two
    publishes; 0: all at once. idle_ends: connections that end with nothing in flight before the
    first message. order: the places of the judged messages among the good ones."""

    level: int = 4
    store: str = RAM
    window: int = 16
    rtt_ms: int = 20
    interval_ms: int = 0
    idle_ends: int = 0
    order: str = "first"  # or "mixed"

    def __str__(self) -> str:
        spread = f"{self.interval_ms} ms" if self.interval_ms else "at once"
        return (
            f"level {self.level}, {self.store}, window {self.window}, {self.rtt_ms} ms, {spread}, "
            f"{self.idle_ends} idle ends, judged {self.order}"
        )


def made_client(setting: Setting, link: Callable[[], Any]) -> Client:
    kind, options = Session, {"window": setting.window}
    if setting.store == RAM:
        outbox: Any = RamOutbox(16, 200)
    else:
        chosen = NotedOutbox if setting.store == TWICE else Outbox
        outbox = chosen(flash_in_ram(8, 256))
        outbox.format(STREAM)
    if setting.store == COLLECTOR:
        kind, options = DurableSession, {**options, "topic": CONFIRMED, "timeout_ms": 10_000}
    if setting.store == TWICE:
        kind = ExactlyOnceSession
    if setting.level == 5:
        kind = over(kind)
    else:
        options["level"] = setting.level
    return Client(link, kind(outbox, b"board-1", **options), lambda: 0x8000)


class Path:
    """The client's stream; what either side sends arrives half a round trip later."""

    def __init__(self, world: World) -> None:
        self.world, self._up, self.queue = world, b"", []
        self.has_ended = self.is_hung = False

    def write(self, buf: Any, offset: int, length: int) -> int:
        if self.has_ended and self._is_here():
            raise OSError(104)
        self._up += bytes(buf[offset : offset + length])
        while found := decode(self._up, self.world.setting.level):
            kind, fields, self._up = found
            if not self.has_ended and not self.is_hung:
                self.world.serve(self, kind, fields)
        return length

    def _is_here(self) -> bool:
        return not self.queue or self.queue[-1][0] <= self.world.now_ms

    def say(self, data: bytes | OSError | None) -> None:
        """data: None: the end; an error: a reset."""
        self.queue.append((self.world.now_ms + self.world.setting.rtt_ms, data))
        self.has_ended = self.has_ended or not isinstance(data, bytes)

    def readinto(self, buf: Any) -> int | None:
        if not self.queue or self.queue[0][0] > self.world.now_ms:
            return None
        data = self.queue[0][1]
        if isinstance(data, OSError):
            raise data
        if data is None:
            return 0
        count = min(len(data), len(buf))
        buf[:count] = data[:count]
        rest = data[count:]
        self.queue[0] = (self.queue[0][0], rest)
        if not rest:
            self.queue.pop(0)
        return count

    def close(self) -> None:
        self.queue, self.has_ended = [], True


@dataclass
class World:
    """verdicts: by the first byte of the payload, its number."""

    setting: Setting
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    collects: bool = True  # a collector confirms
    network: Callable[[World], None] | None = None  # called at each step: does its worst

    def __post_init__(self) -> None:
        self.now_ms = 1000
        self.connects = self.attempts = 0
        self.taken: dict[int, int] = {}  # number -> the connection that acknowledged it
        self.published: dict[int, int] = {}  # number -> connections before it was published
        self.released: set[int] = set()  # identifiers of QoS 2 that were released
        self.durable: set[int] = set()  # sequence numbers that the collector has
        self.held_from = 0
        self.has_session = False
        self.path: Path | None = None
        self.path_ms = 0  # when that was opened
        self.is_mute = False  # the server answers pings alone
        self.random = 1
        self.client = made_client(self.setting, self._link)
        self.outbox = self.client.session.outbox
        self._received: dict[int, int] = {}  # QoS 2, by identifier
        self._numbers: list[int] = []  # by sequence number
        self._idle_ends = self.setting.idle_ends
        self._wait_ms = TICK_MS

    # --- The board ---

    def publish(self, number: int) -> bool:
        text = bytes((number,)) + b"%010d" % self.outbox.oldest_seq + bytes(20)
        qos = 2 if self.setting.store == TWICE else 1
        if self.client.publish(b"t/1", text, qos):
            return False
        self._wait_ms = TICK_MS
        self._numbers.append(number)
        self.published.setdefault(number, self.connects)
        return True

    def _link(self) -> Path:
        self.attempts += 1
        self.path, self.path_ms = Path(self), self.now_ms
        return self.path

    def step(self) -> None:
        self.now_ms += self._step_ms()
        self._wait_ms = min(2 * self._wait_ms, IDLE_MS)
        for _ in range(6):
            if not self.client.poll(self.now_ms & 0x3FFFFFFF):
                break
            self._wait_ms = TICK_MS
        if self.network:
            self.network(self)
        if self._idle_ends and self.path and self.client.is_connected():
            self._idle_ends -= 1
            self.path.say(None)

    def chance(self, most: int) -> int:
        """0 to most - 1, the same in each run."""
        self.random = self.random * 1103515245 + 12345 & 0x7FFFFFFF
        return (self.random >> 8) % most

    def age_ms(self) -> int:
        """Of the connection; 0: there is none."""
        return self.now_ms - self.path_ms if self.path and not self.path.has_ended else 0

    def _step_ms(self) -> int:
        if self.path and self.path.queue:
            return max(min(self.path.queue[0][0] - self.now_ms, self._wait_ms), 1)
        return self._wait_ms

    def run(self, seconds: float, until: Callable[[], bool]) -> bool:
        end_ms = self.now_ms + seconds * 1000
        while self.now_ms < end_ms:
            if until():
                return True
            self.step()
        return until()

    # --- The server ---

    def serve(self, path: Path, kind: str, fields: Fields) -> None:
        if kind == "CONNECT":
            self.connects += 1
            present = int(self.has_session and self.setting.level > 3)
            self.has_session = True
            path.say(encode("CONNACK", self.setting.level, session_present=present))
        elif kind == "PUBLISH":
            self._judge(path, fields)
        elif kind == "PINGREQ":
            path.say(encode("PINGRESP"))
        elif kind == "PUBREL":
            self._complete(path, fields["packet_id"])
        elif kind == "SUBSCRIBE":
            packet_id = fields["packet_id"]
            path.say(encode("SUBACK", self.setting.level, packet_id=packet_id, codes=[0]))
            self._confirm(path)

    def _judge(self, path: Path, message: Fields) -> None:
        number = message["payload"][0]
        if self.is_mute:
            return
        verdict = self.verdicts.get(number, ACCEPT)
        if verdict.kind == "accept":
            self._take(path, message, number)
        for answer in ANSWERS.get(verdict.kind, lambda *_: ())(verdict, message):
            path.say(answer)
        path.is_hung = path.is_hung or verdict.kind == "hang"

    def _take(self, path: Path, message: Fields, number: int) -> None:
        packet_id = message["packet_id"]
        if message["qos"] == 2:
            self._received.setdefault(packet_id, number)
            path.say(encode("PUBREC", packet_id=packet_id))
            return
        self.taken.setdefault(number, self.connects)
        path.say(encode("PUBACK", packet_id=packet_id))
        if self.setting.store == COLLECTOR:
            self.durable.add(packet_id - 1)
            self.held_from = max(self.held_from, int(message["payload"][1:11]))
            self._confirm(path)

    def _complete(self, path: Path, packet_id: int) -> None:
        number = self._received.pop(packet_id, None)
        if number is not None:
            self.taken.setdefault(number, self.connects)
        path.say(encode("PUBCOMP", packet_id=packet_id))

    def _confirm(self, path: Path) -> None:
        """As the collector does: up to the first missing number, and what it has beyond it."""
        if not self.collects or self.setting.store != COLLECTOR or path.has_ended:
            return
        through = self.held_from
        while through in self.durable:
            through += 1
        if through:
            self._say(path, b"%s %d" % (STREAM, through - 1), True)
        beyond = sorted(number for number in self.durable if number > through)
        if beyond:
            self._say(path, b"%s %d %s" % (STREAM, through - 1, _ranges(beyond)), False)

    def _say(self, path: Path, payload: bytes, retain: bool) -> None:
        fields = {"topic": CONFIRMED, "payload": payload, "retain": retain}
        path.say(encode("PUBLISH", self.setting.level, **fields))


def _acknowledge(_verdict: Verdict, message: Fields) -> tuple:
    return (encode("PUBACK", packet_id=message["packet_id"]),)


def _refuse(verdict: Verdict, message: Fields) -> tuple:
    kind = "PUBREC" if message["qos"] == 2 else "PUBACK"
    return (encode(kind, 5, packet_id=message["packet_id"], code=verdict.code),)


# What the server says to a message that it does not take; silence says nothing.
ANSWERS: dict[str, Callable[[Verdict, Fields], tuple]] = {
    "close": lambda *_: (None,),
    "reset": lambda *_: (OSError(104),),
    "disconnect": lambda verdict, _: (bytes((0xE0, 1, verdict.code)), None),
    "refuse": _refuse,
    "garbage": lambda *_: (b"\xe0\x05garba",),
    "pass over": _acknowledge,
    "pass over and close": lambda *both: (*_acknowledge(*both), None),
}


def _ranges(numbers: list[int]) -> bytes:
    """At most four, as the collector says them."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return b" ".join(b"%d-%d" % (first, last) for first, last in found[:4])

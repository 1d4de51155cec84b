"""The board of the mixed hunt: the real client over a flash chip in RAM, and an application whose
callbacks publish, raise and close.
"""

from __future__ import annotations

import random

from fake_flash import flash_in_ram
from fuzz_facts import require
from mixed_choices import TICKS, TOPICS, choose
from mixed_server import CLIENT_ID, MARK, Server, Weather
from outpost.client import Client
from outpost.ram_outbox import RamOutbox
from outpost.series import Series
from outpost.status import OK
from station.clock import Clock

STREAM = b"3fa9c1d2"
FILTER, CONFIRMATION = b"in/#", b"o/durable"

_RECORD_BYTES = 256
_WORST_STATUS = -15
_HOST_UNREACHABLE = 113
_FAILS, _IS_SLOW = 0.3, 0.3  # of the link's calls
_COLUMNS = ((b"t", b"Cel", -2), (b"h", b"", -1))


class Board:
    """All that it does follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.weather = Weather(self.rng)
        self.choices = choose(self.rng)
        chosen = self.choices
        self.server = Server(
            self.weather, chosen.level, chosen.loses_sessions, chosen.ends_on_mark, CONFIRMATION
        )
        self.accepted: dict[bytes, int] = {}  # QoS by payload
        self.handed: list[bytes] = []  # payloads that the client handed over
        self._count = 0
        self._piece = b""
        self._make_outbox()
        self.boot()

    # --- The board ---

    def _make_outbox(self) -> None:
        if self.choices.outbox == "RAM":
            self.outbox, self.flash = RamOutbox(8, 200), None
            return
        self.flash = flash_in_ram(self.choices.blocks, _RECORD_BYTES)
        made = self.choices.outbox_class()(self.flash, record_bytes=_RECORD_BYTES)
        made.format(STREAM, first_seq=self.choices.first_seq)

    def boot(self) -> None:
        if self.flash:
            self.outbox = self.choices.outbox_class()(self.flash, record_bytes=_RECORD_BYTES)
            require(self.outbox.mount() == OK, "the outbox does not mount")
        words = (CONFIRMATION, 1000) if self.choices.collects() else ()
        self.session = self.choices.session_class()(
            self.outbox, CLIENT_ID, *words, **self.choices.options
        )
        self.session.now_ms = self.now()
        self.client = Client(self._link, self.session, lambda: self.rng.getrandbits(16))
        self._watch_starts()
        self._set_callbacks()
        if hasattr(self.session, "subscribe"):
            most = 2 if self.choices.kind == "exactly once" else 1
            self.session.subscribe(FILTER, self.rng.randint(1, most))
        if "series" in self.choices.outbox:
            size = self.rng.choice((200, 240))
            self.series = Series(self.outbox, TOPICS[0], b"dev", _COLUMNS, 100, record_bytes=size)
            self.clock = Clock(self.now())
            self.clock.set(20_000, 5, self.now())

    def _watch_starts(self) -> None:
        """A packet that goes out is not replaced by another one."""
        session = self.session
        start, start_message = session._start, session._start_message

        def watched(data, length) -> None:
            require(not session.out_end, "a packet was started over another")
            start(data, length)

        def watched_message() -> bool:
            require(not session.out_end, "a PUBLISH was started over another packet")
            return start_message()

        session._start, session._start_message = watched, watched_message

    def _set_callbacks(self) -> None:
        session = self.session
        session.on_acknowledged = self._on_acknowledged
        if self.choices.level == 5:
            session.on_refused = self._on_refused
            if session.expiry:
                session.expiry.on_expired = lambda seq: self._on_refused(seq, 0)
        if hasattr(session, "subscribe"):
            session.on_message = self._on_message
        if self.choices.kind == "streaming":
            session.on_piece = self._on_piece

    def now(self) -> int:
        return (self.choices.first_ticks + self.weather.now_ms()) & TICKS

    def _link(self):
        if self.weather.may(_FAILS):
            raise OSError(_HOST_UNREACHABLE)
        return None if self.weather.may(_IS_SLOW) else self.server.accept()

    # --- Callbacks ---

    def _on_acknowledged(self, _seq: int) -> None:
        self._react(0.2, 0.01)

    def _on_refused(self, _seq: int, _code: int) -> None:
        self._react(0.3, 0.02)

    def _react(self, publishes: float, closes: float) -> None:
        if self.weather.may(publishes):
            self.publish()
        if self.weather.may(closes):
            self.client.close()

    def _on_message(self, session) -> None:
        start = session.payload_at
        payload = bytes(session.buffer[start : start + session.payload_length])
        if self.weather.may(0.1):
            raise RuntimeError
        self.handed.append(payload)
        self._react(0.3, 0.02)

    def _on_piece(self, session, data, at, count) -> None:
        if not session.piece_at:
            self._piece = b""
        require(session.piece_at == len(self._piece), "a piece at %d", session.piece_at)
        self._piece += bytes(data[at : at + count])
        if self.weather.may(0.03):
            raise RuntimeError
        if len(self._piece) == session.payload_length:
            self.handed.append(self._piece)

    # --- Messages ---

    def payload(self, lengths: tuple[int, ...]) -> bytes:
        """Returns a payload that no other message has."""
        self._count += 1
        return b"%d:" % self._count + b"x" * self.rng.choice(lengths)

    def publish(self) -> None:
        qos = self.rng.choice((0, 1, 1, 1, 2) if self.choices.kind == "exactly once" else (0, 1, 1))
        payload = self.payload((0, 3, 30, 90)) + (MARK if self.weather.chance(0.05) else b".")
        retains = self.choices.level == 5 and self.weather.chance(0.05)
        topic = self.rng.choice(TOPICS)
        found = self.client.publish(topic, payload, qos, retains)
        require(_WORST_STATUS < found <= OK, "publish() returned %d", found)
        if found == OK and qos:
            self.accepted[payload] = qos

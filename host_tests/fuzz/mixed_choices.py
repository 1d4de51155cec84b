"""The choices of a seed of the mixed hunt: the kind of session, its options and its outbox, and how
bad its server is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from outpost.durable import DurableSession
from outpost.exactly_once import ExactlyOnceSession
from outpost.level5 import over as over_level5
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from outpost.queued import QueuedSession
from outpost.series_outbox import over as over_series
from outpost.session import Session
from outpost.state_note import NotedOutbox
from outpost.streaming import StreamingSession
from outpost.subscribing import SubscribingSession

TICKS = 0x3FFFFFFF
TOPICS = (b"o/d", b"o/e", b"o/f")
SESSIONS: dict[str, type] = {
    "publishing": Session,
    "subscribing": SubscribingSession,
    "durable": DurableSession,
    "queued": QueuedSession,
    "exactly once": ExactlyOnceSession,
    "streaming": StreamingSession,
}
COLLECTOR_MODES = ("durable", "queued")
_FIRST_TICKS = (1000, TICKS - 60_000, TICKS - 5000, 0x20000000 - 3000)
_FIRST_NUMBERS = (0, 0, 32_760, 65_525, 131_050)  # identifiers wrap after 65,535
_PROPERTY_BYTES = (1, 60, 120)


@dataclass
class Choices:
    """options: of the session."""

    kind: str
    level: int
    outbox: str  # flash, series, drops the oldest, or RAM
    blocks: int
    first_seq: int
    first_ticks: int
    loses_sessions: bool
    ends_on_mark: bool
    options: dict[str, Any] = field(default_factory=dict)

    def session_class(self) -> Callable[..., Any]:
        kind = SESSIONS[self.kind]
        return over_level5(kind) if self.level == 5 else kind

    def outbox_class(self) -> Callable[..., Any]:
        """Returns the class of an outbox in flash."""
        kind = NotedOutbox if self.kind == "exactly once" else Outbox
        if "drops the oldest" in self.outbox:
            kind = DropOldest
        return over_series(kind) if "series" in self.outbox else kind

    def may_lose(self) -> bool:
        """True when accepted messages need not arrive, because they may be dropped, or expire."""
        return "drops the oldest" in self.outbox or "expiry_s" in self.options

    def collects(self) -> bool:
        return self.kind in COLLECTOR_MODES

    def keeps_inbound(self) -> bool:
        """True when QoS 2 messages arrive once, unless the server loses a session."""
        return self.kind == "exactly once" and self.level > 3


def choose(rng: random.Random) -> Choices:
    kind = rng.choice(list(SESSIONS))
    made = Choices(
        kind,
        rng.choice((3, 4, 5, 5, 5)),
        _choose_outbox(rng, kind),
        rng.choice((4, 6, 12)),
        rng.choice(_FIRST_NUMBERS),
        rng.choice(_FIRST_TICKS),
        rng.random() < 0.4,
        rng.random() < 0.3,
    )
    made.options = _choose_options(rng, made)
    return made


def _choose_outbox(rng: random.Random, kind: str) -> str:
    if kind == "exactly once":
        return "flash"
    has_series, drops = rng.random() < 0.3, rng.random() < 0.25
    if has_series or drops:
        parts = ["series"] * has_series + ["drops the oldest"] * drops
        return ", ".join(parts)
    return "RAM" if kind not in COLLECTOR_MODES and rng.random() < 0.2 else "flash"


def _choose_options(rng: random.Random, made: Choices) -> dict[str, Any]:
    options: dict[str, Any] = {
        "level": made.level,
        "window": rng.choice((1, 2, 5, 16, 16)),
        "keep_alive_s": rng.choice((0, 5, 60, 60)),
        "in_flight_bytes": rng.choice((0, 0, 600, 1500, 3000)),
    }
    if made.kind != "publishing":
        options["rx_bytes"] = rng.choice((64, 256) if made.level == 5 else (40, 64, 256))
        options["unacknowledged"] = rng.choice((0, 0, 1, 16))
    if made.kind != "exactly once" and rng.random() < 0.08:
        options["clean"] = True
    if rng.random() < 0.2:
        options["response_ms"] = rng.choice((500, 3000))
    if made.level == 5:
        options |= _choose_level5(rng, made)
    return options


def _choose_level5(rng: random.Random, made: Choices) -> dict[str, Any]:
    filler = b"b" * rng.choice(_PROPERTY_BYTES)
    possible: list[tuple[str, float, Any]] = [
        ("aliases", 0.5, TOPICS[:2]),
        ("publish_properties", 0.3, ((1, 1), (0x26, (b"a", filler)))),
        ("keep_unmatched", 0.3, True),
        ("session_expiry_s", 0.2, 3600),
    ]
    if not made.collects():
        possible.append(("expiry_s", 0.25, rng.choice((2, 60, 100_000))))
    if made.kind not in ("publishing", "streaming"):
        possible.append(("alias_maximum", 0.4, rng.choice((1, 3))))
    return {name: value for name, share, value in possible if rng.random() < share}

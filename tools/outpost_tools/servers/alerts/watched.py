"""The part of a live page's fleet that the alerts read. The classes are in `live`, which imports
this package, so this package must not import them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from outpost_tools.attention.attention import Finding
from outpost_tools.messages.message import Message


class Board(Protocol):
    """Device of servers/live/device.py: a board, or a device of a mapping. ident: what identifies
    it. Its
    name is unique among boards, and among devices."""

    ident: str
    name: str
    is_foreign: bool
    last_seen_ms: int
    messages: int
    findings: Sequence[Finding]

    @property
    def silent_after_s(self) -> float: ...


class Fleet(Protocol):
    """Fleet of servers/live/fleet.py. Hold `lock` while you read more than one field."""

    lock: AbstractContextManager[Any]
    boards: Mapping[str, Board]
    failed_jobs: Mapping[str, str]
    damaged_pieces: int
    takeovers: int
    is_complete: bool
    is_collected: bool | None
    reading: float | None
    on_message: Callable[[Message, int], None]


class Follower(Protocol):
    """Follower of servers/live/follow.py. reason: why the log cannot be read; "": it can."""

    reason: str

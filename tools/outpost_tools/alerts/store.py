"""The file with what was reported and what waits for each channel: alerts.state.json, beside
alerts.toml. A new problem is saved together with its place in the queues before it is sent, and
leaves a queue after it was sent. So a kill in between sends it twice, but never loses it.

If the file cannot be written (the disk is full), no alert is delayed: it is sent anyway.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outpost_tools.alerts.ledger import Event, Ledger, kept
from outpost_tools.common import files
from outpost_tools.common.errors import ToolError

_VERSION = 1
MOST_WAITING = 500  # per channel
HOUR_S = 3600.0


@dataclass
class Queue:
    """sent: times since 1970, within the last hour. trouble: of the last attempt."""

    waiting: list[Event] = field(default_factory=list)
    dropped: int = 0
    sent: list[float] = field(default_factory=list)
    trouble: str = ""

    def add(self, events: list[Event]) -> None:
        self.waiting, dropped = kept([*self.waiting, *events], MOST_WAITING)
        self.dropped += dropped

    def delivered(self, events: list[Event], dropped: int, now_s: float) -> None:
        """Removes them by identity, because the oldest may have been dropped meanwhile."""
        gone = {id(one) for one in events}
        self.waiting = [one for one in self.waiting if id(one) not in gone]
        self.dropped = max(self.dropped - dropped, 0)
        self.sent = [*self._recent(now_s), now_s]
        self.trouble = ""

    def room_in_s(self, now_s: float, most: int) -> float:
        """Seconds until one more may be sent; `most` per hour."""
        recent = self._recent(now_s)
        return 0.0 if len(recent) < most else recent[-most] + HOUR_S - now_s

    def _recent(self, now_s: float) -> list[float]:
        # times in the future come from a clock that was set back
        return [one for one in self.sent if 0 <= now_s - one < HOUR_S]


def path_beside(settings: Path) -> Path:
    return settings.with_name(f"{settings.stem}.state.json")


def saved(path: Path) -> dict[str, Any]:
    """The contents of the file; empty if there is none. Raises ValueError, OSError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise ValueError("of another version")
    return found


class Store:
    """The ledger and the queues; hold `lock` for both. extra: belongs to watch.py."""

    def __init__(
        self,
        path: Path,
        channels: list[str],
        is_wanted: Callable[[str], bool],
        say: Callable[[str], None],
    ) -> None:
        """channels: their keys. Raises ToolError."""
        self.path = path
        self.lock = threading.RLock()
        self._held = _hold(path)
        try:
            found = saved(path)
            self.ledger = Ledger.load(found.get("told", {}), is_wanted)
            queues = {key: Queue(**one) for key, one in found.get("channels", {}).items()}
            self.extra: dict[str, float] = {**found.get("extra", {})}
        except (ValueError, TypeError, AttributeError):
            aside = path.with_name(f"{path.name}.bad")
            path.replace(aside)
            say(f"{path.name} cannot be read, and is now {aside.name}; problems are reported again")
            self.ledger, queues, self.extra = Ledger(), {}, {}
        self.queues = {key: queues.get(key, Queue()) for key in channels}

    def add(self, events: list[Event]) -> None:
        for queue in self.queues.values():
            queue.add([dict(one) for one in events])

    def save(self) -> None:
        """Raises OSError."""
        with self.lock:
            made = {
                "version": _VERSION,
                "told": self.ledger.saved(),
                "channels": {key: vars(queue) for key, queue in self.queues.items()},
                "extra": self.extra,
            }
            files.replace_text(self.path, json.dumps(made, indent=1) + "\n")


def _hold(path: Path) -> int:
    """Ensures that only one process sends these alerts. Raises ToolError."""
    try:
        handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ToolError(f"{path}: another page sends these alerts; stop that one") from None
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}; alerts need a folder to write to") from None
    return handle

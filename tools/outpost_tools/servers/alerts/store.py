"""The file that records what was reported and what waits for each channel: alerts.state.json,
beside alerts.toml. A new alert is saved, together with its place in the queues, before it is sent.
It leaves a queue after it was sent. So a kill in between may send it twice, but never loses it.

If the file cannot be written (the disk is full), alerts are sent anyway, without delay.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.machine import files
from outpost_tools.servers.alerts.ledger import Event, Ledger

_VERSION = 1
MOST_WAITING = 500  # per channel
HOUR_S = 3600.0


@dataclass
class Queue:
    """sent: when messages were sent within the last hour, in seconds since 1970. by_board: the same
    for the messages with an alert of that board. dropped: how many alerts were dropped, by board.
    trouble: why the last attempt failed; "": it did not."""

    waiting: list[Event] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    sent: list[float] = field(default_factory=list)
    by_board: dict[str, list[float]] = field(default_factory=dict)
    trouble: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.dropped, int):  # of an earlier version
            self.dropped = {"": self.dropped} if self.dropped else {}

    def add(self, events: list[Event]) -> None:
        """Beyond MOST_WAITING, the board with the most alerts loses its oldest."""
        self.waiting = [*self.waiting, *events]
        counts = Counter(map(board_of, self.waiting))
        while len(self.waiting) > MOST_WAITING:
            board = counts.most_common(1)[0][0]
            place = next(n for n, one in enumerate(self.waiting) if board_of(one) == board)
            del self.waiting[place]
            counts[board] -= 1
            self.dropped[board] = self.dropped.get(board, 0) + 1

    def batch(self, now_s: float, most: int, lines: int) -> list[Event]:
        """The alerts of the next message, at most `lines`, chosen in turn from each board so that
        none takes another's lines. Boards that may still send come first, then the oldest alert."""
        ready = {one for one in self._boards() if self._room_of_s(one, now_s, most) <= 0}
        ranks: Counter[str] = Counter()
        ranked = []
        for place, one in enumerate(self.waiting):
            ranked.append((ranks[board_of(one)], place))
            ranks[board_of(one)] += 1
        chosen = [self.waiting[place] for _, place in sorted(ranked)[:lines]]
        order = {id(one): place for place, one in enumerate(self.waiting)}
        return sorted(chosen, key=lambda one: (board_of(one) not in ready, order[id(one)]))

    def rest(self, batch: list[Event]) -> dict[str, int]:
        """How many alerts wait besides those in the batch, by board."""
        gone = {id(one) for one in batch}
        return dict(Counter(board_of(one) for one in self.waiting if id(one) not in gone))

    def delivered(self, events: list[Event], dropped: dict[str, int], now_s: float) -> None:
        """Removes delivered alerts by identity, because the oldest may have been dropped
        meanwhile."""
        gone = {id(one) for one in events}
        self.waiting = [one for one in self.waiting if id(one) not in gone]
        left = {board: count - dropped.get(board, 0) for board, count in self.dropped.items()}
        self.dropped = {board: count for board, count in left.items() if count > 0}
        self.sent = [*_recent(self.sent, now_s), now_s]
        for board in {board_of(one) for one in events}:
            self.by_board.setdefault(board, []).append(now_s)
        recent = {board: _recent(times, now_s) for board, times in self.by_board.items()}
        self.by_board = {board: times for board, times in recent.items() if times}
        self.trouble = ""

    def room_in_s(self, now_s: float, most: int) -> float:
        """Seconds until the first board with waiting alerts may send."""
        return min((self._room_of_s(one, now_s, most) for one in self._boards()), default=0.0)

    def _room_of_s(self, board: str, now_s: float, most: int) -> float:
        """Seconds until the board may send: at most `most` messages per hour. The last quarter is
        reserved for boards that were in fewer messages than that, so a board with a loose contact
        cannot use up the alarms of another."""
        share = max(1, most // 4)
        own = _free_in_s(self.by_board.get(board, []), now_s, share)
        common = _free_in_s(self.sent, now_s, most - share)
        return max(_free_in_s(self.sent, now_s, most), min(own, common))

    def _boards(self) -> set[str]:
        return set(map(board_of, self.waiting))


def board_of(event: Event) -> str:
    return str(event.get("board", ""))


def _recent(times: list[float], now_s: float) -> list[float]:
    # times in the future come from a clock that was set back
    return [one for one in times if 0 <= now_s - one < HOUR_S]


def _free_in_s(times: list[float], now_s: float, most: int) -> float:
    """Seconds until fewer than `most` of the times are within the last hour."""
    recent = _recent(times, now_s)
    if len(recent) < most:
        return 0.0
    return recent[-most] + HOUR_S - now_s if most else HOUR_S


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
    """The ledger and the queues; hold `lock` when you use them. extra: belongs to watch.py."""

    def __init__(
        self,
        path: Path,
        channels: list[str],
        is_wanted: Callable[[str], bool],
        say: Callable[[str], None],
    ) -> None:
        """channels: the keys of the channels. Raises ToolError."""
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

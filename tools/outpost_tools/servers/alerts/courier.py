"""Delivers the alerts that wait for a channel: up to 50 of them in one message, which is retried at
increasing intervals. There is a limit of messages per hour, of which each board has its share.
Whatever the channel does, the others do not wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from outpost_tools.servers.alerts import channels
from outpost_tools.servers.alerts.ledger import Event
from outpost_tools.servers.alerts.recipients import Channel
from outpost_tools.servers.alerts.store import Store
from outpost_tools.servers.alerts.text import message
from outpost_tools.terminal.notices import Folded

_FIRST_S, _LAST_S = 15.0, 3600.0
_MOST_LINES = 50  # per message
_LOOK_S = 60.0  # the longest wait, because the clock used for the hourly limit may be set meanwhile
NEVER_S = float("inf")


def pause_s(failures: int) -> float:
    """The pause after that many failures: 15 s, 30 s, 60 s ... an hour."""
    return min(_FIRST_S * 2 ** min(failures - 1, 12), _LAST_S)


class Courier:
    """Call start(), then news() when something may be waiting. step() makes one turn."""

    def __init__(
        self,
        channel: Channel,
        store: Store,
        most_per_hour: int,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        send: Callable = channels.send,
    ) -> None:
        self._channel, self._store, self._most, self._say = channel, store, most_per_hour, say
        self._clock, self._steady, self._send = clock, steady, send
        self._queue = store.queues[channel.key]
        self._folded = Folded(say)
        self._failures = 0
        self._again_at = float("-inf")
        self._news = threading.Event()
        self._is_over = False

    def start(self) -> None:
        name = f"alerts-{self._channel.key}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def stop(self) -> None:
        """Does not wait for an attempt in progress: its alerts are still in the queue."""
        self._is_over = True
        self._news.set()

    def news(self) -> None:
        self._news.set()

    def _run(self) -> None:
        while not self._is_over:
            wait_s = self.step()
            self._news.wait(None if wait_s == NEVER_S else min(wait_s, _LOOK_S))
            self._news.clear()

    def step(self) -> float:
        """Makes one attempt if it is due. Returns the seconds until the next one."""
        with self._store.lock:
            now_s = self._clock()
            batch = self._queue.batch(now_s, self._most, _MOST_LINES)
            rest, dropped = self._queue.rest(batch), dict(self._queue.dropped)
            room_in_s = self._queue.room_in_s(now_s, self._most)
        if not batch:
            return NEVER_S
        wait_s = max(self._again_at - self._steady(), room_in_s)
        if room_in_s > 0:
            name = self._channel.name
            limit = f"{self._most} within an hour, or a board's share of them"
            self._folded.tell(f"alerts: {name}: {limit}; the rest waits")
        if wait_s > 0:
            return wait_s
        try:
            made = message(batch, dropped, rest)
            note = self._send(self._channel, made)
        except channels.Failed as error:
            return self._failed(str(error))
        except Exception as error:  # a bug of ours: the alert stays, and the others continue
            return self._failed(f"{type(error).__name__} in outpost itself")
        self._delivered(batch, dropped, made.title, note)
        return 0.0

    def _failed(self, why: str) -> float:
        self._failures += 1
        wait_s = pause_s(self._failures)
        self._again_at = self._steady() + wait_s
        self._folded.tell(f"alerts: {self._channel.name}: not sent: {why}; trying again")
        with self._store.lock:
            self._queue.trouble = why
        self._save()
        return wait_s

    def _delivered(
        self, batch: list[Event], dropped: dict[str, int], title: str, note: str
    ) -> None:
        self._failures, self._again_at = 0, float("-inf")
        with self._store.lock:
            self._queue.delivered(batch, dropped, self._clock())
        self._save()
        more = f"; {note}" if note else ""
        self._say(f"alerts: {self._channel.name}: sent{self._folded.over()}: {title}{more}")

    def _save(self) -> None:
        try:
            self._store.save()
        except OSError as error:
            self._say(f"alerts: {self._store.path}: {error.strerror}; repeated after a restart")

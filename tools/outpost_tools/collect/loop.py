"""The collector's one thread, and the order that its promise stands on: append, fsync, PUBACK, confirm.

Nothing is acknowledged before it is durable. When the disk refuses (full, or broken) the collector keeps what it has
taken, takes no more, and tries again: the broker's queue, and behind it the boards' flash, hold the rest.
"""

from __future__ import annotations

import sys
import threading
import time

from outpost_tools.collect.confirm import INTERVAL_S, Pacing
from outpost_tools.collect.link import Link, Received
from outpost_tools.collect.log import Log

DISK_RETRY_S = 1.0
STATS_INTERVAL_S = 5.0
# How long the last confirmations may wait for the broker's PUBACK at the end.
DRAIN_S = 2.0


class Collector:
    """Runs until stop() is called (from a signal handler), then drains and seals."""

    def __init__(self, log: Log, link: Link, *, prefix: str, segment_seconds: float, quiet: bool) -> None:
        self._log = log
        self._link = link
        self._prefix = prefix
        self._segment_seconds = segment_seconds
        self._quiet = quiet
        self._pacing = Pacing()
        self._stopping = threading.Event()
        self._stats = Stats(log.collector)

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> int:
        """0 after an orderly end; 1 when messages that were taken could not be stored (the broker has them still)."""
        while not self._stopping.is_set():
            wait_s = self._pacing.wait_s(time.monotonic()) if self._link.connected else INTERVAL_S
            if not self._step(wait_s):
                return 1
            if not self._quiet:
                self._stats.show_when_due(connected=self._link.connected)
        return self._drain()

    def _step(self, wait_s: float) -> bool:
        """Take what has arrived and deal with it; False when it could not be stored and the end was asked for."""
        received = self._link.take(wait_s)
        if received:
            if not self._store(received):
                return False
            self._link.ack(received)
            self._note(received)
        self._seal()
        self._confirm()
        return True

    def _store(self, received: list[Received]) -> bool:
        """Returns when all of it is durable; tries for ever, unless the end is asked for."""
        frames = [message.frame for message in received]
        complained = False
        while True:
            try:
                self._stats.timed(self._log.store, frames)
            except OSError as error:
                if not complained:
                    self._say(f"cannot write {self._log.directory}: {error}; acknowledging nothing until it can be written")
                complained = True
            else:
                if complained:
                    self._say("writing again")
                return True
            if self._stopping.wait(DISK_RETRY_S):
                self._say(f"{len(frames)} messages neither stored nor acknowledged; the broker keeps them")
                return False
            self._link.idle()

    def _note(self, received: list[Received]) -> None:
        for message in received:
            if message.key is not None:
                self._log.durable.add(message.key)
                self._pacing.mark(message.key.device)

    def _seal(self) -> None:
        try:
            self._log.seal_when_older(self._segment_seconds)
        except OSError as error:
            # Nothing is lost: the messages are durable, only not yet visible to readers. The next step tries again.
            self._say(f"cannot seal in {self._log.directory}: {error}")
            self._stopping.wait(DISK_RETRY_S)

    def _confirm(self, *, everything: bool = False) -> None:
        if not self._link.connected:
            return
        if self._link.fresh:
            # A broker that was killed may have forgotten retained messages, or gone back to older ones.
            self._link.fresh = False
            for device in self._log.durable.devices():
                self._pacing.mark(device)
        for device in self._pacing.due(time.monotonic(), everything=everything):
            payload = self._log.durable.confirmation(device)
            if payload is not None:
                self._link.publish(f"{self._prefix}/{device}/durable", payload)

    def _drain(self) -> int:
        """The last confirmations, then a clean end. What arrives meanwhile is stored like all else."""
        until = time.monotonic() + DRAIN_S
        self._confirm(everything=True)
        while self._link.connected and not self._link.everything_published and time.monotonic() < until:
            if not self._step(0.05):
                return 1
        self._link.close()
        try:
            self._log.close()
        except OSError as error:
            self._say(f"cannot seal in {self._log.directory}: {error}; the next start will")
            return 1
        if not self._quiet:
            self._stats.show(connected=False)
        return 0

    def _say(self, text: str) -> None:
        print(f"{self._log.collector}: {text}", file=sys.stderr, flush=True)


class Stats:
    """Counts for the line on stderr."""

    def __init__(self, collector: str) -> None:
        self._collector = collector
        self._messages = self._commits = 0
        self._fsync_s = 0.0
        self._shown_messages = 0
        self._shown_at = time.monotonic()

    def timed(self, store, frames: list[bytes]) -> None:
        """Call store(frames), count when it succeeds."""
        began = time.monotonic()
        store(frames)
        self._fsync_s += time.monotonic() - began
        self._commits += 1
        self._messages += len(frames)

    def show_when_due(self, *, connected: bool) -> None:
        if time.monotonic() - self._shown_at >= STATS_INTERVAL_S:
            self.show(connected=connected)

    def show(self, *, connected: bool) -> None:
        now = time.monotonic()
        rate = (self._messages - self._shown_messages) / max(now - self._shown_at, 1e-3)
        sync_ms = 1000 * self._fsync_s / max(self._commits, 1)
        print(
            f"{self._collector}: {self._messages} messages stored, {rate:.0f}/s, {self._commits} commits of "
            f"{sync_ms:.1f} ms, {'connected' if connected else 'not connected'}",
            file=sys.stderr,
            flush=True,
        )
        self._shown_messages, self._shown_at = self._messages, now

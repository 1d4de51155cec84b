"""What the collector knows of its machine's clock, and where it says so.

Frames that are stored while the clock is not known to be right are marked, so that no reader
compares their readings with the arrival (messages/arrival.py). machine/machine_clock.py judges;
what boards say is taken from at most _SAMPLES messages in _SAMPLE_S, because reading a message
takes ten times as long as storing it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from outpost_tools.log import collector_notes, segments
from outpost_tools.machine.machine_clock import MachineClock
from outpost_tools.messages import message
from outpost_tools.mqtt.packets import RETAIN, Publish
from outpost_tools.servers.collect.health import Health
from outpost_tools.servers.collect.metrics import Metrics
from outpost_tools.servers.collect.notes import Notes

FAR_S, AGREE_S = 86_400.0, 3600.0  # time zones and backlogs of an hour are no contradiction
_SAMPLE_S = 0.25
_SAMPLES = 8
_SET_S = 3600.0  # a change of the clock by this much is said


class CollectorClock:
    """is_unset: whether the frames to store now must be marked."""

    def __init__(self, judge: MachineClock) -> None:
        self._judge = judge
        self._sampled_at, self._samples = float("-inf"), 0
        self._told: str | None = None
        self.was_wrong = False  # at some message
        self._unset_messages = self._wrong_messages = 0

    @property
    def is_unset(self) -> bool:
        return self._judge.reason is not None

    def hear(self, publishes: list[Publish]) -> None:
        """Messages that have just arrived, before their frames are made."""
        now = time.monotonic()
        if now - self._sampled_at >= _SAMPLE_S:
            self._sampled_at, self._samples = now, 0
            self._judge.look()
        heard: set[bytes] = set()
        for kind, topic, _, payload in reversed(publishes):
            if self._samples == _SAMPLES:
                return
            if topic not in heard and not kind & RETAIN:
                heard.add(topic)
                self._samples += 1
                self._take(topic, payload)

    def _take(self, topic: bytes, payload: bytes) -> None:
        with contextlib.suppress(message.Malformed):
            found = message.decode(topic.decode("utf-8", "replace"), payload)
            times = [one.time_s for one in found.readings if one.time_s is not None]
            if times:
                self._judge.take(found.device, max(times))

    def stored(self, messages: int) -> None:
        self._unset_messages += messages * self.is_unset
        self._wrong_messages += messages * self._judge.is_wrong
        self.was_wrong = self.was_wrong or (self._judge.is_wrong and messages > 0)

    def tell(
        self, say: Callable[[str], None], health: Health, metrics: Metrics, notes: Notes
    ) -> None:
        """Call this now and then."""
        self._judge.look()
        reason, is_wrong = self._judge.reason, self._judge.is_wrong
        if abs(self._judge.set_by_s) >= _SET_S:
            say(f"this machine's clock was set by {self._judge.set_by_s:+.0f} s")
            self._judge.set_by_s = 0.0
        if (reason is None) != (self._told is None) or (is_wrong and reason != self._told):
            say(self._line(reason))
            self._told = reason
        health.tell("clock", reason if is_wrong else None)
        health.remark("clock", None if is_wrong else reason)
        metrics.clock_set.set(not self.is_unset)
        metrics.clock_unset_messages.set(self._unset_messages)
        notes.keep(collector_notes.CLOCK, self._wrong_messages, clock_unset=self.is_unset)

    def _line(self, reason: str | None) -> str:
        if reason is None:
            return (
                f"this machine's clock is known to be right; {self._unset_messages} messages were "
                "stored before that, marked, and readers do not compare their times with it"
            )
        return f"{reason}. Messages are stored and marked; set the clock (NTP)"


def newest_arrival_s(newest: segments.Contents | None) -> float:
    """The latest arrival in a log's newest sealed segment whose clock was known to be set; 0: no
    such arrival."""
    frames = newest.frames() if newest is not None else ()
    return max((one.arrival_ms or 0 for one in frames), default=0) / 1000

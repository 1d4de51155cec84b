"""The alerts of a live page: one thread that looks for problems, and one for each channel. They
only read the fleet, and nothing waits for them.
"""

from __future__ import annotations

import shutil
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from outpost_tools.messages.message import Message
from outpost_tools.servers.alerts import conditions
from outpost_tools.servers.alerts.conditions import View
from outpost_tools.servers.alerts.courier import Courier
from outpost_tools.servers.alerts.ledger import Told
from outpost_tools.servers.alerts.readings import Readings
from outpost_tools.servers.alerts.settings import Settings
from outpost_tools.servers.alerts.store import Store
from outpost_tools.servers.alerts.watched import Fleet, Follower
from outpost_tools.store import at, base
from outpost_tools.terminal.notices import Folded

_TURN_S = 2.0
_MINUTE_S = 60.0
_RECENT_S = 600.0  # messages that arrived longer ago cause no alert, not even after a restart
_AWAY_S = 300.0  # if we were not running for this long, silence counts from now
_JUMP_S = 30.0  # a larger jump: the clock was set, or the machine slept
_MOST_MESSAGES = 20_000
_HEALTH_S = 5.0
# The environment may name a proxy, which would not reach our own loopback address.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Alerts:
    """Call start(), and stop() at the end. turn() makes one check."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        fleet: Fleet,
        follower: Follower,
        log: str | Path | base.Store,
        say: Callable[[str], None],
        *,
        health: str = "",
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        couriers: Callable[..., Courier] = Courier,
    ) -> None:
        """health: the URL of the collector's /healthz; "": not known."""
        self._settings, self._store, self._fleet, self._follower = settings, store, fleet, follower
        self._log, self._health, self._clock, self._steady = at.at(log), health, clock, steady
        self._folded = Folded(say)
        told = [key for key in store.ledger.told if key.startswith("reading")]
        self._readings = Readings(settings.readings, told)
        self._arrived: deque[tuple[float, Message]] = deque(maxlen=_MOST_MESSAGES)
        self._couriers = [
            couriers(one, store, settings.most_per_hour, say) for one in settings.channels
        ]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._begin()

    def _begin(self) -> None:
        now_s = self._clock()
        extra = self._store.extra
        is_back = 0 <= now_s - extra.get("saved_s", 0.0) < _AWAY_S
        since_s = extra.get("since_s", now_s) if is_back else now_s
        self._since_s = min(since_s, now_s)
        # skip what was checked before a restart, unless the clock has been set back since
        upto_s = extra.get("upto_s", 0.0)
        self._upto_s = self._from_s = upto_s if upto_s <= now_s else 0.0
        self._offset_s = now_s - self._steady()
        self._saved_at = float("-inf")
        if self._settings.readings:
            self._fleet.on_message = self._on_message

    def start(self) -> None:
        for courier in self._couriers:
            courier.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for courier in self._couriers:
            courier.stop()
        if self._thread.is_alive():
            self._thread.join(10)

    def _on_message(self, message: Message, received_ms: int) -> None:
        """Called by the follower's thread, which holds the fleet's lock."""
        received_s = received_ms / 1000
        if received_s >= max(self._from_s, self._clock() - _RECENT_S):
            self._arrived.append((received_s, message))

    def _run(self) -> None:
        while not self._stopping.wait(_TURN_S):
            try:
                self.turn()
            except Exception as error:  # the next turn may succeed, and the page continues
                self._folded.tell(f"alerts: {type(error).__name__}: {error}; trying again")

    def turn(self) -> None:
        now_s, steady_s = self._clock(), self._steady()
        self._watch_clock(now_s, steady_s)
        if self._fleet.reading is not None:
            return  # the history is still being read, the newest first
        self._take_readings(now_s)
        trouble = self._collector()
        if trouble:
            self._since_s = now_s  # no board could reach us
        view = View(
            self._fleet, int(now_s * 1000), int(self._since_s * 1000), trouble,
            self._follower.reason, self._free(),
        )  # fmt: skip
        self._tell(view, now_s, steady_s)

    def _watch_clock(self, now_s: float, steady_s: float) -> None:
        jump_s = now_s - steady_s - self._offset_s
        self._offset_s += jump_s
        if abs(jump_s) > _JUMP_S:
            self._since_s = now_s
            self._readings.clock_set(jump_s, now_s)
            self._from_s = min(self._from_s, now_s - _RECENT_S)
            self._upto_s = min(self._upto_s, now_s)

    def _take_readings(self, now_s: float) -> None:
        with self._fleet.lock:
            arrived = list(self._arrived)
            self._arrived.clear()
        arrived.sort(key=lambda one: (one[0], one[1].stream, one[1].seq))
        for received_s, message in arrived:
            self._readings.take(message, received_s)
            self._upto_s = max(self._upto_s, received_s)
        self._readings.tick(now_s)

    def _collector(self) -> str:
        """What is wrong with the collector; "" if nothing is."""
        if not self._health:
            return "no collector stores what arrives" if self._fleet.is_collected is False else ""
        try:
            with _DIRECT.open(self._health, timeout=_HEALTH_S):
                return ""
        except urllib.error.HTTPError as error:
            return error.read(500).decode("utf-8", "replace").strip()
        except (OSError, HTTPException):
            return "it does not answer"

    def _free(self) -> int | None:
        try:
            return shutil.disk_usage(self._log.uri).free if self._log.is_local else None
        except OSError:
            return None

    def _tell(self, view: View, now_s: float, steady_s: float) -> None:
        store, readings = self._store, self._readings
        with store.lock:
            with self._fleet.lock:
                found = conditions.look(view, self._settings, store.ledger)
            held = found.held | {
                key for key in store.ledger.keys("reading") if key not in readings.well
            }
            now = found.conditions | readings.broken
            passed, readings.passed = readings.passed, {}
            events = []
            for one in (now | passed, now) if passed else (now,):
                events += store.ledger.update(
                    now_s, steady_s, one, is_known=lambda key: key not in held, over=self._over
                )
            store.add(events)
            store.extra = {
                "since_s": self._since_s, "upto_s": self._upto_s, "saved_s": now_s
            }  # fmt: skip
        self._save(steady_s, at_once=bool(events))
        if events:
            for courier in self._couriers:
                courier.news()

    def _over(self, key: str, told: Told) -> str:
        return self._readings.well.get(key) or conditions.over(told)

    def _save(self, steady_s: float, *, at_once: bool) -> None:
        """Saves new and ended problems at once, and each minute the time, to show that we ran."""
        if not at_once and steady_s - self._saved_at < _MINUTE_S:
            return
        self._saved_at = steady_s
        try:
            self._store.save()
        except OSError as error:
            self._folded.tell(
                f"alerts: {self._store.path}: {error.strerror}; what is reported now will be "
                "reported again after a restart"
            )

"""Server-sent events: what changed since a browser's last event. A browser that is slow, or was
away for a while, gets the newest state, not a queue of events: nothing is kept for it.

An event's id is `<server>-<version>`. The browser sends it when it reconnects. If the server has
been restarted since, the browser is told to reload the page.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from functools import lru_cache

from outpost_tools.servers.live import card, page, words
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.sensor import Sensor

STEP_S = 0.2  # between two events, at least
SLOW_STEP_S = 1.0  # the same when much changes
_MUCH = 500  # sensors
_ALIVE_S = 15.0  # after this time without a change, proxies and browsers get a sign of life
MOST_BROWSERS = 100


class Changes:
    """One for the whole server. changed() is called by the follower's thread."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._name = secrets.token_hex(4)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tick = asyncio.Event()
        self._pump: asyncio.Task | None = None
        self._version = fleet.version
        self._news = asyncio.Condition()
        self._is_over = False
        self.browsers = 0
        self._delta = lru_cache(maxsize=8)(self._delta_of)  # browsers at the same version share one

    def cursor(self) -> str:
        """The cursor of the current state, for a page that is made now. Hold the fleet's lock."""
        return f"{self._name}-{self._fleet.version}"

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pump = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._is_over = True
        if self._pump is not None:
            self._pump.cancel()
        async with self._news:
            self._news.notify_all()

    def changed(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed() and not self._is_over:
            loop.call_soon_threadsafe(self._tick.set)

    async def _run(self) -> None:
        """Sets the pace, which is the same for all browsers."""
        while True:
            await self._tick.wait()
            self._tick.clear()
            before, self._version = self._version, self._fleet.version
            async with self._news:
                self._news.notify_all()
            await asyncio.sleep(self._pause_s(before))

    def _pause_s(self, since: int) -> float:
        with self._fleet.lock:
            changed = sum(len(board.sensors) for board in self._fleet.changed_boards(since, None))
        return SLOW_STEP_S if changed > _MUCH else STEP_S

    async def stream(self, cursor: str, board: str | None) -> AsyncIterator[bytes]:
        """The events after `cursor`."""
        name, _, number = cursor.partition("-")
        if name != self._name or not number.isdecimal():
            yield b"event: reload\ndata: {}\n\n"
            return
        version = int(number)
        self.browsers += 1
        try:
            yield b"retry: 2000\n\n"
            while not self._is_over:
                if self._version > version:
                    now, version = version, self._version
                    data = await asyncio.to_thread(self._delta, now, version, board)
                    yield f"id: {self._name}-{version}\ndata: {data}\n\n".encode()
                elif not await self._wait(version):
                    yield f"data: {json.dumps({'now': self._fleet.clock()})}\n\n".encode()
        finally:
            self.browsers -= 1

    async def _wait(self, version: int) -> bool:
        """Waits for a version above `version`, or the end. False: nothing came for _ALIVE_S."""
        async with self._news:
            is_news = self._news.wait_for(lambda: self._version > version or self._is_over)
            try:
                await asyncio.wait_for(is_news, _ALIVE_S)
            except TimeoutError:
                return False
        return True

    def _delta_of(self, since: int, until: int, name: str | None) -> str:
        """The changes as JSON. It may contain changes newer than `until`: these are then sent
        twice, which does no harm."""
        fleet = self._fleet
        with fleet.lock:
            sensors, boards, cards = [], [], {}
            for board in fleet.changed_boards(since, name):
                boards.append([board.number, board.last_seen_ms, board.backlog])
                if board.facts_version > since:
                    cards[board.number] = card.card(fleet, board, is_alone=name is not None)
                else:
                    found = fleet.changed_sensors(board, since)
                    sensors += [_news_of(sensor, since) for sensor in found]
            told = {"now": fleet.clock(), "s": sensors, "b": boards, "cards": cards}
            if fleet.verdict_version > since and name is None:
                told["head"] = page.head(fleet)
                told["order"] = [board.number for board in fleet.in_order()]
        return json.dumps({key: value for key, value in told.items() if value})


def _news_of(sensor: Sensor, since: int) -> list:
    """[number, text, time, whether the time is that of the arrival, whether `points` replace all
    earlier ones, points]"""
    is_reset = sensor.reset_version > since
    points = [
        [point.time_ms, float(f"{point.value:.6g}")]
        for point in sensor.recent
        if is_reset or point.version > since
    ]
    text = words.text(sensor, sensor.newest.value)
    return [
        sensor.number, text, sensor.newest.time_ms, int(sensor.is_arrival), int(is_reset), points
    ]  # fmt: skip

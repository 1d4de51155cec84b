# CPython only
"""The module `asyncio` on CPython: its own, on a loop in the world's time, with the names that
MicroPython has beside.

**The law.** The loop waits by letting the world's time pass, never by waiting; so time limits are
exact, and an hour takes no time.
"""

import asyncio
import selectors
import types

from virtual.world import CALL_US

_FOREVER_US = 60_000_000


class _Selector(selectors.SelectSelector):
    """What CPython's loop waits with. It has no file to watch but its own pipe."""

    def __init__(self, world):
        super().__init__()
        self._world = world

    def select(self, timeout=None):
        us = _FOREVER_US if timeout is None else -int(-timeout * 1_000_000 // 1)
        if us > 0:
            self._world.sleep_us(us)
        else:
            self._world.pass_us(CALL_US)
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, world):
        self._world = world
        super().__init__(_Selector(world))
        self._clock_resolution = 1e-6

    def time(self):
        return self._world.now_us / 1_000_000


def module_of(port):
    world = port.world
    made = types.ModuleType("asyncio")
    made.__dict__.update({name: getattr(asyncio, name) for name in asyncio.__all__})
    loops = []

    def get_event_loop():
        if not loops:
            loops.append(_Loop(world))
        return loops[0]

    def new_event_loop():
        loops.clear()
        return get_event_loop()

    def run(main):
        loop = _Loop(world)
        try:
            return loop.run_until_complete(main)
        finally:
            _leave(loop)

    made.run, made.get_event_loop, made.new_event_loop = run, get_event_loop, new_event_loop
    made.sleep_ms = lambda ms: asyncio.sleep(ms / 1000)
    made.wait_for_ms = lambda awaitable, ms: asyncio.wait_for(awaitable, ms / 1000)
    made.ticks, made.ticks_diff = port.time.ticks_ms, port.time.ticks_diff
    made.ticks_add = port.time.ticks_add
    made.ThreadSafeFlag = _flag_of()
    return made


def _leave(loop):
    """What still runs is dropped, as on a board: nobody is told."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False
    loop.close()


def _flag_of():
    class ThreadSafeFlag(asyncio.Event):
        """An interrupt may set it; one task waits, and finds it clear afterwards."""

        async def wait(self):
            await super().wait()
            self.clear()

    return ThreadSafeFlag

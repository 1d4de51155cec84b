"""MicroPython only: the heap is locked whenever the program itself runs, and unlocked inside the
world. So an allocation of the program raises MemoryError at its line, and what the world allocates
does not count.

Each function that a program can call is wrapped, once for a boot. A wrapper may not allocate before
it has unlocked: no `*args`, at most five words of arguments and closed variables, a small frame.
"""

from micropython import heap_lock, heap_unlock

_NONE = object()  # an argument that was not given
# What loops call, with arguments by position alone; all else is for setting up
_IN_LOOPS = (
    "any", "close", "feed", "ioctl", "ipoll", "isconnected", "off", "on", "poll", "read",
    "read_u16", "read_uv", "readblocks", "readfrom_into", "readfrom_mem_into", "readinto", "recv",
    "send", "sleep", "sleep_ms", "sleep_us", "status", "ticks_ms", "ticks_us", "time", "toggle",
    "value", "write", "writeblocks", "writeto", "writeto_mem",
)  # fmt: skip


class Guard:
    """after_s: from then on, in virtual time; before that, programs set themselves up."""

    def __init__(self, world, after_s):
        self._world, self._after_us = world, int(after_s * 1_000_000)
        self._depth = 0
        self._is_locked = False

    def enter(self):
        self._depth += 1
        if self._is_locked:
            heap_unlock()
            self._is_locked = False

    def leave(self):
        self._depth -= 1
        if not self._depth and not self._world.dead and self._world.now_us >= self._after_us:
            self._is_locked = True
            heap_lock()

    def off(self):
        if self._is_locked:
            heap_unlock()
            self._is_locked = False

    # --- What is wrapped ---

    def module(self, found):
        """A module of the port, or an object in place of one."""
        for name in dir(found):
            value = getattr(found, name)
            if isinstance(value, type):
                self.kind(value)
            elif name in _IN_LOOPS:
                setattr(found, name, _function((value, self)))

    def kind(self, found):
        """The methods of a class. Not its constructor: whoever makes an object allocates."""
        for base in (found,) + found.__bases__:
            if base is object:
                continue
            for name in dir(base):
                method = getattr(base, name)
                if name in _IN_LOOPS and getattr(method, "__name__", "") != "call":
                    setattr(base, name, _method((method, self)))


def _function(pair):
    def call(a=_NONE, b=_NONE, c=_NONE):
        pair[1].enter()
        try:
            if c is not _NONE:
                return pair[0](a, b, c)
            if b is not _NONE:
                return pair[0](a, b)
            return pair[0]() if a is _NONE else pair[0](a)
        finally:
            pair[1].leave()

    return call


def _method(pair):
    def call(me, a=_NONE, b=_NONE, c=_NONE):
        pair[1].enter()
        try:
            if c is not _NONE:
                return pair[0](me, a, b, c)
            if b is not _NONE:
                return pair[0](me, a, b)
            return pair[0](me) if a is _NONE else pair[0](me, a)
        finally:
            pair[1].leave()

    return call

"""The path between a client and mixed_server.py, and the weather that decides what happens on it.

In bad weather the path accepts a part of a packet, delays, breaks, or dies: it then accepts
everything and delivers nothing.
"""

from __future__ import annotations

import random

from mixed_packets import first_packet

_BREAKS, _TAKES_A_PART, _DIES = 0.01, 0.1, 0.01  # of the writes
_MOST_READ = 64
_DELAYS_MS = (0, 5, 40, 300)
_BAD_FILE, _RESET = 9, 104  # error numbers


class Weather:
    """The time, the choices of one seed, and whether things still go wrong."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_ms = 0
        self.is_bad = True

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def may(self, share: float) -> bool:
        """As chance(), in bad weather only."""
        return self.is_bad and self.chance(share)


class Stream:
    """A connection as Client sees it. The server's half overrides on_packet()."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.is_dead = self.is_closed = self.is_ended = False
        self._written = b""
        self._to_read: list[tuple[int, bytes]] = []  # (from this time on, data); b"": the end

    def write(self, buf, offset, length):
        weather, count = self.weather, length
        if self.is_closed:
            raise OSError(_BAD_FILE)
        if self.is_dead:
            return length
        if weather.may(_BREAKS):
            raise OSError(_RESET)
        if weather.may(_TAKES_A_PART):
            count = weather.rng.randint(0, length)
        self.is_dead = weather.may(_DIES)
        self._written += bytes(buf[offset : offset + count])
        self._serve()
        return count or None

    def readinto(self, buf):
        if self.is_closed:
            raise OSError(_BAD_FILE)
        if not self._to_read or self._to_read[0][0] > self.weather.now_ms:
            return None
        at_ms, data = self._to_read[0]
        most = self.weather.rng.randint(1, _MOST_READ) if self.weather.is_bad else _MOST_READ
        count = min(len(buf), len(data), most)
        buf[:count] = data[:count]
        if data[count:]:
            self._to_read[0] = at_ms, data[count:]
        elif data:
            self._to_read.pop(0)
        return count

    def close(self):
        self.is_closed = True

    def send(self, data: bytes) -> None:
        """Send bytes to the client, after those sent before."""
        if self.is_dead or self.is_ended:
            return
        at_ms = self.weather.now_ms + self.weather.rng.choice(_DELAYS_MS)
        if self._to_read:
            at_ms = max(at_ms, self._to_read[-1][0])
        self._to_read.append((at_ms, data))

    def end(self) -> None:
        """The peer closes when all that it has sent is read."""
        self.send(b"")
        self.is_ended = True

    def _serve(self) -> None:
        while found := first_packet(self._written):
            first, body, size = found
            self._written = self._written[size:]
            if not self.is_ended:
                self.on_packet(first, body, size)

    def on_packet(self, first: int, body: bytes, size: int) -> None:
        raise NotImplementedError

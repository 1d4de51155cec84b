"""A UART of the emulated chip with a network behind it: PPP, TCP, UDP (ppp.py, network.py).

Knows the chip's time. With `in_real_time` the chip never runs ahead of the clock on the wall, which
servers of this machine live by. Must not know: what runs on the chip.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rp2040.chip import Chip
from rp2040.clock import CYCLES_PER_MS, HZ
from rp2040.network import Network, Stream
from rp2040.ppp import Ppp

_STEP_MS = 1  # how long a byte may wait at our end
_AHEAD_S = 0.02


class PppLine:
    def __init__(
        self,
        chip: Chip,
        open_stream: Callable[[int], Stream | None],
        udp: dict[int, Callable[[bytes], bytes | None]] | None = None,
        uart: int = 0,
    ) -> None:
        self._chip, self._uart = chip, chip.uarts[uart]
        self.ppp = Ppp()
        self.network = Network(self.ppp.send, open_stream, udp)
        self.ppp.on_packet = self.network.packet
        self._uart.on_bytes = self.ppp.receive

    def run(self, seconds: float, is_done: Callable[[], bool], in_real_time: bool = False) -> bool:
        """Runs the chip for so long of its time, or until is_done(). Returns is_done()."""
        clock = self._chip.clock
        began, start = time.monotonic(), clock.cycles
        while not is_done() and clock.cycles - start < seconds * HZ:
            self._chip.run(until=clock.cycles + _STEP_MS * CYCLES_PER_MS)
            self.network.pump(clock.cycles // CYCLES_PER_MS)
            if answer := self.ppp.take():
                self._uart.feed(answer)
            if in_real_time:
                ahead_s = (clock.cycles - start) / HZ - (time.monotonic() - began)
                if ahead_s > _AHEAD_S:
                    time.sleep(ahead_s)
        return is_done()

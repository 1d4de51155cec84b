"""A Pico W that runs the shipped firmware: chip, USB console, and the network at its UART.

`flash_image()` combines the files that `outpost flash` leaves on a board (payload.py of the tools)
with the replacements for `network` and `socket` in /lib. A power cut is an exception from run():
then make a new Board from `image`. Must not know: MQTT, brokers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

from rp2040 import littlefs
from rp2040.chip import Chip, Reset
from rp2040.clock import HZ
from rp2040.compiled import compile_one
from rp2040.image import symbol as image_symbol
from rp2040.pace import Pace
from rp2040.ppp_line import PppLine
from rp2040.uart_link import Network, UartLink
from rp2040.usb import Console, Terminal

ON_CHIP = Path(__file__).with_name("on_chip")
STAND_INS = ("network", "rig_link", "socket")


@functools.cache
def stand_ins() -> dict[str, bytes]:
    """Compiled, because a board has network and socket built in, and a start should not include
    compiling."""
    return {
        f"/lib/{name}.mpy": compile_one(ON_CHIP / f"{name}.py", f"{name}.py") for name in STAND_INS
    }


def ppp_stand_in() -> dict[str, bytes]:
    """For an interpreter with lwIP: only the radio is not the port's."""
    return {
        "/lib/ppp_wlan.py": (ON_CHIP / "ppp_wlan.py").read_bytes(),
        "/boot.py": b"import ppp_wlan\n",
    }


def flash_image(
    firmware: bytes,
    payload: dict[str, bytes],
    settings: dict,
    network: dict[str, bytes] | None = None,
) -> bytes:
    """firmware: the interpreter. payload: path -> bytes, of outpost_tools.boards.files.payload.

    network: what replaces the radio, or the whole network (the default).
    """
    if network is None:
        network = stand_ins()
    files = {**payload, **network, "/settings.json": json.dumps(settings).encode()}
    return littlefs.with_files(firmware, files)


class Board:
    """image: of the whole flash. text: everything that the USB console printed.

    has_terminal: its USB port is the pseudo-terminal `terminal.path`. link: called with chip and
    network; makes its network. With servers that are objects (MemoryLink) the chip runs as fast as
    it can; otherwise its time is bound to real time.
    """

    def __init__(
        self,
        image: bytes,
        network: Network | None = None,
        seed: int = 1,
        speed: float = 10.0,
        has_terminal: bool = False,
        link: Callable[[Chip, Network], UartLink | PppLine] = UartLink,
    ) -> None:
        self.chip = Chip(image, seed)
        self.network = network or Network()
        self.link = link(self.chip, self.network)
        self.terminal = Terminal(self.chip, self._print) if has_terminal else None
        self.console = self.terminal.console if self.terminal else Console(self.chip, self._print)
        sources = [source for source in (self.link, self.terminal) if source and source.is_real]
        self.pace = Pace(self.chip, sources, speed)
        self.text = ""
        self.feeds = 0  # of the watchdog since the last reset: one per pass of the program's loop
        self._feed = self.chip.mcu.watchdog.write_uint32
        self.chip.mcu.watchdog.write_uint32 = self._watch
        self.chip.on_reset = self._reset

    @property
    def image(self) -> bytes:
        return bytes(self.chip.mcu.flash)

    @property
    def seconds(self) -> float:
        """Returns the chip's time since power-on."""
        return self.chip.clock.cycles / HZ

    def close(self) -> None:
        self.link.close()
        if self.terminal:
            self.terminal.close()

    def run_for(self, seconds: float, is_done=None) -> bool:
        return self.pace.run_for(seconds, is_done)

    def _print(self, data: bytes) -> None:
        self.text += data.decode(errors="replace")

    def _watch(self, offset: int, value: int) -> None:
        self.feeds += offset == 4  # LOAD
        self._feed(offset, value)

    def _reset(self, _reset: Reset) -> None:
        self.link.reset()
        self.feeds = 0

    def count_calls(self, image: Path, function: str) -> None:
        """From now on `calls` counts how often a function of the interpreter was entered."""
        self.chip.core.state.watched = image_symbol(image, function)
        self.chip.core.state.watched_calls = 0

    @property
    def calls(self) -> int:
        return self.chip.core.state.watched_calls

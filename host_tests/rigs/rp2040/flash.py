"""The flash chip of the board: a serial NOR flash of 2 MB that takes time, wears, and may lose
power during an operation.

`Nor` is the chip: bytes, commands, counters, cuts. `FlashPort` connects it to rp2040py's SSI,
through which the boot ROM clocks commands in and out; reads through the XIP window do not come
here. Must not know: littlefs, the firmware, MicroPython.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rp2040py.peripherals.ssi import RPSSI

from rp2040.clock import CYCLES_PER_US, Clock

FLASH_BYTES = 2 * 1024 * 1024
PAGE_BYTES = 256
SECTOR_BYTES = 4096
BLOCK_BYTES = 65536
# Typical times of the W25Q16JV on a Pico; its worst times are 3 ms, 400 ms and 2 s.
PROGRAM_US, SECTOR_ERASE_US, BLOCK_ERASE_US = 400, 45_000, 150_000

WRITE_ENABLE, WRITE_DISABLE, WRITE_STATUS, PROGRAM = 0x06, 0x04, 0x01, 0x02
STATUS, STATUS_2, READ, JEDEC, UNIQUE_ID = 0x05, 0x35, 0x03, 0x9F, 0x4B
ERASE_SECTOR, ERASE_BLOCK = 0x20, 0xD8
BUSY_BIT, WRITE_ENABLED_BIT, QUAD_ENABLED_BIT = 1, 2, 2
JEDEC_ID = b"\xef\x40\x15"
CHIP_ID = b"\xe6\x60\x58\x38\x83\x12\x34\x56"


class PowerCut(Exception):
    """The board lost its power at a flash operation; the image is as the chip would hold it."""


@dataclass(slots=True)
class Operation:
    number: int  # 1 for the first since this chip object was constructed
    kind: str  # "program" or "erase"
    address: int
    length: int
    data: bytes = b""  # of a program


@dataclass(slots=True)
class Cut:
    """Where the power goes. done_bytes: of the operation, before the cut; None: it completes
    first."""

    operation: int
    done_bytes: int | None = 0
    undone_bits: int = 0xFF  # of the byte after those: the bits that keep their old value


@dataclass(slots=True)
class Counters:
    programs: int = 0
    erases: int = 0
    programmed_bytes: int = 0
    busy_cycles: int = 0
    erases_of: dict[int, int] = field(default_factory=dict)  # by sector


class Nor:
    """image: FLASH_BYTES long, changed in place. Programs only clear bits."""

    def __init__(self, image: bytearray, clock: Clock) -> None:
        self.image = image
        self.counters = Counters()
        self.operations = 0
        self.cut: Cut | None = None
        self.on_operation: Callable[[Operation], None] | None = None
        self.program_us, self.sector_erase_us, self.block_erase_us = (
            PROGRAM_US,
            SECTOR_ERASE_US,
            BLOCK_ERASE_US,
        )
        self._clock = clock
        self._busy_until = 0
        self._write_enabled = False
        self._sent = bytearray()  # of the present command

    def select(self) -> None:
        self._sent.clear()

    def exchange(self, byte: int) -> int:
        """One byte into the chip and one out of it."""
        self._sent.append(byte)
        position, command = len(self._sent) - 1, self._sent[0]
        if position == 0:
            if command in (WRITE_ENABLE, WRITE_DISABLE):
                self._write_enabled = command == WRITE_ENABLE
            return 0xFF
        if command == STATUS:
            return self._status()
        if command == STATUS_2:
            return QUAD_ENABLED_BIT
        if command == READ and position >= 4:
            return self.image[(self._address() + position - 4) % len(self.image)]
        if command == JEDEC:
            return JEDEC_ID[(position - 1) % 3]
        if command == UNIQUE_ID and position >= 5:
            return CHIP_ID[(position - 5) % 8]
        return 0xFF

    def send(self, data: bytes) -> None:
        """Send more bytes of the present command; the chip returns nothing."""
        self._sent += data

    def deselect(self) -> None:
        """The chip acts on a command when it is deselected."""
        sent = self._sent
        if not sent or sent[0] not in (PROGRAM, ERASE_SECTOR, ERASE_BLOCK, WRITE_STATUS):
            return
        if self._write_enabled and sent[0] == PROGRAM and len(sent) > 4:
            self._program(self._address(), bytes(sent[4 : 4 + PAGE_BYTES]))
        elif self._write_enabled and sent[0] in (ERASE_SECTOR, ERASE_BLOCK) and len(sent) >= 4:
            size = SECTOR_BYTES if sent[0] == ERASE_SECTOR else BLOCK_BYTES
            self._erase(self._address() & ~(size - 1), size)
        self._write_enabled = False
        self._sent.clear()

    def _address(self) -> int:
        return (self._sent[1] << 16 | self._sent[2] << 8 | self._sent[3]) % len(self.image)

    def _status(self) -> int:
        """While the chip is busy the boot ROM polls without a pause: one answer skips all that
        time."""
        if self._clock.cycles < self._busy_until:
            self._clock.skip_to(self._busy_until)
            return BUSY_BIT
        return WRITE_ENABLED_BIT if self._write_enabled else 0

    def _program(self, address: int, data: bytes) -> None:
        done = self._begin(Operation(self.operations + 1, "program", address, len(data), data))
        old = self.image[address : address + done]
        self.image[address : address + done] = bytes(a & b for a, b in zip(old, data, strict=False))
        if done < len(data):
            self.image[address + done] &= data[done] | self.cut.undone_bits
        self.counters.programs += 1
        self.counters.programmed_bytes += done
        self._end(self.program_us)

    def _erase(self, address: int, size: int) -> None:
        done = self._begin(Operation(self.operations + 1, "erase", address, size))
        self.image[address : address + done] = b"\xff" * done
        if done < size:
            self.image[address + done] |= ~self.cut.undone_bits & 0xFF
        self.counters.erases += size // SECTOR_BYTES
        for sector in range(address // SECTOR_BYTES, (address + size) // SECTOR_BYTES):
            self.counters.erases_of[sector] = self.counters.erases_of.get(sector, 0) + 1
        self._end(self.sector_erase_us if size == SECTOR_BYTES else self.block_erase_us)

    def _begin(self, operation: Operation) -> int:
        """Returns how many of its bytes to do before the power goes. on_operation may set the
        cut."""
        self.operations = operation.number
        if self.on_operation:
            self.on_operation(operation)
        if self.cut and self.operations == self.cut.operation and self.cut.done_bytes is not None:
            return min(operation.length, self.cut.done_bytes)
        return operation.length

    def _end(self, micros: int) -> None:
        if self.cut and self.operations >= self.cut.operation:
            raise PowerCut(f"at flash operation {self.operations}")
        self.counters.busy_cycles += micros * CYCLES_PER_US
        self._busy_until = self._clock.cycles + micros * CYCLES_PER_US


class FlashPort(RPSSI):
    """rp2040py's SSI with our chip on it: the same registers and chip select, but other commands.

    core.c collects the bytes of a page to program: see send_page() there.
    """

    def __init__(self, rp2040, name: str, nor: Nor) -> None:
        super().__init__(rp2040, name)
        self.nor = nor
        self._state = rp2040.core.state

    def _shift_byte(self, byte_out: int) -> int:
        if not self._tx_buffer:  # rp2040py empties it when the chip is selected
            self.nor.select()
            self._tx_buffer.append(byte_out)
            if byte_out == PROGRAM:
                self._state.is_page_sent, self._state.page_bytes, self._state.page_unread = 1, 0, 1
        return self.nor.exchange(byte_out)

    def _apply_command(self) -> None:
        self._tx_buffer = bytearray()
        if self._state.is_page_sent:
            self._state.is_page_sent = 0
            self.nor.send(bytes(self._state.page[: self._state.page_bytes]))
        self.nor.deselect()

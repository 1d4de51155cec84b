"""A UART of the chip (PL011) with its FIFOs, interrupts and the time that a byte takes on the line.

rp2040py's own UART has no transmit FIFO and keeps its transmit interrupt raised, so a driver with a
buffer never leaves its handler. `on_bytes` gets what the chip sends; `feed` queues what it will
receive. Must not know: what the bytes mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rp2040py.peripherals.peripheral import BasePeripheral

from rp2040.clock import HZ

FIFO_BYTES = 32
DR, RSR, FR, IBRD, FBRD, LCR_H, CR, IFLS, IMSC, RIS, MIS, ICR, DMACR = (
    0x00, 0x04, 0x18, 0x24, 0x28, 0x2C, 0x30, 0x34, 0x38, 0x3C, 0x40, 0x44, 0x48,
)  # fmt: skip
TX_EMPTY, RX_FULL, TX_FULL, RX_EMPTY, BUSY = 1 << 7, 1 << 6, 1 << 5, 1 << 4, 1 << 3
TX_INTERRUPT, RX_INTERRUPT, TIMEOUT_INTERRUPT = 1 << 5, 1 << 4, 1 << 6
ENABLED = 1
_LEVELS = (4, 8, 16, 24, 28, 28, 28, 28)  # of 32, for the values of IFLS
_BITS_PER_BYTE = 10
_TIMEOUT_BITS = 32


class Uart(BasePeripheral):
    def __init__(self, rp2040, name: str, irq: int) -> None:
        super().__init__(rp2040, name)
        self.on_bytes: Callable[[bytes], None] | None = None
        self._irq = irq
        self._line: deque[int] = deque()  # in transit to the chip
        self._tx_alarm = rp2040.clock.create_alarm(self._sent_one)
        self._rx_alarm = rp2040.clock.create_alarm(self._received_one)
        self._timeout_alarm = rp2040.clock.create_alarm(self._timed_out)
        self._clear()

    def _clear(self) -> None:
        self._registers = {
            IBRD: 0,
            FBRD: 0,
            LCR_H: 0,
            CR: 0x300,
            IFLS: 0x12,
            IMSC: 0,
            DMACR: 0,
            RSR: 0,
        }
        self._tx: deque[int] = deque()
        self._rx: deque[int] = deque()
        self._raised = 0

    def reset(self) -> None:
        self._clear()
        for alarm in (self._tx_alarm, self._rx_alarm, self._timeout_alarm):
            alarm.cancel()
        self._line.clear()
        self._tell()

    # --- the host's end ---------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Queue bytes for the chip, at the speed of the line, which waits while the FIFO is
        full."""
        self._line.extend(data)
        if self._line and not self._rx_alarm.scheduled:
            self._rx_alarm.schedule(self._byte_ns())

    @property
    def unread(self) -> int:
        """Returns how many bytes the program has not taken yet."""
        return len(self._line) + len(self._rx)

    # --- the line ---------------------------------------------------------------------------------

    def _byte_ns(self) -> float:
        divider = self._registers[IBRD] + self._registers[FBRD] / 64
        return max(divider, 1) * 16 * _BITS_PER_BYTE * 1e9 / HZ

    def _sent_one(self) -> None:
        byte = self._tx.popleft()
        if self._tx:
            self._tx_alarm.schedule(self._byte_ns())
        if len(self._tx) <= _LEVELS[self._registers[IFLS] & 7]:
            self._raised |= TX_INTERRUPT
        if self.on_bytes:
            self.on_bytes(bytes((byte,)))
        self._tell()

    def _received_one(self) -> None:
        if not self._registers[CR] & ENABLED:
            self._line.popleft()  # no one listens
        elif len(self._rx) < FIFO_BYTES:
            self._rx.append(self._line.popleft())
            if len(self._rx) >= _LEVELS[self._registers[IFLS] >> 3 & 7]:
                self._raised |= RX_INTERRUPT
            self._timeout_alarm.schedule(self._byte_ns() * _TIMEOUT_BITS / _BITS_PER_BYTE)
        if self._line:
            self._rx_alarm.schedule(self._byte_ns())
        self._tell()

    def _timed_out(self) -> None:
        if self._rx:
            self._raised |= TIMEOUT_INTERRUPT
            self._tell()

    def _tell(self) -> None:
        self.rp2040.set_interrupt(self._irq, bool(self._raised & self._registers[IMSC]))

    # --- the registers ----------------------------------------------------------------------------

    def read_uint32(self, offset: int) -> int:
        if offset == DR:
            return self._take()
        if offset == FR:
            return self._flags()
        if offset == RIS:
            return self._raised
        if offset == MIS:
            return self._raised & self._registers[IMSC]
        return self._registers.get(offset, 0)

    def _take(self) -> int:
        if not self._rx:
            return 0
        byte = self._rx.popleft()
        if len(self._rx) < _LEVELS[self._registers[IFLS] >> 3 & 7]:
            self._raised &= ~RX_INTERRUPT
        if not self._rx:
            self._raised &= ~TIMEOUT_INTERRUPT
        else:
            self._timeout_alarm.schedule(self._byte_ns() * _TIMEOUT_BITS / _BITS_PER_BYTE)
        self._tell()
        return byte

    def _flags(self) -> int:
        flags = (BUSY if self._tx else TX_EMPTY) | (0 if self._rx else RX_EMPTY)
        full = (TX_FULL if len(self._tx) >= FIFO_BYTES else 0) | (
            RX_FULL if len(self._rx) >= FIFO_BYTES else 0
        )
        return flags | full

    def write_uint32(self, offset: int, value: int) -> None:
        if offset == DR:
            self._send(value & 0xFF)
        elif offset == ICR:
            self._raised &= ~self.raw_write_value
            self._tell()
        elif offset in self._registers:
            self._registers[offset] = value & 0xFFFF
            self._tell()

    def _send(self, byte: int) -> None:
        if len(self._tx) >= FIFO_BYTES:
            return
        self._tx.append(byte)
        if len(self._tx) > _LEVELS[self._registers[IFLS] & 7]:
            self._raised &= ~TX_INTERRUPT
            self._tell()
        if not self._tx_alarm.scheduled:
            self._tx_alarm.schedule(self._byte_ns())

"""The network at the chip's UART with servers that are objects here: no sockets, no real time."""

from __future__ import annotations

from collections.abc import Callable

from rp2040.chip import Chip
from rp2040.mqtt_peer import Closed, Collector
from rp2040.uart_link import CHUNK_BYTES, ENDED, FAILED, OPENED, RECEIVED, Network, UartLink

ANSWER_MS = 5
_REFUSED = b"\x6f"  # ECONNREFUSED


class MemoryLink(UartLink):
    """Every TCP connection leads to the collector; an answer takes ANSWER_MS of the chip's time."""

    is_real = False

    @classmethod
    def to(cls, collector: Collector) -> Callable[[Chip, Network], MemoryLink]:
        """For Board's `link`."""
        return lambda chip, network: cls(chip, network, collector)

    def __init__(self, chip: Chip, network: Network, collector: Collector) -> None:
        super().__init__(chip, network, now_s=lambda: 1_763_694_000 + chip.clock.nanos / 1e9)
        self.collector = collector
        self._open = 0  # the connected socket; 0: none
        self._answers: list[bytes] = []
        self._alarm = chip.clock.create_alarm(self._answer_now)

    def reset(self) -> None:
        super().reset()
        self._open = 0
        self._answers.clear()
        self._alarm.cancel()

    def _connect(self, number: int, where: bytes) -> None:
        if not self.network.broker:
            self.tell(number, FAILED, _REFUSED)
            return
        self._open = number
        self.collector.open()
        self.connects += 1
        self.tell(number, OPENED)

    def _send(self, number: int, payload: bytes) -> None:
        if number != self._open:
            return
        try:
            answer = self.collector.receive(payload)
        except Closed:
            self._end(number)
            return
        if answer:
            self._answers.append(answer)
            self._alarm.schedule(ANSWER_MS * 1_000_000)

    def _answer_now(self) -> None:
        data = b"".join(self._answers)
        self._answers.clear()
        for at in range(0, len(data), CHUNK_BYTES):
            self.tell(self._open, RECEIVED, data[at : at + CHUNK_BYTES])

    def _end(self, number: int) -> None:
        self._drop(number)
        self.tell(number, ENDED)

    def _drop(self, number: int) -> None:
        if number == self._open:
            self._open = 0
            self._answers.clear()
            self._alarm.cancel()

"""The host's end of the network at the chip's UART: frames of on_chip/rig_link.py to real sockets.

TCP goes to the loopback address only, at the port that the board requests, whatever its address.
Names (DNS) and time (SNTP) are answered here. The fields of `Network` switch the parts on and off.
Must not know: MQTT, the firmware.
"""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import time
from dataclasses import dataclass

from rp2040.chip import Chip

CONNECT, DATAGRAMS, DATA, CLOSE, JOIN, LEAVE = 1, 2, 3, 4, 5, 6  # from the chip
OPENED, FAILED, RECEIVED, ENDED, WIFI, FAULT = 11, 12, 13, 14, 15, 16  # to it
CRASH, HANG = 1, 2  # kinds of FAULT
CHUNK_BYTES = 256  # of a frame's payload to the chip; rig_link.py has a buffer of that size
MOST_UNREAD = 2048  # bytes on the line; more waits in the socket
WIFI_DOWN, WIFI_JOINING, WIFI_JOINED, WIFI_NO_NETWORK = 0, 1, 3, -2
JOIN_MS = 800
DNS_PORT, NTP_PORT = 53, 123
_NTP_EPOCH = 2_208_988_800  # 1970 in seconds since 1900


@dataclass(slots=True)
class Network:
    """What works at the moment. ports: the board's ports -> ports here, where they differ."""

    wifi: bool = True
    broker: bool = True  # connects to it succeed; False: existing connections are cut
    path: bool = True  # False: packets vanish, with no error
    names: bool = True
    time: bool = True
    ports: dict[int, int] | None = None


def dns_reply(question: bytes, address: bytes = b"\x7f\0\0\1") -> bytes:
    """Returns the answer to a query with one question: that address."""
    head = question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0"
    return head + question[12:] + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + address


def ntp_reply(question: bytes, now_s: float) -> bytes:
    seconds = int(now_s)
    stamp = struct.pack(">II", seconds + _NTP_EPOCH & 0xFFFFFFFF, int((now_s - seconds) * 2**32))
    return b"\x24\1\0\0" + bytes(20) + question[40:48] + stamp + stamp


class UartLink:
    """fileno() for select, pump() to move data. now_s: the time server's time."""

    is_real = True  # it leads to servers in real time

    def __init__(self, chip: Chip, network: Network, now_s=time.time) -> None:
        self._chip, self._uart, self._now_s = chip, chip.uarts[1], now_s
        self.network = network
        self._selector = selectors.DefaultSelector()
        self._received = bytearray()
        self._sockets: dict[int, socket.socket] = {}
        self._datagrams: dict[int, int] = {}  # socket number -> port
        self._waiting: dict[int, bytearray] = {}  # for a socket that accepts no more at the moment
        self._join_alarm = chip.clock.create_alarm(self._joined)
        self._is_joined = False
        self.connects = self.from_chip_bytes = self.to_chip_bytes = 0
        self._uart.on_bytes = self._take

    def fileno(self) -> int:
        return self._selector.fileno()

    def reset(self) -> None:
        """The chip was reset: it left the network silently."""
        for number in [*self._sockets]:
            self._drop(number)
        self._datagrams.clear()
        self._received.clear()
        self._join_alarm.cancel()
        self._is_joined = False

    def close(self) -> None:
        self.reset()
        self._selector.close()

    # --- from the chip ----------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            number, operation, length = struct.unpack_from("<BBH", self._received)
            if len(self._received) < 4 + length:
                return
            payload = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            self._act(number, operation, payload)

    def _act(self, number: int, operation: int, payload: bytes) -> None:
        if operation == DATA and number in self._datagrams:
            self._answer(number, payload)
        elif operation == DATA:
            self._send(number, payload)
        elif operation == CONNECT:
            self._connect(number, payload)
        elif operation == DATAGRAMS:
            self._datagrams[number] = int(payload.rpartition(b":")[2])
        elif operation == CLOSE:
            self._datagrams.pop(number, None)
            self._drop(number)
        elif operation == JOIN:
            self.tell(0, WIFI, bytes((WIFI_JOINING + 128,)))
            self._join_alarm.schedule(JOIN_MS * 1_000_000)
        elif operation == LEAVE:
            self._is_joined = False
            self._join_alarm.cancel()
            self.tell(0, WIFI, bytes((WIFI_DOWN + 128,)))

    def _joined(self) -> None:
        self._is_joined = self.network.wifi
        status = WIFI_JOINED if self._is_joined else WIFI_NO_NETWORK
        self.tell(0, WIFI, bytes((status + 128,)))

    def _connect(self, number: int, where: bytes) -> None:
        port = int(where.rpartition(b":")[2])
        port = (self.network.ports or {}).get(port, port)
        try:
            if not self.network.broker:
                raise ConnectionRefusedError
            opened = socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            self.tell(number, FAILED, bytes((errno.ECONNREFUSED,)))
            return
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets[number], self._waiting[number] = opened, bytearray()
        self._selector.register(opened, selectors.EVENT_READ, number)
        self.connects += 1
        self.tell(number, OPENED)

    def _send(self, number: int, payload: bytes) -> None:
        self.from_chip_bytes += len(payload)
        if number in self._sockets and self.network.path:
            self._waiting[number] += payload
            self._flush(number)

    def _flush(self, number: int) -> None:
        waiting = self._waiting[number]
        try:
            del waiting[: self._sockets[number].send(waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._end(number)

    def _answer(self, number: int, question: bytes) -> None:
        port = self._datagrams[number]
        if not self.network.path:
            return
        if port == DNS_PORT and self.network.names:
            self.tell(number, RECEIVED, dns_reply(question))
        elif port == NTP_PORT and self.network.time:
            self.tell(number, RECEIVED, ntp_reply(question, self._now_s()))

    # --- to the chip ------------------------------------------------------------------------------

    def provoke(self, kind: int, number: int = 0) -> None:
        """Provoke a CRASH or HANG of the program, the next time it uses the network."""
        self.tell(0, FAULT, bytes((kind, number)))

    def tell(self, number: int, operation: int, payload: bytes = b"") -> None:
        self._uart.feed(struct.pack("<BBH", number, operation, len(payload)) + payload)

    def pump(self) -> None:
        """Take from the sockets what the line has room for; cut those that the network cuts."""
        if not (self.network.broker and self.network.wifi):
            self._cut()
        for number, waiting in [*self._waiting.items()]:
            if waiting:
                self._flush(number)
        if not self._sockets:
            return
        for key, _ in self._selector.select(0):
            self._receive(key.data, key.fileobj)

    def _receive(self, number: int, source: socket.socket) -> None:
        while self.network.path and self._uart.unread < MOST_UNREAD:
            try:
                data = source.recv(CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._end(number)
                return
            self.to_chip_bytes += len(data)
            self.tell(number, RECEIVED, data)

    def _cut(self) -> None:
        for number in [*self._sockets]:
            self._end(number)
        if not self.network.wifi and self._is_joined:
            self._is_joined = False
            self.tell(0, WIFI, bytes((WIFI_DOWN + 128,)))

    def _end(self, number: int) -> None:
        self._drop(number)
        self.tell(number, ENDED)

    def _drop(self, number: int) -> None:
        opened = self._sockets.pop(number, None)
        self._waiting.pop(number, None)
        if opened:
            self._selector.unregister(opened)
            opened.close()

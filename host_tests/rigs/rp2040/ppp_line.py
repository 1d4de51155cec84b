"""A UART of the chip with a network that the port's own lwIP reaches: PPP, TCP, UDP.

Has the interface of uart_link.UartLink, so a Board accepts it instead. It ignores the fields of
`Network` for the radio. TCP goes to the loopback address only. Must not know: what runs on the
chip.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable

from rp2040.chip import Chip
from rp2040.clock import CYCLES_PER_MS
from rp2040.ip_peer import IpPeer, Stream
from rp2040.ppp import GATEWAY, Ppp
from rp2040.uart_link import DNS_PORT, NTP_PORT, Network, dns_reply, ntp_reply

_UART = 0


class SocketStream:
    """A TCP connection to a server on this machine; `selector` watches it."""

    def __init__(self, port: int, selector: selectors.BaseSelector) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector = selector
        self._unsent = bytearray()
        self._is_broken = False
        selector.register(self._socket, selectors.EVENT_READ)

    def send(self, data: bytes) -> None:
        self._unsent += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._is_broken = True

    def receive(self, limit: int) -> bytes | None:
        self._flush()
        try:
            return None if self._is_broken else self._socket.recv(limit) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def close(self) -> None:
        self._flush()
        self._selector.unregister(self._socket)
        self._socket.close()


class PppLine:
    """fileno() for select, pump() to move data. open_stream: used instead of servers here."""

    is_real = True  # it leads to servers in real time

    def __init__(
        self,
        chip: Chip,
        network: Network,
        now_s: Callable[[], float] = time.time,
        open_stream: Callable[[int], Stream | None] | None = None,
    ) -> None:
        self._chip, self._uart, self._now_s = chip, chip.uarts[_UART], now_s
        self.network = network
        self._selector = selectors.DefaultSelector()
        self.connects = 0
        udp = {DNS_PORT: self._name, NTP_PORT: self._time}
        self.ppp = Ppp(self._uart.feed)
        self.peer = IpPeer(self.ppp.send, open_stream or self._open, udp)
        self.ppp.on_packet = self.peer.packet
        self._uart.on_bytes = self._take

    def fileno(self) -> int:
        return self._selector.fileno()

    def reset(self) -> None:
        self.peer.forget()

    def close(self) -> None:
        self.reset()
        self._selector.close()

    def pump(self) -> None:
        self.peer.is_silent = not self.network.path
        if not self.network.broker:
            self.peer.cut()
        self.peer.pump(self._chip.clock.cycles // CYCLES_PER_MS)

    def _take(self, data: bytes) -> None:
        self.peer.is_silent = not self.network.path
        self.ppp.receive(data)

    def _open(self, port: int) -> SocketStream | None:
        if not self.network.broker:
            return None
        stream = SocketStream((self.network.ports or {}).get(port, port), self._selector)
        self.connects += 1
        return stream

    def _name(self, question: bytes) -> bytes | None:
        return dns_reply(question, GATEWAY) if self.network.names else None

    def _time(self, question: bytes) -> bytes | None:
        return ntp_reply(question, self._now_s()) if self.network.time else None

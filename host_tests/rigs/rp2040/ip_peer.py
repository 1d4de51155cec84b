"""The network after the chip's PPP line: the far ends of TCP connections, and UDP. I/O-free.

A connection to a port goes to the stream that `open_stream(port)` returns (ppp_line.py has one).
Every address leads here; nothing leaves the machine. The line keeps the order and loses nothing, so
a segment is either taken in order or acknowledged again. `is_silent` is a dead path: what arrives
is counted and dropped, and nothing is sent back. Must not know: PPP, the chip, what the bytes mean.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
_TCP, _UDP = 6, 17
_WINDOW_BYTES = 65_535  # a server on Linux offers about as much at the start
_RESEND_MS = 1_000


class Stream(Protocol):
    """The far end of one connection."""

    def send(self, data: bytes) -> None:
        """The chip has sent these bytes, in order."""

    def receive(self, limit: int) -> bytes | None:
        """Returns at most `limit` bytes for the chip, b"" for nothing now, None at the end."""

    def close(self) -> None:
        """The chip closed the connection, or it broke."""


def checksum(data: bytes) -> int:
    """The internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class _Connection:
    """Numbers as RFC 9293 names them.

    una: the oldest byte that the chip has not acknowledged. nxt: the next one to send.
    """

    def __init__(self, key: tuple, stream: Stream, first: int, window: int, mss: int) -> None:
        self.key, self.stream = key, stream
        self.received = first + 1 & 0xFFFFFFFF
        self.una = self.nxt = 1
        self.window, self.mss = window, mss
        self.unacknowledged = bytearray()
        self.is_finished = False  # our FIN was sent
        self.resend_at_ms: int | None = None


class IpPeer:
    """send_packet: takes IP packets for the chip. udp: port -> function that answers a request, or
    None."""

    def __init__(
        self,
        send_packet: Callable[[bytes], None],
        open_stream: Callable[[int], Stream | None],
        udp: dict[int, Callable[[bytes], bytes | None]] | None = None,
    ) -> None:
        self.is_silent = False
        self.segments = self.payload_bytes = 0  # of the chip's TCP, silent or not
        self._send_packet, self._open_stream, self._udp = send_packet, open_stream, udp or {}
        self._connections: dict[tuple, _Connection] = {}
        self._now_ms = 0
        self._identification = 0

    def packet(self, data: bytes) -> None:
        """Take an IP packet of the chip."""
        if len(data) < 20 or data[0] >> 4 != 4:
            return
        header_bytes, total = (data[0] & 15) * 4, int.from_bytes(data[2:4], "big")
        body, key = data[header_bytes:total], (data[12:16], data[16:20])
        if data[9] == _TCP and len(body) >= 20:
            self._segment(key, body)
        elif data[9] == _UDP and len(body) >= 8 and not self.is_silent:
            self._datagram(key, body)

    def pump(self, now_ms: int) -> None:
        """Send to the chip what the streams have. Call it often."""
        self._now_ms = now_ms
        if self.is_silent:
            return
        for connection in list(self._connections.values()):
            self._fill(connection)
            if connection.resend_at_ms is not None and now_ms >= connection.resend_at_ms:
                self._resend(connection)

    def cut(self) -> None:
        """Break every connection, with a reset to the chip."""
        for connection in list(self._connections.values()):
            self._answer(connection, RST | ACK)
            self._drop(connection)

    def forget(self) -> None:
        """Close every connection silently: the chip was reset."""
        for connection in list(self._connections.values()):
            self._drop(connection)

    # --- TCP --------------------------------------------------------------------------------------

    def _segment(self, addresses: tuple[bytes, bytes], body: bytes) -> None:
        source, target, number, acknowledged, offset, flags, window = struct.unpack_from(
            ">HHIIBBH", body
        )
        options, payload = body[20 : offset >> 2], body[offset >> 2 :]
        self.segments += 1
        self.payload_bytes += len(payload)
        if self.is_silent:
            return
        key = (*addresses, source, target)
        if flags & SYN:
            self._accept(key, number, window, options)
        elif connection := self._connections.get(key):
            if flags & RST:
                self._drop(connection)
                return
            self._acknowledge(connection, acknowledged, window)
            self._take(connection, number, payload, flags)
        elif payload and not flags & RST:  # of a connection that no longer exists
            self._send_segment(key, acknowledged, number + len(payload), RST | ACK)

    def _accept(self, key: tuple, number: int, window: int, options: bytes) -> None:
        if key in self._connections:  # a repeated SYN
            self._drop(self._connections[key])
        try:
            stream = self._open_stream(key[3])
        except OSError:
            stream = None
        if stream is None:
            self._send_segment(key, 0, number + 1, RST | ACK)
            return
        connection = _Connection(key, stream, number, window, _maximum_segment(options))
        self._connections[key] = connection
        self._send_segment(key, 0, connection.received, SYN | ACK, options=bytes((2, 4, 5, 180)))

    def _acknowledge(self, connection: _Connection, number: int, window: int) -> None:
        connection.window = window
        count = number - connection.una & 0xFFFFFFFF
        if 0 < count <= len(connection.unacknowledged) + connection.is_finished:
            connection.una = number
            del connection.unacknowledged[:count]
            is_idle = connection.una == connection.nxt
            connection.resend_at_ms = None if is_idle else self._now_ms + _RESEND_MS

    def _take(self, connection: _Connection, number: int, payload: bytes, flags: int) -> None:
        seen = connection.received - number & 0xFFFFFFFF
        if seen >= 1 << 31:  # ahead of what we have: the chip resends from there
            self._answer(connection, ACK)
            return
        fresh = payload[seen:]
        if fresh:
            connection.received = connection.received + len(fresh) & 0xFFFFFFFF
            connection.stream.send(fresh)
        if flags & FIN and seen <= len(payload):
            connection.received = connection.received + 1 & 0xFFFFFFFF
            self._answer(connection, ACK)
            if not connection.is_finished:
                self._answer(connection, FIN | ACK)
            self._drop(connection)
        elif payload or flags & FIN:
            self._answer(connection, ACK)

    def _fill(self, connection: _Connection) -> None:
        """Send as much as the chip's window accepts."""
        while not connection.is_finished:
            room = connection.window - len(connection.unacknowledged)
            if room <= 0:
                return
            data = connection.stream.receive(min(room, connection.mss))
            if data is None:
                connection.is_finished = True
                self._answer(connection, FIN | ACK)
                connection.nxt += 1
            elif data:
                self._send_data(connection, data)
            else:
                return
            connection.resend_at_ms = connection.resend_at_ms or self._now_ms + _RESEND_MS

    def _send_data(self, connection: _Connection, data: bytes) -> None:
        self._send_segment(connection.key, connection.nxt, connection.received, PSH | ACK, data)
        connection.unacknowledged += data
        connection.nxt = connection.nxt + len(data) & 0xFFFFFFFF

    def _resend(self, connection: _Connection) -> None:
        piece = bytes(connection.unacknowledged[: connection.mss])
        flags = PSH | ACK if piece else FIN | ACK
        self._send_segment(connection.key, connection.una, connection.received, flags, piece)
        connection.resend_at_ms = self._now_ms + _RESEND_MS

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.key]
        connection.stream.close()

    def _answer(self, connection: _Connection, flags: int) -> None:
        self._send_segment(connection.key, connection.nxt, connection.received, flags)

    def _send_segment(
        self, key: tuple, number: int, received: int, flags: int, payload=b"", options=b""
    ) -> None:
        chip, host, chip_port, port = key
        header = struct.pack(
            ">HHIIBBHHH", port, chip_port, number & 0xFFFFFFFF, received & 0xFFFFFFFF,
            20 + len(options) << 2, flags, _WINDOW_BYTES, 0, 0,
        )  # fmt: skip
        self._send_ip(host, chip, _TCP, header + options + payload, 16)

    # --- UDP and IP -------------------------------------------------------------------------------

    def _datagram(self, addresses: tuple[bytes, bytes], body: bytes) -> None:
        chip, host = addresses
        source, target = struct.unpack_from(">HH", body)
        answer = self._udp[target](body[8:]) if target in self._udp else None
        if answer is not None:
            header = struct.pack(">HHHH", target, source, 8 + len(answer), 0)
            self._send_ip(host, chip, _UDP, header + answer, 6)

    def _send_ip(
        self, source: bytes, target: bytes, protocol: int, body: bytes, checksum_at: int
    ) -> None:
        pseudo = source + target + struct.pack(">BBH", 0, protocol, len(body))
        value = checksum(pseudo + body)
        body = body[:checksum_at] + value.to_bytes(2, "big") + body[checksum_at + 2 :]
        self._identification = self._identification + 1 & 0xFFFF
        head = struct.pack(
            ">BBHHHBBH", 0x45, 0, 20 + len(body), self._identification, 0, 64, protocol, 0
        )
        head += source + target
        self._send_packet(head[:10] + checksum(head).to_bytes(2, "big") + head[12:] + body)


def _maximum_segment(options: bytes) -> int:
    """Returns the chip's maximum segment size, from the options of its SYN."""
    while options and options[0] != 0:
        if options[0] == 1:
            options = options[1:]
        elif options[0] == 2:
            return int.from_bytes(options[2:4], "big")
        else:
            options = options[max(options[1], 2) :]
    return 536

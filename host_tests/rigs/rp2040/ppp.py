"""The far end of a PPP line: frames, link and address negotiation (RFC 1661, 1662, 1332). I/O-free.

`receive()` takes what came over the line; IP packets go to `on_packet`, and answers to `output`.
The chip gets the address 10.0.0.2, with 10.0.0.1 as its gateway and DNS server. This end only
answers, so it needs no timer. Must not know: the content of the packets.
"""

from __future__ import annotations

from collections.abc import Callable

CHIP, GATEWAY = bytes((10, 0, 0, 2)), bytes((10, 0, 0, 1))
IP, IPCP, LCP = 0x0021, 0x8021, 0xC021
_FLAG, _ESCAPE, _FLIP = 0x7E, 0x7D, 0x20
_CONFIGURE_REQUEST, _CONFIGURE_ACK, _CONFIGURE_NAK, _CONFIGURE_REJECT = 1, 2, 3, 4
_TERMINATE_REQUEST, _TERMINATE_ACK, _PROTOCOL_REJECT, _ECHO_REQUEST, _ECHO_REPLY = 5, 6, 8, 9, 10
_ASYNC_MAP, _MAGIC, _PROTOCOL_COMPRESSION, _ADDRESS_COMPRESSION = 2, 5, 7, 8  # LCP's options
_ADDRESS, _DNS = 3, 129  # IPCP's options
_GOOD_FCS = 0xF0B8
_ACCEPTED = {
    LCP: (_ASYNC_MAP, _MAGIC, _PROTOCOL_COMPRESSION, _ADDRESS_COMPRESSION),
    IPCP: (_ADDRESS, _DNS),
}
_OURS = {LCP: bytes((_ASYNC_MAP, 6, 0, 0, 0, 0)), IPCP: bytes((_ADDRESS, 6)) + GATEWAY}
_WANTED = {_ADDRESS: CHIP, _DNS: GATEWAY}  # what the chip's own options must be


def _fcs_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x8408 if value & 1 else 0)
        table.append(value)
    return table


_FCS = _fcs_table()


def fcs(data: bytes) -> int:
    """Frame check sequence, before the final complement."""
    value = 0xFFFF
    for byte in data:
        value = value >> 8 ^ _FCS[(value ^ byte) & 0xFF]
    return value


class Ppp:
    """output: takes the bytes for the line. on_packet: set it before anything is received."""

    def __init__(self, output: Callable[[bytes], None]) -> None:
        self.on_packet: Callable[[bytes], None] | None = None
        self.bad_frames = 0
        self._output = output
        self._frame = bytearray()
        self._escaped = False
        self._identifier = 0
        self._is_open = {LCP: False, IPCP: False}  # the chip acknowledged our request

    @property
    def is_up(self) -> bool:
        return all(self._is_open.values())

    def send(self, packet: bytes) -> None:
        """Send an IP packet to the chip."""
        self._send(IP, packet)

    # --- frames -----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        for byte in data:
            if byte == _FLAG:
                frame, self._frame, self._escaped = bytes(self._frame), bytearray(), False
                if frame:
                    self._take_frame(frame)
            elif byte == _ESCAPE:
                self._escaped = True
            else:
                self._frame.append(byte ^ _FLIP if self._escaped else byte)
                self._escaped = False

    def _take_frame(self, frame: bytes) -> None:
        if len(frame) < 4 or fcs(frame) != _GOOD_FCS:
            self.bad_frames += 1
            return
        body = frame[:-2]
        if body[:2] == b"\xff\x03":
            body = body[2:]
        length = 1 if body[0] & 1 else 2  # the protocol's number, compressed or not
        self._dispatch(int.from_bytes(body[:length], "big"), body[length:])

    def _send(self, protocol: int, data: bytes) -> None:
        body = b"\xff\x03" + protocol.to_bytes(2, "big") + data
        body += (fcs(body) ^ 0xFFFF).to_bytes(2, "little")
        line = bytearray((_FLAG,))
        for byte in body:
            if byte in (_FLAG, _ESCAPE) or byte < 0x20:
                line += bytes((_ESCAPE, byte ^ _FLIP))
            else:
                line.append(byte)
        line.append(_FLAG)
        self._output(bytes(line))

    # --- negotiation ------------------------------------------------------------------------------

    def _dispatch(self, protocol: int, data: bytes) -> None:
        if protocol == IP:
            self.on_packet(data)
        elif protocol in (LCP, IPCP):
            self._control(protocol, data)
        else:
            self._reply(
                LCP, _PROTOCOL_REJECT, self._next_identifier(), protocol.to_bytes(2, "big") + data
            )

    def _control(self, protocol: int, data: bytes) -> None:
        code, identifier, length = data[0], data[1], int.from_bytes(data[2:4], "big")
        options = data[4:length]
        if code == _CONFIGURE_REQUEST:
            self._configure(protocol, identifier, options)
        elif code == _CONFIGURE_ACK:
            self._is_open[protocol] = True
        elif code == _TERMINATE_REQUEST:
            self._is_open = dict.fromkeys(self._is_open, False)
            self._reply(protocol, _TERMINATE_ACK, identifier, b"")
        elif code == _ECHO_REQUEST:
            self._reply(protocol, _ECHO_REPLY, identifier, bytes(4) + options[4:])

    def _configure(self, protocol: int, identifier: int, options: bytes) -> None:
        """A request comes at the start and after a reset of the chip, when ours is due, too."""
        if protocol == LCP:
            self._is_open = dict.fromkeys(self._is_open, False)
        self._reply(protocol, *self._judge(protocol, identifier, options))
        if not self._is_open[protocol]:
            self._reply(protocol, _CONFIGURE_REQUEST, self._next_identifier(), _OURS[protocol])

    def _judge(self, protocol: int, identifier: int, options: bytes) -> tuple[int, int, bytes]:
        refused, wrong, rest = b"", b"", options
        while len(rest) >= 2 and rest[1] >= 2:
            kind, value = rest[0], rest[2 : rest[1]]
            if kind not in _ACCEPTED[protocol]:
                refused += rest[: rest[1]]
            elif protocol == IPCP and value != _WANTED[kind]:
                wrong += bytes((kind, 6)) + _WANTED[kind]
            rest = rest[rest[1] :]
        if refused:
            return _CONFIGURE_REJECT, identifier, refused
        if wrong:
            return _CONFIGURE_NAK, identifier, wrong
        return _CONFIGURE_ACK, identifier, options

    def _reply(self, protocol: int, code: int, identifier: int, data: bytes) -> None:
        self._send(protocol, bytes((code, identifier)) + (len(data) + 4).to_bytes(2, "big") + data)

    def _next_identifier(self) -> int:
        self._identifier = self._identifier % 255 + 1
        return self._identifier

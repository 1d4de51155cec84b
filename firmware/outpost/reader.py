"""Cuts the server's byte stream into control packets, and hands each to a hook.

Memory is one buffer of fixed size. A packet longer than the buffer is skipped in place: its first
bytes are kept (the topic and packet identifier of a PUBLISH are among them), and the rest is
dropped as it arrives. Hostile lengths end in an error, never in a growing buffer.

Must not know what a packet means, only which hook it belongs to: see `session.py`. Its own hook:
    _on_rest(data, at, count)  bytes arrive of a packet that the buffer does not hold
Allocation: the buffer, at construction.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import copy, puback_id

_CLOSED = const(0)
_CONNECTING = const(1)
_CONNECTED = const(2)
_PROTOCOL_ERROR = const(-20)
_FIRST = const(-7)  # _shift while the packet's first byte is awaited
_TOO_LONG = const(28)  # _shift after four bytes of length that all announce another
_BODY = const(35)  # _shift once the length is complete
_CAME = const(2)  # in `owes`: bytes arrived


def is_topic(buf, at, end):
    """True when buf[at:end] is a topic: well-formed UTF-8 without NUL, shortest forms, no
    surrogates, up to U+10FFFF (1.5.3), and no wildcard (3.3.2)."""
    more = least = code = 0
    while at < end:
        byte = buf[at]
        at += 1
        if more:
            code = code << 6 | byte ^ 0x80
            more -= 1
            is_wrong = code < least or 0xD800 <= code < 0xE000 or code > 0x10FFFF
            if byte & 0xC0 != 0x80 or (not more and is_wrong):
                return False
        elif byte > 127:
            more = (byte > 0xDF) + (byte > 0xEF) + 1
            least = 1 << 5 * more + 1
            code = byte & 0x3F >> more
            if byte < 0xC2 or byte > 0xF4:
                return False
        elif not byte or byte == 0x23 or byte == 0x2B:
            return False
    return not more


class Reader:
    """rx_bytes: the longest packet that is kept whole.

    feed() until is_between is true; the packet is then in first, length and buffer. When
    length > len(buffer), the buffer holds the packet's first bytes only.
    """

    def __init__(self, rx_bytes):
        self.state = _CLOSED  # or CONNECTING (CONNECT is out), CONNECTED
        self.owes = False  # bytes arrived (_CAME), or a packet was due: another may be due
        self._answer = 0  # an answer that is due, first byte << 16 | packet identifier; 0: none
        self.buffer = bytearray(rx_bytes)  # the packet after its fixed header
        self.restart()

    def restart(self):
        """Await the first byte of a packet."""
        self.first = 0  # first byte of the packet: type and flags
        self.length = 0  # remaining length of the packet, in bytes
        self.have = 0  # bytes of it that have arrived
        self._seen = -1  # `have` when the session last looked; -1: a packet has begun since
        self.is_between = True  # the last packet is complete, and none has begun
        self._shift = _FIRST  # 0 to 21: bits of the remaining length that have arrived

    def receive(self, data, at, end):
        """Take data[at:end]. Returns `end`; an earlier offset when an answer must go out first; or
        the status to close the stream with."""
        if self._answer:
            return at
        while at < end:
            packet_id = puback_id(data, at, end) if self.is_between else 0
            if packet_id and self.state == _CONNECTED:  # whole, as most are: feed() is not needed
                at += 4
                self._on_puback(packet_id)
            else:
                at = self._take(data, at, end)
                if self.state == _CLOSED:  # a handler of the application closed it
                    return end
                if at < 0 or self._answer:
                    break
        return at

    def _take(self, data, at, end):
        """Take one packet, or the part of it that is there. Returns as receive()."""
        self.owes = _CAME
        at = self.feed(data, at, end)
        if at < 0:
            return _PROTOCOL_ERROR
        if not self.is_between:
            return at
        if self.state == _CONNECTING:
            return self._on_connack() or at
        if self.first == 0x40 and self.length == 2:
            self._on_puback(self.buffer[0] << 8 | self.buffer[1])
        elif self.first == 0xD0 and not self.length:
            return self._on_pong() or at
        else:
            return self._on_packet(self.first) or at
        return at

    def feed(self, data, at, end):
        """Take data[at:end], up to the end of one packet. Returns the offset of the first byte not
        taken, or -1 when the remaining length has more than four bytes.

        Fixed header (2.2.3): type and flags, then 1 to 4 bytes of remaining length, lowest 7 bits
        first.
        """
        if self.is_between:
            self.restart()
            self.is_between = False
        shift = self._shift
        while at < end and shift < _TOO_LONG:
            if shift < 0:
                self.first = data[at]
                shift = 0
            else:
                self.length |= (data[at] & 127) << shift
                shift = shift + 7 if data[at] > 127 else _BODY
            at += 1
        self._shift = shift
        if shift == _TOO_LONG:
            return -1
        if shift == _BODY:
            end = min(end - at, self.length - self.have)  # now a count: the frame has 11 words
            self._keep(data, at, end)
            self.have += end
            self.is_between = self.have == self.length
            at += end
        return at

    def _keep(self, data, at, count):
        """Keep data[at:at+count], which begins `have` bytes from the packet's start."""
        room = len(self.buffer) - self.have
        if room < count:
            if room > 0:
                copy(self.buffer, self.have, data, at, room)
            self._on_rest(data, at, count)
        else:
            copy(self.buffer, self.have, data, at, count)

    def _on_rest(self, data, at, count):
        """As _keep(); the buffer has no room for the last of these bytes."""

# micropython-only: runs on the emulated chip, from /lib
"""Stands in for the port's `socket`: TCP and UDP sockets of the host by rig_link. Never waits.

readinto() and write() allocate nothing; what arrives waits in a ring of 2 KB per socket.
"""

import errno
import io

import micropython
from micropython import const
from rig_link import (
    CLOSE,
    CONNECT,
    DATA,
    DATAGRAMS,
    ENDED,
    FAILED,
    OPENED,
    RECEIVED,
    SOCKETS,
    wire,
)

AF_INET, SOCK_STREAM, SOCK_DGRAM = 2, 1, 2
_RING = const(2048)
_POLL = const(3)
_READABLE, _WRITABLE, _ERROR, _HANG_UP = 1, 4, 8, 16
_NEW, _CONNECTING, _OPEN, _ENDED, _FAILED = 0, 1, 2, 3, 4


class socket(io.IOBase):  # noqa: N801 - the port's name for it
    def __init__(self, family=AF_INET, kind=SOCK_STREAM, protocol=0):
        number = 1
        while wire.sockets[number]:
            number += 1
            if number == SOCKETS:
                raise OSError(errno.ENOMEM)
        self._number, self._is_stream = number, kind == SOCK_STREAM
        self._state, self._error = _NEW, 0
        self._ring = bytearray(_RING)
        self._first = self._count = 0
        self._datagrams = []
        wire.sockets[number] = self

    def setblocking(self, flag):
        pass

    settimeout = setblocking

    def setsockopt(self, level, option, value):
        pass

    def connect(self, address):
        where = (address[0] + ":" + str(address[1])).encode()
        wire.send(self._number, CONNECT if self._is_stream else DATAGRAMS, where)
        self._state = _CONNECTING if self._is_stream else _OPEN
        if self._is_stream:
            raise OSError(errno.EINPROGRESS)

    # --- what rig_link calls ---

    @micropython.native
    def room(self):
        return _RING - self._count

    @micropython.native
    def take(self, operation, length):
        if operation == RECEIVED:
            self._keep(length)
        elif operation == OPENED:
            self._state = _OPEN
        elif operation == ENDED:
            self._state = _ENDED
        elif operation == FAILED:
            self._state, self._error = _FAILED, wire.chunk[0]

    @micropython.native
    def _keep(self, length):
        if not self._is_stream:
            self._datagrams.append(bytes(wire.chunk[:length]))
            return
        at = (self._first + self._count) % _RING
        for n in range(length):
            self._ring[at] = wire.chunk[n]
            at = at + 1 if at + 1 < _RING else 0
        self._count += length

    # --- the stream ---

    @micropython.native
    def readinto(self, buf, most=-1):
        wire.pump()
        if self._datagrams:
            return self._copy(buf)
        count = min(self._count, len(buf) if most < 0 else most)
        if not count:
            if self._state == _ENDED:
                return 0
            if self._state == _FAILED:
                raise OSError(self._error)
            return None
        first, ring = self._first, self._ring
        for n in range(count):
            buf[n] = ring[first]
            first = first + 1 if first + 1 < _RING else 0
        self._first = first
        self._count -= count
        return count

    def _copy(self, buf):
        """The next datagram; what does not fit is lost, as in the port."""
        data = self._datagrams.pop(0)[: len(buf)]
        buf[: len(data)] = data
        return len(data)

    @micropython.native
    def write(self, buf, offset=0, length=-1):
        wire.pump()
        if self._state != _OPEN:
            raise OSError(self._error or errno.ECONNRESET)
        if length < 0:
            offset, length = 0, offset or len(buf)
        wire.send(self._number, DATA, buf, offset, length)
        return length

    send = write

    def recv(self, most):
        wire.pump()
        if not self._datagrams:
            raise OSError(errno.EAGAIN)
        return self._datagrams.pop(0)[:most]

    def close(self):
        if wire.sockets[self._number] is self:
            wire.sockets[self._number] = None
            wire.send(self._number, CLOSE)

    @micropython.native
    def ioctl(self, request, flags):
        if request != _POLL:
            return 0
        wire.pump()
        found = _WRITABLE if self._state == _OPEN else 0
        if self._count or self._datagrams:
            found |= _READABLE
        if self._state in (_ENDED, _FAILED):
            found |= _HANG_UP | (_ERROR if self._state == _FAILED else 0)
        return found & (flags | _ERROR | _HANG_UP)

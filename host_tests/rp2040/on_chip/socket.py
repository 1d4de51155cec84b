# micropython-only: runs on the emulated chip, from /lib
"""Stands in for the port's `socket`: TCP and UDP sockets of the host, through rig_link. Never waits.

readinto() and write() allocate nothing; what arrives waits in a ring of 2 KB a socket.
"""

import errno
import io

import rig_link
from micropython import const

AF_INET, SOCK_STREAM, SOCK_DGRAM = 2, 1, 2
_RING = const(2048)
_POLL = const(3)
_READABLE, _WRITABLE, _ERROR, _HANG_UP = 1, 4, 8, 16
_NEW, _CONNECTING, _OPEN, _ENDED, _FAILED = 0, 1, 2, 3, 4


class socket(io.IOBase):  # noqa: N801 - the port's name for it
    def __init__(self, family=AF_INET, kind=SOCK_STREAM, protocol=0):
        number = 1
        while rig_link.sockets[number]:
            number += 1
            if number == rig_link.SOCKETS:
                raise OSError(errno.ENOMEM)
        self._number, self._is_stream = number, kind == SOCK_STREAM
        self._state, self._error = _NEW, 0
        self._ring = bytearray(_RING)
        self._first = self._count = 0
        self._datagrams = []
        rig_link.sockets[number] = self

    def setblocking(self, flag):
        pass

    settimeout = setblocking

    def setsockopt(self, level, option, value):
        pass

    def connect(self, address):
        where = ("%s:%d" % address).encode()
        rig_link.send(
            self._number, rig_link.CONNECT if self._is_stream else rig_link.DATAGRAMS, where
        )
        self._state = _CONNECTING if self._is_stream else _OPEN
        if self._is_stream:
            raise OSError(errno.EINPROGRESS)

    # --- what rig_link calls ---

    def room(self):
        return _RING - self._count

    def take(self, operation, length):
        if operation == rig_link.RECEIVED:
            self._keep(length)
        elif operation == rig_link.OPENED:
            self._state = _OPEN
        elif operation == rig_link.ENDED:
            self._state = _ENDED
        elif operation == rig_link.FAILED:
            self._state, self._error = _FAILED, rig_link.chunk[0]

    def _keep(self, length):
        if not self._is_stream:
            self._datagrams.append(bytes(rig_link.chunk[:length]))
            return
        at = (self._first + self._count) % _RING
        for n in range(length):
            self._ring[at] = rig_link.chunk[n]
            at = at + 1 if at + 1 < _RING else 0
        self._count += length

    # --- the stream ---

    def readinto(self, buf, most=-1):
        rig_link.pump()
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

    def write(self, buf, offset=0, length=-1):
        rig_link.pump()
        if self._state != _OPEN:
            raise OSError(self._error or errno.ECONNRESET)
        if length < 0:
            offset, length = 0, offset or len(buf)
        rig_link.send(self._number, rig_link.DATA, buf, offset, length)
        return length

    send = write

    def recv(self, most):
        rig_link.pump()
        if not self._datagrams:
            raise OSError(errno.EAGAIN)
        return self._datagrams.pop(0)[:most]

    def close(self):
        if rig_link.sockets[self._number] is self:
            rig_link.sockets[self._number] = None
            rig_link.send(self._number, rig_link.CLOSE)

    def ioctl(self, request, flags):
        if request != _POLL:
            return 0
        rig_link.pump()
        found = _WRITABLE if self._state == _OPEN else 0
        if self._count or self._datagrams:
            found |= _READABLE
        if self._state in (_ENDED, _FAILED):
            found |= _HANG_UP | (_ERROR if self._state == _FAILED else 0)
        return found & (flags | _ERROR | _HANG_UP)

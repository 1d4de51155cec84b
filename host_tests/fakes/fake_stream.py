"""A stream in RAM for tests: records what the client writes, and queues what the server says.
write() and readinto() do not allocate, so that heap tests measure the client alone.
"""


class FakeStream:
    """room: the most bytes that one write() takes (None: all; 0: nothing now). chunk: the most
    bytes that one readinto() returns.
    """

    def __init__(self, size_bytes=8192, room=None, chunk=None):
        self.written = bytearray(size_bytes)
        self.length = self.writes = 0
        self.room, self.chunk = room, chunk
        self._incoming = bytearray(size_bytes)
        self._at = self._end = 0
        self.closed = self.broken = self.ended = False

    def write(self, buf, offset, length):
        if self.broken:
            raise OSError(104)
        if self.room is not None and length > self.room:
            length = self.room
        if not length:
            return None
        self.writes += 1
        for i in range(length):
            self.written[self.length + i] = buf[offset + i]
        self.length += length
        return length

    def readinto(self, buf):
        if self.broken:
            raise OSError(104)
        count = min(self._end - self._at, len(buf), self.chunk or len(buf))
        if not count:
            return 0 if self.ended else None
        for i in range(count):
            buf[i] = self._incoming[self._at + i]
        self._at += count
        if self._at == self._end:
            self._at = self._end = 0
        return count

    def close(self):
        self.closed = True

    def say(self, data):
        """Queue bytes from the server."""
        for byte in data:
            self._incoming[self._end] = byte
            self._end += 1

    def take(self):
        """The bytes written since the last take()."""
        data = bytes(self.written[: self.length])
        self.length = 0
        return data

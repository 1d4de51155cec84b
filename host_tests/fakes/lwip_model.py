"""The RP2 port's network stack under a client, and a broker after it. All times are virtual.

The figures of lwIP were measured on the emulated chip (test_rp2_network.py). A write that finds the
heap or the segments used up takes 10 s and reports success, but its bytes are missing in the
stream. Written bytes are freed when the broker's TCP has them, or 10 s after the close of a
connection whose path was silent.
"""

from virtual.packets import take_frame

# The free part of 8,000 bytes: the 16th packet of 388 bytes does not fit, nor the 14th of 450, the
# 12th of 521, the 10th of 700.
HEAP_BYTES = 7_380
SEGMENTS = 32
SEGMENT_BYTES = 100
SEND_BUFFER_BYTES = 6_400
BLOCKED_MS = 10_000
LINGER_MS = 10_000
TLS_RECORD_BYTES = 29

CONNECT, PUBLISH, PUBREL, SUBSCRIBE, PINGREQ = 0x10, 0x30, 0x60, 0x80, 0xC0
PUBACK, PUBREC, PUBCOMP, SUBACK = 0x40, 0x50, 0x70, 0x90


class Stack:
    """The stack that all connections share. has_path: packets arrive, and acknowledgements come
    back."""

    def __init__(self, record_bytes=0):
        self.now_ms = 0
        self.has_path = True
        self.record_bytes = record_bytes
        self.broker = Broker()
        self.longest_write_ms = self.lost_bytes = 0
        self.most_segments = self.most_bytes = 0
        self.streams = []

    def connect(self):
        if not self.has_path:
            raise OSError(110)
        self.streams.append(Stream(self))
        return self.streams[-1]

    def used(self):
        """(segments, bytes) in use."""
        costs = [cost for stream in self.streams for cost, _ in stream.queue]
        return len(costs), sum(costs)

    def takes(self, cost):
        segments, used_bytes = self.used()
        if segments == SEGMENTS or used_bytes + cost > HEAP_BYTES:
            return False
        self.most_segments = max(self.most_segments, segments + 1)
        self.most_bytes = max(self.most_bytes, used_bytes + cost)
        return True

    def move(self):
        """Deliver what has arrived meanwhile."""
        for stream in self.streams:
            if stream.freed_ms is not None:
                if self.now_ms - stream.freed_ms >= 0:
                    stream.queue = []
            elif self.has_path:
                stream.arrive()
        self.streams = [
            stream for stream in self.streams if stream.queue or stream.freed_ms is None
        ]


class Stream:
    """The client's stream contract."""

    def __init__(self, stack):
        self._stack = stack
        self.queue = []  # (cost, bytes) of each segment that is not acknowledged
        self.incoming = b""
        self.freed_ms = None
        stack.broker.connected()

    def write(self, buf, offset, length):
        stack = self._stack
        room = SEND_BUFFER_BYTES - sum([len(sent) for _, sent in self.queue])
        data = bytes(buf[offset : offset + length]) + bytes(stack.record_bytes)
        part = data[:room]
        if not part:
            return None
        if not stack.takes(len(part) + SEGMENT_BYTES):
            stack.now_ms += BLOCKED_MS
            stack.longest_write_ms = BLOCKED_MS
            stack.lost_bytes += length
            return length
        if len(part) < len(data) and stack.record_bytes:
            return None  # TLS keeps the record, and expects the same bytes again
        self.queue.append((len(part) + SEGMENT_BYTES, part))
        return min(len(part), length)

    def arrive(self):
        for _, data in self.queue:
            end = len(data) - self._stack.record_bytes
            self.incoming += self._stack.broker.take(data[:end])
        self.queue = []
        self.incoming += self._stack.broker.more()

    def readinto(self, buf):
        if not self._stack.has_path and not self.incoming:
            return None
        count = min(len(buf), len(self.incoming))
        buf[:count] = self.incoming[:count]
        self.incoming = self.incoming[count:]
        return count or None

    def close(self):
        """The end of the connection takes a segment too; without a path nothing is freed for 10
        s."""
        self.queue.append((SEGMENT_BYTES, b""))
        self.freed_ms = self._stack.now_ms + (0 if self._stack.has_path else LINGER_MS)


class Broker:
    """Answers what needs an answer. to_say: bytes that it sends on its own."""

    def __init__(self):
        self.came = {}  # type: number of packets
        self.payloads = []
        self.to_say = b""

    def connected(self):
        self._rest = b""

    def more(self):
        said, self.to_say = self.to_say, b""
        return said

    def take(self, data):
        self._rest += data
        answers = b""
        while True:
            found = take_frame(self._rest)
            if found is None:
                return answers
            answers += self._answer(found[0], found[1])
            self._rest = found[2]

    def _answer(self, first, body):
        kind = first & 0xF0
        self.came[kind] = self.came.get(kind, 0) + 1
        if kind == CONNECT:
            return b"\x20\x02\0\0"
        if kind == PINGREQ:
            return b"\xd0\0"
        if kind == SUBSCRIBE:
            return bytes((SUBACK, 3)) + body[:2] + b"\0"
        if kind == PUBREL:
            return bytes((PUBCOMP, 2)) + body
        if kind != PUBLISH:
            return b""
        end = 2 + (body[0] << 8 | body[1])
        qos = first >> 1 & 3
        self.payloads.append(body[end + 2 if qos else end :])
        return bytes((PUBACK if qos == 1 else PUBREC, 2)) + body[end : end + 2] if qos else b""

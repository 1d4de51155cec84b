"""A client, a server and the path between them in virtual time: hours of a bad day in a second.

World drives a real Client as a program does, and publishes. A Server answers as an ordinary one
does (scripted_server.py), except for what its subclass omits. The path has a rate and a send
buffer. Runs under both Pythons.
"""

from outpost.client import Client
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from scripted_server import answer, decode, encode

STEP_MS = 100  # from one poll() to the next, when nothing moves
TOPIC = b"t/1"
_TICKS = 0x3FFFFFFF


class Stream:
    """The client's stream contract. A write goes into a send buffer, which drains at the path's
    rate; what the server sends arrives at the same rate."""

    def __init__(self, server, world):
        self.server, self.world = server, world
        self.opened_ms = self._moved_ms = world.now_ms
        self._up = self._down = self._at_server = b""
        self.incoming = b""
        self.is_connected = self.is_dead = self.has_ended = self.is_closed = False

    def write(self, buf, offset, length):
        if self.has_ended:
            raise OSError(104)
        count = min(length, self.server.send_buffer - len(self._up))
        self._up += bytes(buf[offset : offset + count])
        if not self.server.rate:
            self.move()
        return count or None

    def readinto(self, buf):
        count = min(len(buf), len(self.incoming))
        if not count:
            return 0 if self.has_ended else None
        buf[:count] = self.incoming[:count]
        self.incoming = self.incoming[count:]
        return count

    def close(self):
        self.is_closed = True

    # --- The path, and the server's end ---

    def say(self, data):
        self._down += data

    def end(self):
        """The server closes; what it sent before still arrives."""
        self.incoming += self._down
        self._down = b""
        self.has_ended = True

    def move(self):
        """Move bytes: time has passed, or bytes were written."""
        rate, now_ms = self.server.rate, self.world.now_ms
        passed_ms = now_ms - self._moved_ms
        budget = rate * passed_ms // 1000 if rate else 1 << 30
        if budget and not self.is_dead:
            self._moved_ms = now_ms if not rate else self._moved_ms + budget * 1000 // rate
            self._at_server += self._up[:budget]
            self._up = self._up[budget:]
            self._serve()
            self.incoming += self._down[:budget]
            self._down = self._down[budget:]
        if not self.has_ended:
            self.server.on_time(self)

    def _serve(self):
        while not self.has_ended:
            step = decode(self._at_server)
            if step is None:
                return
            kind, fields, self._at_server = step
            self.server.came[kind] = self.server.came.get(kind, 0) + 1
            self.say(self.server.on_packet(self, kind, fields))


class Server:
    """An ordinary server. rate: bytes/s each way, 0: no bound."""

    rate = 0
    send_buffer = 1 << 16

    def __init__(self):
        self.connects = []  # ticks of each attempt
        self.came = {}  # packets, by kind
        self.delivered = {}  # number of a message: how often it arrived

    def accept(self, world):
        """Serves as the client's link()."""
        self.connects.append(world.now_ms)
        self.on_connect()
        return Stream(self, world)

    def on_connect(self):
        """Raise OSError to refuse the connection."""

    def on_packet(self, stream, kind, fields):
        """Returns the bytes to answer."""
        if kind == "CONNECT":
            stream.is_connected = True
        if kind == "PUBLISH":
            number = int(fields["payload"][:8])
            self.delivered[number] = self.delivered.get(number, 0) + 1
        return answer(kind, fields)

    def on_time(self, stream):
        """Called at each step until the stream has ended."""


class World:
    """kind: the session's class, with its arguments and options. interval_ms: time between messages
    of `size` bytes; 0: none. failures: (ticks, last_error) of each."""

    def __init__(
        self, server, kind=Session, outbox=None, arguments=(), random=None, qos=1, size=20,
        interval_ms=10_000, **options
    ):  # fmt: skip
        self.now_ms = 0
        self.server = server
        self.outbox = outbox or RamOutbox(16, 1300)
        self.session = kind(self.outbox, b"board-1", *arguments, **options)
        self.client = Client(self._link, self.session, random)
        self.qos, self.size, self.interval_ms = qos, size, interval_ms
        self._next_ms = 0
        self.published = self.taken = 0
        self.failures = []
        self.stream = None

    def _link(self):
        self.stream = self.server.accept(self)
        return self.stream

    def publish(self):
        payload = b"%08d" % self.published + bytes(self.size - 8)
        self.published += 1
        done = self.client.publish(TOPIC, payload, self.qos) == 0
        self.taken += done
        return done

    def step(self, ms=STEP_MS):
        self.now_ms += ms
        if self.interval_ms and self.now_ms >= self._next_ms:
            self._next_ms = self.now_ms + self.interval_ms
            self.publish()
        if self.stream and not self.stream.is_closed:
            self.stream.move()
        turns = 0
        while turns < 40 and self.client.poll(self.now_ms & _TICKS):
            turns += 1
        if self.client.failures > len(self.failures):
            self.failures.append((self.now_ms, self.client.last_error))

    def run(self, seconds, until=None):
        """Returns how many seconds passed: fewer than `seconds` if `until` returned true."""
        start_ms = self.now_ms
        while self.now_ms - start_ms < seconds * 1000 and not (until and until()):
            self.step()
        return (self.now_ms - start_ms) / 1000

    def connect(self):
        self.run(5, self.client.is_connected)
        assert self.client.is_connected()
        return self

    def until_failure(self, seconds):
        """Returns the seconds until the connection ends; `seconds` if it does not."""
        failures = len(self.failures)
        return self.run(seconds, lambda: len(self.failures) > failures)

    def in_hour(self, hour):
        """Returns the number of connection attempts in hour 0, 1, ..."""
        first = hour * 3_600_000
        return len([ms for ms in self.server.connects if first <= ms < first + 3_600_000])


# --- Servers at fault ---


class Refuses(Server):
    def on_connect(self):
        raise OSError(111)


class Silent(Server):
    """Accepts connections and sends nothing."""

    def on_packet(self, stream, kind, fields):
        return b""


class ClosesAfterConnack(Server):
    def on_time(self, stream):
        if stream.is_connected:
            stream.end()


class Answers(Server):
    """Answers only packets of these kinds."""

    def __init__(self, *kinds):
        Server.__init__(self)
        self.kinds = kinds

    def on_packet(self, stream, kind, fields):
        said = Server.on_packet(self, stream, kind, fields)
        return said if kind in self.kinds else b""


class Withholds(Answers):
    """Answers all packets but those of these kinds."""

    def on_packet(self, stream, kind, fields):
        said = Server.on_packet(self, stream, kind, fields)
        return b"" if kind in self.kinds else said


class Slow(Server):
    def __init__(self, rate, send_buffer=64):
        Server.__init__(self)
        self.rate, self.send_buffer = rate, send_buffer


class HalfPacket(Server):
    """Starts a packet `after_ms` after CONNACK, and does not finish it."""

    def __init__(self, data=b"\x30\x20\x00\x03a", after_ms=1000):
        Server.__init__(self)
        self.data, self.after_ms = data, after_ms
        self._said = None

    def on_time(self, stream):
        age_ms = stream.world.now_ms - stream.opened_ms
        if stream.is_connected and self._said is not stream and age_ms >= self.after_ms:
            self._said = stream
            stream.say(self.data)

    def on_packet(self, stream, kind, fields):
        said = Server.on_packet(self, stream, kind, fields)
        return said if self._said is not stream else b""


class Trickles(HalfPacket):
    """Sends a byte of a long packet every `every_ms`."""

    def __init__(self, every_ms, length=60_000):
        HalfPacket.__init__(self, encode("PUBLISH", topic=b"a", payload=bytes(length))[:8])
        self.every_ms = every_ms
        self._next_ms = 0

    def on_time(self, stream):
        HalfPacket.on_time(self, stream)
        if self._said is stream and stream.world.now_ms >= self._next_ms:
            self._next_ms = stream.world.now_ms + self.every_ms
            stream.say(b"x")


class Floods(Withholds):
    """Sends messages of QoS 0, 20 a second, and does not answer packets of these kinds."""

    PACKET = encode("PUBLISH", topic=b"flood", payload=bytes(40))

    def on_time(self, stream):
        if stream.is_connected and len(stream.incoming) < 200:
            stream.say(self.PACKET)


class OtherClient(Server):
    """Another client uses the same identifier: it connects `after_ms` after this one was accepted,
    and the server closes this one's connection."""

    def __init__(self, after_ms):
        Server.__init__(self)
        self.after_ms = after_ms

    def on_time(self, stream):
        if stream.is_connected and stream.world.now_ms - stream.opened_ms >= self.after_ms:
            stream.end()


class OneId(Server):
    """Two worlds connect with one identifier: the later connection closes the earlier one."""

    def __init__(self):
        Server.__init__(self)
        self.stream = None

    def on_packet(self, stream, kind, fields):
        if kind == "CONNECT":
            if self.stream and self.stream is not stream:
                self.stream.end()
            self.stream = stream
        return Server.on_packet(self, stream, kind, fields)

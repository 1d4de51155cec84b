"""A client over RAM flash and a fake stream, driven step by step. Tests of the client, the session
and the heap share it.
"""

from fake_flash import flash_in_ram
from fake_stream import FakeStream
from outpost.client import Client
from outpost.durable import DurableSession
from outpost.exactly_once import ExactlyOnceSession
from outpost.outbox import Outbox
from outpost.queued import QueuedSession
from outpost.state_note import NotedOutbox
from outpost.streaming import StreamingSession
from outpost.subscribing import SubscribingSession
from virtual.packets import Cursor, encode, take_frame

TOPIC = b"outpost/board-1/data"
WORD = b"outpost/board-1/durable"
STREAM = b"3fa9c1d2"
CONNACK = b"\x20\x02\x00\x00"
KINDS = {
    "broker": SubscribingSession,
    "collector": DurableSession,
    "queued": QueuedSession,
    "streaming": StreamingSession,
    "exactly once": ExactlyOnceSession,
}


def puback(packet_id):
    return encode("PUBACK", packet_id=packet_id)


def confirmation(seq, stream=STREAM):
    """The collector's confirmation as the server sends it: PUBLISH, QoS 0, RETAIN."""
    word = stream + b" " + str(seq).encode()
    return encode("PUBLISH", topic=WORD, payload=word, retain=True)


def queued(seq, packet_id):
    """The collector's confirmation from the queue of the session: PUBLISH, QoS 1."""
    word = STREAM + b" " + str(seq).encode()
    return encode("PUBLISH", topic=WORD, payload=word, qos=1, packet_id=packet_id)


def split(data):
    """[(first byte, body)] of whole packets."""
    found = []
    while data:
        first, body, data = take_frame(data)
        found.append((first, body))
    return found


def publishes(data):
    """[(packet identifier, dup, payload)] of the PUBLISH packets with QoS 1 in data."""
    found = []
    for first, body in split(data):
        if first & 0xF0 == 0x30:
            rest = Cursor(body)
            rest.binary()  # the topic
            found.append((rest.number(), first & 8 > 0, rest.body))
    return found


class Bench:
    """mode: "broker", "collector", "queued" (collector mode without retained messages), "streaming"
    or "exactly once" (QoS 2). options: more options of the session. now_ms advances by 10 with each
    poll.
    """

    def __init__(
        self,
        mode="broker",
        blocks=8,
        flash=None,
        keep_alive_s=60,
        window=16,
        outbox_class=None,
        options=None,
        **stream_options,
    ):
        self.outbox_class = outbox_class = outbox_class or (
            NotedOutbox if mode == "exactly once" else Outbox
        )
        self.mode, self.session_options = mode, {"keep_alive_s": keep_alive_s, "window": window}
        self.session_options.update(options or {})
        self.now_ms = 0
        self.links = 0
        self.early = []  # the messages published while connecting
        self.stream_options = stream_options
        self.flash = flash or flash_in_ram(blocks, 256)
        if not flash:
            outbox_class(self.flash).format(STREAM)
        self.boot()

    def boot(self):
        """Power on: all RAM state is new."""
        self.outbox = self.outbox_class(self.flash)
        assert self.outbox.mount() == 0
        kind = KINDS[self.mode]
        arguments = (WORD, 1000) if self.mode in ("collector", "queued") else ()
        self.session = kind(self.outbox, b"board-1", *arguments, **self.session_options)
        self.client = Client(self._link, self.session)
        self.stream = None

    def _link(self):
        self.links += 1
        self.stream = FakeStream(65536, **self.stream_options)
        return self.stream

    def poll(self, times=1):
        for _ in range(times):
            self.now_ms += 10
            self.client.poll(self.now_ms)
        return self

    def connect(self, connack=CONNACK, word=None):
        """Connect: through CONNACK, and in collector mode SUBACK and the confirmation `word`."""
        for _ in range(8000):
            self.poll()
            if self.stream and not self.stream.closed:
                break
        self.poll(40 if self.stream.room else 2)
        self.stream.say(connack)
        self.poll(2)
        written = self.stream.take()
        if self.mode in ("collector", "queued"):
            subscribe = [body for first, body in split(written) if first == 0x82]
            self.stream.say(b"\x90\x03" + subscribe[0][:2] + subscribe[0][-1:])
            if word is not None:
                self.stream.say(confirmation(word) if self.mode == "collector" else queued(word, 1))
            self.poll(4)
        self.early = publishes(written + self.stream.take())
        return self

    def publish(self, *payloads):
        for payload in payloads:
            assert self.client.publish(TOPIC, payload) == 0
        return self

    def sent(self, polls=40):
        """Returns what the client publishes in the next polls, and what it published since
        CONNACK."""
        early, self.early = self.early, []
        return early + publishes(self.poll(polls).stream.take())

    def say(self, data, polls=6):
        self.stream.say(data)
        return self.poll(polls)

    def drop(self):
        """The connection breaks."""
        self.stream.broken = True
        self.poll(2)


def acknowledged(bench, *payloads):
    """Publish with a Bench, and let the server acknowledge everything."""
    bench.publish(*payloads)
    while bench.session.base < bench.outbox.next_seq:
        for packet_id, _, _ in bench.sent():
            bench.say(puback(packet_id), 2)
    return bench

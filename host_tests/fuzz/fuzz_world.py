"""The surroundings of the client in the fuzzer: stream, outbox, clock and application, driven by a
program (`fuzz_program.py`) and observed by a model (`fuzz_model.py`).
"""

from __future__ import annotations

from typing import Any

from fake_flash import PowerCut, flash_in_ram, image_of
from fuzz_facts import (
    CLOSED,
    CONNECTED,
    CONNECTING,
    Connection,
    Message,
    Violation,
    decode,
    require,
)
from fuzz_firmware import Firmware
from fuzz_model import Model
from fuzz_ops import FILTERS, Ops
from fuzz_outboxes import SteadyOutbox, observed
from fuzz_program import Program
from scripted_server import encode

TICKS = 0x3FFFFFFF
TOPIC, WORD, STREAM = b"o/d", b"o/w", b"3fa9c1d2"
RX_BYTES, RECORD_BYTES = 64, 104
MOST_POLLS = 20_000
MODES = {
    "subscriber": "SubscribingSession",
    "streamer": "StreamingSession",
    "durable": "DurableSession",
    "exactly_once": "ExactlyOnceSession",
}
_FIXED = ("tx", "buffer", "_rx", "_note")  # buffers that must keep their size
_NAMED_ERRORS = (-22, -23, -25, -26, 0)  # a connection may end in these, whatever the server sent
_FIRST_WAIT_MS, _LONGEST_WAIT_MS, _RESPONSE_MS = 250, 60_000, 10_000


class Stream:
    """One connection."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.written, self.incoming = bytearray(), bytearray()
        self.at = 0
        self.moved_ms = 0  # when the client read bytes, or wrote part of a CONNECT
        self.broken = self.ended = self.closed = False

    def write(self, buf: Any, offset: int, length: int) -> int | None:
        require(
            not self.closed and 0 <= offset and 0 < length <= len(buf) - offset,
            "write %d %d",
            offset,
            length,
        )
        if self.broken:
            raise OSError(104)
        length = min(length, self.world.room)
        if length and self.world.session.state == CONNECTING:
            self.moved_ms = self.world.now_ms
        self.written += buf[offset : offset + length]
        return length or None

    def readinto(self, buf: Any) -> int | None:
        require(not self.closed, "read from a closed stream")
        if self.broken:
            raise OSError(104)
        count = min(len(self.incoming) - self.at, len(buf), self.world.chunk)
        if not count:
            return 0 if self.ended else None
        self.moved_ms = self.world.now_ms
        buf[:count] = self.incoming[self.at : self.at + count]
        self.at += count
        return count

    def close(self) -> None:
        require(not self.closed, "closed twice")
        self.closed = True


class Taking:
    """How far the session has read when it makes a call: it knows that only while it is reading."""

    def __init__(self, client: Any) -> None:
        self.client, self.session = client, client.session
        self.at = self.end = self.unread = 0
        self.is_inside = self.is_reading = False
        session = self.session
        self.receive, self.take, self.feed = session.receive, session._take, session.feed
        self.on_puback = session._on_puback
        self.lost = client._lost
        client._receive, client._lost = self._receive, self._lost
        session._take, session.feed = self._take, self._feed
        session._on_puback = self._on_puback

    def left(self) -> int:
        """Returns how many bytes were read from the stream and not yet consumed."""
        if self.client._stream is None:
            return self.unread
        if self.is_inside:
            return self.end - self.at
        return self.client._rx_end - self.client._rx_at if self.client._rx_at >= 0 else 0

    def _receive(self, data: Any, at: int, end: int) -> int:
        self.at, self.end = at, end
        self.is_inside = True
        found = self.receive(data, at, end)
        self.is_inside = found < 0  # the client ignores what follows the error
        return found

    def _lost(self, error: int) -> None:
        self.unread = self.left()
        self.is_inside = False
        self.lost(error)

    def _take(self, data: Any, at: int, end: int) -> int:
        self.is_reading = True
        try:
            return self.take(data, at, end)
        finally:
            self.is_reading = False

    def _feed(self, data: Any, at: int, end: int) -> int:
        found = self.feed(data, at, end)
        self.at = found if found >= 0 else self.end
        return found

    def _on_puback(self, packet_id: int) -> int:
        if not self.is_reading:
            self.at += 4
        return self.on_puback(packet_id)


class World:
    """target: a key of MODES, with "_flash" appended for the firmware's outbox on a chip that can
    lose its power.
    """

    def __init__(self, firmware: Firmware, target: str, program: Program) -> None:
        self.mode, _, flash = target.partition("_flash")
        mode = self.mode
        start = program[0] if program and program[0][0] == "start" else ("", 0, b"\x10")
        self.classes = firmware.classes
        self.first_seq = (
            start[1] if mode in ("durable", "exactly_once") or start[1] < TICKS - 99 else 0
        )
        self.window = min(max(start[2][0] if start[2] else 16, 1), 16)
        hits, spare = firmware.hits, firmware.spare_at
        size = firmware.SPARE

        def note_state(value: int) -> None:
            hits[spare + value % size] = 1

        self.model = Model(mode, self.window, RX_BYTES, WORD, STREAM, note_state)
        self.now_ms, self.room, self.chunk = start[1], 1 << 16, 1 << 16
        self.handler = self.link_fails = self.fails = self.polls = 0
        self.link_gives_none = False
        self.opened_ms = self.next_link_ms = 0
        self.all: dict[int, Message] = {}
        self.stream: Stream | None = None
        self.trying: Message | None = None  # what a power cut inside publish() may leave
        self.trying_note: bytes | None = None
        self.is_watching = True
        self.flash = self._formatted() if flash else None
        self.model.next_seq = self.first_seq
        self.outbox: Any = None
        self.log: list[tuple] = []  # what the application received
        self.boot()

    # --- Power ---

    def _formatted(self) -> Any:
        kind = "NotedOutbox" if self.mode == "exactly_once" else "Outbox"
        key = kind, self.first_seq
        if key not in _IMAGES:
            flash = flash_in_ram(4, 256)
            self.classes[kind](flash, RECORD_BYTES).format(STREAM, False, self.first_seq)
            _IMAGES[key] = image_of(flash)
        flash = flash_in_ram(4, 256, _IMAGES[key])
        write = flash.writeblocks

        def write_or_fail(*arguments: Any) -> None:
            if self.fails:
                self.fails -= 1
                raise OSError(5)
            write(*arguments)

        flash.writeblocks = write_or_fail
        return flash

    def _mounted(self) -> Any:
        if self.flash:
            self.flash.cut_at = 0
            outbox = observed(
                self.classes["NotedOutbox" if self.mode == "exactly_once" else "Outbox"], self
            )(self.flash, RECORD_BYTES)
            self.is_watching = False
            require(outbox.mount() == 0, "mount failed")
            self.is_watching = True
            return outbox
        if self.mode in ("durable", "exactly_once"):
            return self.outbox or observed(SteadyOutbox, self)(STREAM, RECORD_BYTES, self.first_seq)
        outbox = observed(self.classes["RamOutbox"], self)(16, RECORD_BYTES)
        outbox.next_seq = outbox.oldest_seq = self.first_seq
        return outbox

    def boot(self) -> None:
        if self.outbox:
            self.check_sizes()
        self.model.connection, self.stream = None, None
        self.next_link_ms = self.now_ms
        self.outbox = self._mounted()
        arguments: list[Any] = [self.outbox, b"board-1"]
        if self.mode == "durable":
            arguments += [WORD, 1000]
        kind = self.classes[MODES[self.mode]]
        session = self.session = kind(*arguments, window=self.window, rx_bytes=RX_BYTES)
        self.client = self.classes["Client"](self.link, session)
        self.taking = Taking(self.client)
        session.on_message, session.on_acknowledged = self.on_message, self.on_acknowledged
        session.on_piece = self.on_piece
        self.sizes = self._sizes()
        self.model.connect_packet = bytes(session.connect_packet)
        session.now_ms = self.now_ms & TICKS
        self._recall()

    def _recall(self) -> None:
        """After a reset the outbox must hold what it accepted, except what was released."""
        model, outbox = self.model, self.outbox
        if self.trying and outbox.next_seq == self.trying.seq + 1:
            self._accept(self.trying)
        self.trying = None
        if not self.flash and self.mode in ("subscriber", "streamer"):
            model.messages.clear()  # in RAM: lost
            self.all.clear()
            model.next_seq = outbox.next_seq
            return
        require(
            outbox.next_seq == model.next_seq,
            "next_seq %d after a reset, was %d",
            outbox.next_seq,
            model.next_seq,
        )
        for seq in range(outbox.oldest_seq, outbox.next_seq):
            if (
                seq not in model.messages
                and not (outbox.acked << 1) >> (seq - outbox.oldest_seq) & 1
            ):
                model.messages[seq] = self.all[seq]
                self.all[seq].written = self.all[seq].acked = False
        for message in model.messages.values():
            message.loads = 1
        model.pieces.clear()
        self._recall_note()
        self.check_held()

    def _recall_note(self) -> None:
        if self.mode != "exactly_once":
            return
        model = self.model
        note = bytes(self.outbox.note[: self.outbox.note_length])
        allowed = {bytes(self.note_ok), self.trying_note} if hasattr(self, "note_ok") else {b""}
        require(note in allowed, "note %r after a reset, was %r", note, allowed)
        self.note_ok, self.trying_note = note, None
        model.noted_released = model.noted = set()
        if note:
            model.take_note(note)
        model.arrived = set(model.noted)
        for message in model.messages.values():
            message.released = message.seq in model.noted_released and message.qos == 2

    def check_held(self) -> None:
        for seq, message in self.model.messages.items():
            require(
                self.outbox.load(seq) == 0 and self.outbox.loaded_seq == seq,
                "message %d is lost",
                seq,
            )
            at, end = (
                self.outbox.topic_at + len(TOPIC),
                self.outbox.topic_length + self.outbox.payload_length,
            )
            payload = bytes(self.outbox.buffer[at : self.outbox.topic_at + end])
            require(payload == message.payload, "message %d reads %r", seq, payload)
            message.loads -= 1

    # --- What the firmware calls ---

    def link(self) -> Stream | None:
        require(self.now_ms >= self.next_link_ms, "connects without backoff")
        if self.link_fails:
            self.link_fails -= 1
            if self.link_gives_none:
                return None
            self.next_link_ms = self.now_ms + _FIRST_WAIT_MS
            raise OSError(113)
        self.stream = Stream(self)
        self.model.connection = Connection()
        self.model.pieces.clear()
        self.opened_ms = self.now_ms
        return self.stream

    def sync(self) -> None:
        stream = self.stream
        if stream and self.model.connection:
            self.model.sync(stream.incoming, stream.at - self.taking.left())

    def on_message(self, session: Any) -> None:
        self.sync()
        at, end = session.payload_at, session.payload_at + session.payload_length
        topic = bytes(session.buffer[2 : 2 + session.topic_length])
        payload = bytes(session.buffer[at:end])
        self.model.raises = self.handler in (1, 2)
        self.model.called(session.first, topic, payload)
        self.log.append(("message", session.first, topic, payload))
        if self.handler == 2:
            self.handler = 0
        if self.model.raises:
            raise KeyError("the application's fault")
        if self.handler == 3:
            self.publish(1, 5)

    def on_piece(self, session: Any, data: Any, at: int, count: int) -> None:
        pieces = self.model.pieces
        require(0 <= at and 0 < count <= len(data) - at, "piece %d %d", at, count)
        if session.piece_at == 0:
            topic = bytes(session.buffer[2 : 2 + session.topic_length])
            pieces.append([topic, session.payload_length, bytearray(), False])
        piece, at_piece = pieces[-1], session.piece_at
        require(piece[2:] and len(piece[2]) == at_piece and not piece[3], "piece at %d", at_piece)
        piece[2] += data[at : at + count]
        self.log.append(("piece", bytes(data[at : at + count])))
        if self.handler in (1, 4):
            piece[3] = True
            raise KeyError("the application's fault")

    def on_acknowledged(self, seq: int) -> None:
        self.sync()
        self.model.reported(seq)
        self.log.append(("acknowledged", seq))

    def on_note(self, note: bytes, ok: bool) -> None:
        self.sync()
        self.trying_note = None
        if ok:
            self.note_ok = note
        self.model.note_saved(note, ok)

    # --- Steps ---

    def poll(self) -> bool:
        self.model.now_ms = self.now_ms
        self.polls += 1
        require(self.polls < MOST_POLLS, "does not come to rest")
        moved = self.client.poll(self.now_ms & TICKS)
        self.watch()
        return moved

    def rest(self) -> None:
        while self.poll():
            pass

    def watch(self) -> None:
        """Check after anything the client did."""
        one, client = self.model.connection, self.client
        if one:
            self.sync()
            if one.call or one.acked or one.saving:
                self.model.nothing_is_left("after a poll")
            if client._stream is None:
                self._closed(one)
            else:
                self._open(one)
        base, next_send = self.session.base, self.session.next_send
        require(0 <= next_send - base <= self.window, "window %d..%d", base, next_send)

    def check_sizes(self) -> None:
        """A buffer that grew does not shrink again, so checking at the end suffices."""
        sizes, session = self._sizes(), self.session
        require(sizes == self.sizes, "buffers %r, were %r", sizes, self.sizes)
        is_bounded = len(session.filters) <= len(FILTERS) + 1 and not session._acked >> 16
        require(is_bounded, "filters or window grow")

    def _sizes(self) -> list[int]:
        owners = (self.client, self.session)
        return [len(getattr(one, name)) for one in owners for name in _FIXED if hasattr(one, name)]

    def _open(self, one: Connection) -> None:
        session, stream = self.session, self.stream
        assert stream
        require(not one.error, "error %d, and the connection stays open", one.error)
        waiting = session.out_end and session.out_end - session.out_at
        if len(stream.written) + waiting != len(one.started):
            rest = bytes(session.out[session.out_at : session.out_at + waiting])
            self.model.started(bytes(stream.written) + rest)
        one.half_sent = one.last_publish_id if waiting else 0
        require(session.state == one.state, "state %d, expected %d", session.state, one.state)
        if one.state == CONNECTING or one.ping_ms >= 0:
            asked_ms = self.opened_ms if one.state == CONNECTING else one.ping_ms
            late = self.now_ms - max(asked_ms, stream.moved_ms)
            require(late < _RESPONSE_MS, "no answer for %d ms, and the connection stays open", late)

    def _closed(self, one: Connection) -> None:
        client, stream = self.client, self.stream
        assert stream and stream.closed
        error = client.last_error
        wanted = (one.error,) if one.error else (*_NAMED_ERRORS, 104)
        is_closed = self.session.state == CLOSED
        require(error in wanted and is_closed, "closed with %d, expected %r", error, wanted)
        self._last_written(one, bytes(stream.written))
        self.model.connection = self.stream = None
        self.model.zero = None
        self.next_link_ms = self.now_ms + _FIRST_WAIT_MS
        self.log.append(("closed", error))

    def _last_written(self, one: Connection, data: bytes) -> None:
        """Check the last packet, of which maybe only a part was written."""
        if len(data) <= len(one.started):
            require(one.started.startswith(data), "what was to be written has changed")
            return
        rest = data[len(one.started) :]
        whole = b""
        while (step := decode(rest)) is not None:
            whole, rest = whole + rest[: len(rest) - len(step[2])], step[2]
        error, one.error = one.error, 0
        self.model.started(bytes(one.started) + whole)
        one.error = error

    def publish(self, qos: int, size: int, retain: bool = False) -> int:
        seq = self.outbox.next_seq
        payload = b"%010d" % seq + b"x" * size
        message = Message(seq, TOPIC, payload, qos, retain)
        self.trying = message if qos else None
        status = self.client.publish(TOPIC, payload, qos, retain)
        self.trying = None
        if status == 0 and qos:
            self._accept(message)
        elif status == 0:
            self.model.zero = encode("PUBLISH", topic=TOPIC, payload=payload, retain=retain)
            self.watch()
        else:
            require(status in (-1, -2, -3, -4, -5, -8), "publish gave %d", status)
        return status

    def _accept(self, message: Message) -> None:
        require(
            self.outbox.next_seq == message.seq + 1,
            "next_seq %d after message %d",
            self.outbox.next_seq,
            message.seq,
        )
        self.model.next_seq = self.outbox.next_seq
        self.model.messages[message.seq] = self.all[message.seq] = message

    def word_of(self, seq: int, data: bytes = b"") -> bytes:
        """Returns the collector's confirmation: durable up to seq. data: other bytes in its
        middle."""
        text = STREAM + b" %d" % max(0, seq)
        return encode(
            "PUBLISH", topic=WORD, payload=text[:7] + data + text[7 + len(data) :], retain=True
        )

    def do(self, word: str, number: int, data: bytes) -> None:
        try:
            getattr(Ops, word)(self, number, data)
        except PowerCut:
            self.boot()


_IMAGES: dict[tuple[str, int], bytes] = {}


def run(firmware: Firmware, target: str, program: Program) -> World:
    """Raises Violation, or whatever else should not occur."""
    world = World(firmware, target, program)
    for word, number, data in program:
        world.do(word, number, data)
    try:
        world.rest()
    except PowerCut:
        world.boot()
    world.check_sizes()
    world.check_held()
    one = world.model.connection
    if one and one.state == CONNECTED and world.room > 1000 and not world.session.out_end:
        require(one.answer is None, "%r is never sent", one.answer)
    return world


__all__ = ["Violation", "World", "run"]

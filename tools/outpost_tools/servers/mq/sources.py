"""Where publications come from: an MQTT subscription with manual acknowledgement, or the
collector's segments.

We use MQTT 5 for one option, Retain As Published: an MQTT 3.1.1 server clears RETAIN in what it
forwards to an existing subscription, so a bridge could not tell which publications to retain. QoS 1
and not 2: paho takes over a QoS 2 message (PUBREC) before anyone could make it durable.
"""

from __future__ import annotations

import itertools
import json
import ssl
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.subscribeoptions import SubscribeOptions

from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.machine.files import replace_text
from outpost_tools.mqtt.connection import Limits
from outpost_tools.mqtt.message_connection import MessageConnection
from outpost_tools.servers.mq.bridge import DAMAGED, Incoming
from outpost_tools.servers.mq.mapping import Publication
from outpost_tools.servers.mq.reasons import MqError

# One batch is one unit of work and one fsync.
BATCH_MESSAGES = 500
BATCH = Limits(messages=BATCH_MESSAGES, seconds=0.1, bytes=16 << 20)
FOLLOW_S = 0.2
_BEGINNING_BYTES = 64  # of a segment: its magic, and the first message's time and topic


class Subscription(MessageConnection[Incoming]):
    """A persistent session at a broker; connects by itself, with backoff, whenever take() finds no
    connection."""

    is_finished = False
    login_hint = "check --user and --password-file, or --credentials, or try --mqtt 3.1.1"
    level_hint = "try --mqtt 3.1.1, or --mqtt 5"

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        filters: Sequence[str],
        *,
        version: int = mqtt.MQTTv5,
        credentials: tuple[str, str | None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(
            address, client_id, BATCH, version=version, credentials=credentials, tls=tls
        )
        self._filters = list(filters)

    def ack(self, received: Sequence[Incoming]) -> None:
        """PUBACK for those of this connection; the broker retransmits the others."""
        if self.connected:
            due = [incoming.token for incoming in received if incoming.publication.qos == 1]
            self._client.ack_all(
                [
                    packet_id.to_bytes(2, "big")
                    for packet_id, connection in due
                    if connection == self._connection
                ]
            )

    def _subscribe(self, client: mqtt.Client) -> None:
        if self._version == mqtt.MQTTv5:
            # Retained messages once, when the subscription is made: sent again, they would arrive
            # after newer ones.
            options = SubscribeOptions(
                qos=1,
                retainAsPublished=True,
                retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB,
            )
            client.subscribe([(name, options) for name in self._filters])
        else:
            client.subscribe([(name, 1) for name in self._filters])

    def _on_subscribe(self, _client, _userdata, _mid, reasons, _properties) -> None:
        for name, reason in zip(self._filters, reasons, strict=False):
            self._say(
                f"refused to let us subscribe to {name}"
                if reason.is_failure
                else f"subscribed to {name}"
            )

    def _on_message(self, _client, _userdata, message: mqtt.MQTTMessage) -> None:
        topic = message._topic  # .topic raises when it is not UTF-8
        packet = Publication(
            topic, bytes(message.payload), message.qos, bool(message.retain), bool(message.dup)
        )
        self._taken_bytes += len(topic) + len(packet.payload)
        self._taken.append(
            Incoming(packet, time.time_ns() // 1_000_000, (message.mid, self._connection))
        )

    def _speaker(self) -> str:
        return "mq bridge: "


class Segments:
    """The sealed segments of one collector, in order. The file `position` stores how far we have
    put, and a checksum of the beginning of that segment. It contains times, so no other log's
    segment begins the same way.

    The collector subscribes with QoS 1 and does not store a packet's QoS: 1 is assumed.
    """

    def __init__(self, directory: Path, position: Path, *, follow: bool) -> None:
        """Raises ToolError when there is no such directory, or when the file is not ours."""
        if not directory.is_dir():
            raise ToolError(f"{directory}: no such directory; name the collector's, LOG/ID")
        self._directory = directory
        self._position = position
        self._follow = follow
        self._at, self._begins = _read_position(position)
        self._loaded = (-1, b"")  # number and bytes of the segment that we are reading
        self._told = -1  # up to this number, missing segments were reported
        self.is_finished = False

    def take(self, wait_s: float) -> list[Incoming]:
        """Frames of one segment, from where the last acknowledged ones ended."""
        before = self._at[0]
        self._check_end()
        for path in segments.sealed_segments(self._directory):
            number = segments.segment_number(path)
            if number < self._at[0]:
                continue
            self._tell_missing(before + 1, number)
            before = number
            begin = self._at[1] if number == self._at[0] else len(segments.MAGIC)
            received = self._frames(path, number, begin)
            if received:
                return received
        if not self._follow:
            self.is_finished = True
        else:
            time.sleep(min(wait_s, FOLLOW_S))
        return []

    def ack(self, received: Sequence[Incoming]) -> None:
        """Store the position; durable before it returns."""
        self._at = received[-1].token
        if self._loaded[0] == self._at[0]:
            self._begins = _beginning(self._loaded[1])
        try:
            _write_position(self._position, self._at, self._begins)
        except OSError as error:
            raise ToolError(
                f"{self._position}: {error.strerror}; what was put since then will be put again"
            ) from None

    def idle(self) -> None:
        """Nothing to keep alive."""

    def close(self) -> None:
        """Nothing to close."""

    def _tell_missing(self, first: int, number: int) -> None:
        """Report missing segments, from `first` to the one before `number`, once: `outpost pipeline
        prune` does not know about us."""
        if first >= number or number <= self._told:
            return
        self._told = number
        print(
            f"mq bridge: {self._directory}: segments {first} to {number - 1} are no longer there; "
            "their messages were not put",
            file=sys.stderr,
            flush=True,
        )

    def _check_end(self) -> None:
        """Raises ToolError."""
        paths = segments.sealed_segments(self._directory), segments.open_segments(self._directory)
        numbers = [segments.segment_number(path) for path in itertools.chain(*paths)]
        if numbers and max(numbers) < self._at[0]:
            raise self._not_ours(f"at segment {self._at[0]}, and the log ends at {max(numbers)}")

    def _not_ours(self, why: str) -> ToolError:
        return ToolError(
            f"{self._position} belongs to another log than {self._directory}: {why}; give this log "
            "a file of its own with --position"
        )

    def _frames(self, path: Path, number: int, begin: int) -> list[Incoming]:
        """From `begin` on. Damaged bytes are returned as publications to refuse, which keeps a copy
        of them. Raises ToolError for a file that is not a segment."""
        try:
            if self._loaded[0] != number:
                self._loaded = number, path.read_bytes()
        except FileNotFoundError:  # deleted since it was listed; the next take() reports it
            return []
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None
        data = self._loaded[1]
        if number == self._at[0] and self._begins not in (None, _beginning(data)):
            raise self._not_ours(f"segment {number} begins differently")
        if begin > len(data):
            return []
        found = segments.Contents(data)
        frames = list(itertools.islice(found.frames(begin), BATCH_MESSAGES))
        if not found.has_magic and not frames and begin == len(segments.MAGIC):
            raise ToolError(
                f"{path}: not a segment (wrong magic); remove it from the log directory"
            )
        received = [_incoming(frame, number) for frame in frames]
        received += [_damaged(piece, found, path, number) for piece in found.damage]
        return sorted(received, key=lambda incoming: incoming.token)


def _incoming(frame: segments.Frame, number: int) -> Incoming:
    fault = None
    if frame.truncated:
        text = f"the collector kept {len(frame.payload)} of {frame.original_length} bytes"
        fault = MqError("truncated", 0, text)
    packet = Publication(
        frame.topic, frame.payload, 1, frame.retained, bool(frame.flags & segments.FLAG_DUP)
    )
    return Incoming(packet, frame.received_ms, (number, frame.end), fault)


def _damaged(piece: segments.Damage, found: segments.Contents, path: Path, number: int) -> Incoming:
    fault = MqError(DAMAGED, 0, f"{path}: {piece} at byte {piece.begin}")
    packet = Publication(b"", found.data[piece.begin : piece.end], 1, False, False)
    # Past the end of the file, so that a missing end is not reported again.
    end = piece.end + (piece.end == len(found.data))
    return Incoming(packet, 0, (number, end), fault)


def _beginning(data: bytes) -> int:
    return zlib.crc32(data[:_BEGINNING_BYTES])


def _write_position(path: Path, at: tuple[int, int], begins: int | None) -> None:
    replace_text(path, json.dumps({"segment": at[0], "offset": at[1], "begins": begins}))


def _read_position(path: Path) -> tuple[tuple[int, int], int | None]:
    """((segment, offset), checksum of that segment's beginning; None: not known); the first segment
    when there is no file. Raises ToolError."""
    if not path.exists():
        return (0, len(segments.MAGIC)), None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        at, begins = (record["segment"], record["offset"]), record.get("begins")
        if any(type(one) is not int or one < 0 for one in (*at, begins or 0)):
            raise ValueError
        return at, begins
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise ToolError(
            f"{path} contains no position; remove it to begin with the first segment"
        ) from None

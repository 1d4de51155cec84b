"""Other people's messages in the collector: which topics, and which copies are dropped.

The frames hold topic and bytes as they came. Nothing is decoded here, and nothing is confirmed: a
payload that looks like a message of one of our boards is not stored under another topic, because a
later start would read its key from the log and confirm numbers that no board has sent.

**Copies.** A broker sends a message again with DUP if it does not know that we acknowledged it. The
law: a message is dropped if it has DUP, and identifier, topic and bytes equal those of the last
message stored under that identifier. DUP alone says nothing: it is also set if the first attempt
never reached us. What is not told apart: a copy, and a new message with the same identifier, topic
and bytes whose first attempt was lost.

The file `foreign.ids` keeps identifiers over a restart. A batch's are appended before its frames
are stored. So after a kill those of the last batch are in doubt, and of these a start believes only
what it finds in the log, with the same arrival: a note of a frame that is not there would lose a
message. The file has no fsync of its own: after a power cut there may be copies in the log, which
the tables recognise if they have an identifier or a time of their own. If the broker has lost our
session, its identifiers mean nothing and are forgotten.

    entry    identifier:2  hash of topic and payload:8  received_ms:u64, little endian
    a batch begins with an entry of zeros

`foreign.filters` keeps the topic filters, so that the next start unsubscribes from what the mapping
no longer has: the session at the broker would remember it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from outpost_tools.common import files, segments, series
from outpost_tools.common.errors import ToolError
from outpost_tools.common.message import is_cbor, key_of
from outpost_tools.common.mqtt_packets import DUP
from outpost_tools.sources import topics

if TYPE_CHECKING:
    from outpost_tools.sources.mapping import Mapping

_TOPICS_REMEMBERED = 100_000
_HASH_BYTES = 8
_ENTRY = struct.Struct("<2s8sQ")
_BEGIN = bytes(_ENTRY.size)
_NO_ID = bytes(2)
_MOST_BYTES = 4 * 65_535 * _ENTRY.size  # of the file; MQTT has 65,535 identifiers
_DOUBT_BYTES = 8 << 20  # of the newest segments: a batch has half of it

Entry = tuple[bytes, bytes, int]  # identifier, hash of topic and payload, arrival in ms


class Foreign:
    """mapping: None: there is none any more, and earlier filters are left. prefix: our boards'
    topics, which no mapping can take. copies, imitations: how many were dropped."""

    def __init__(self, mapping: Mapping | None, prefix: str, directory: Path) -> None:
        """Raises ToolError if the mapping wants our boards' topics."""
        self._directory, self._own = directory, f"{prefix}/".encode()
        self._ignored = [] if mapping is None else mapping.ignored
        self._wanted = [] if mapping is None else [topics.parse(one) for one in mapping.topics]
        _check(mapping, prefix)
        self.filters = [one.filter for one in self._wanted]
        self._noted = self._filters_before()
        self.left = [one for one in self._noted if one not in self.filters]
        self._known: dict[bytes, bool] = {}
        self._is_to_rewrite = False
        self._stored = self._load()
        self.copies = self.imitations = 0

    # --- What to store ---

    def takes(self, topic: bytes) -> bool:
        """Whether messages on this topic are stored: what the mapping subscribes to, but for its
        `ignore` and for our own topics."""
        found = self._known.get(topic)
        if found is None:
            if len(self._known) >= _TOPICS_REMEMBERED:
                self._known.clear()
            found = self._known[topic] = self._decide(topic)
        return found

    def _decide(self, topic: bytes) -> bool:
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return False
        is_wanted = any(one.match(text) is not None for one in self._wanted)
        is_ignored = any(one.match(text) is not None for one in self._ignored)
        return is_wanted and not is_ignored and not topic.startswith(self._own)

    def entry(
        self, kind: int, topic: bytes, packet_id: bytes, payload: bytes, now_ms: int
    ) -> Entry | None:
        """What to remember of a message; None if it must not be stored."""
        if _may_have_key(payload) and key_of(topic, payload) is not None:
            self.imitations += 1
            return None
        if not packet_id:  # QoS 0 is never sent again
            return _NO_ID, b"", now_ms
        digest = _digest(topic, payload)
        if kind & DUP and self._stored.get(packet_id) == digest:
            self.copies += 1
            return None
        return packet_id, digest, now_ms

    # --- What was stored ---

    def announce(self, entries: list[Entry]) -> None:
        """These are about to be stored."""
        packed = [_ENTRY.pack(*one) for one in entries if one[0] != _NO_ID]
        if not packed:
            return
        path = self._directory / "foreign.ids"
        with contextlib.suppress(OSError):  # then a restart may store copies
            if self._is_to_rewrite or (path.exists() and path.stat().st_size > _MOST_BYTES):
                with files.replaced(path) as new:
                    new.writelines(_ENTRY.pack(*one, 0) for one in self._stored.items())
                self._is_to_rewrite = False
            with path.open("ab", buffering=0) as file:
                file.write(_BEGIN + b"".join(packed))
                self._is_to_rewrite = file.tell() % _ENTRY.size != 0

    def stored(self, entries: list[Entry]) -> None:
        """These are durable."""
        self._stored.update((one, digest) for one, digest, _ in entries if one != _NO_ID)

    def forget(self) -> None:
        """The broker has no session of ours: its identifiers begin again."""
        self._stored.clear()
        with contextlib.suppress(OSError):
            (self._directory / "foreign.ids").unlink(missing_ok=True)

    def note(self, filters: list[str]) -> None:
        """The broker may have these filters in our session, and no others. Call it before
        SUBSCRIBE, with those that are left, and without them after UNSUBACK."""
        if filters == self._noted:
            return
        with contextlib.suppress(OSError):
            files.replace_text(self._directory / "foreign.filters", json.dumps(filters))
            self._noted = filters

    def _load(self) -> dict[bytes, bytes]:
        """The identifiers of earlier runs."""
        try:
            data = (self._directory / "foreign.ids").read_bytes()
        except OSError:
            return {}
        self._is_to_rewrite = len(data) % _ENTRY.size != 0
        entries = list(_ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]))
        begins = [at for at, one in enumerate(entries) if one[0] == _NO_ID]
        sure = entries[: begins[-1]] if begins else entries
        doubted = entries[begins[-1] + 1 :] if begins else []
        found = list(self._found(doubted))
        self._is_to_rewrite = (
            self._is_to_rewrite or found != doubted
        )  # the rest must not look sure later
        believed = [*sure, *found]
        return {one: digest for one, digest, _ in believed if one != _NO_ID}

    def _found(self, entries: list[Entry]) -> Iterator[Entry]:
        """Those whose frames are in the newest segments. Equal ones are in the order of the log, so
        that of two of which one was stored, it is the first."""
        if not entries:
            return
        wanted = {(ms, digest) for _, digest, ms in entries}
        there: Counter[tuple[int, bytes]] = Counter()
        size = 0
        for path in reversed(segments.sealed_segments(self._directory)):
            for frame in segments.contents(path).frames():
                found = frame.received_ms, _digest(frame.topic, frame.payload)
                there[found] += found in wanted
            size += path.stat().st_size
            if size > _DOUBT_BYTES:
                break
        for one in entries:
            there[one[2], one[1]] -= 1
            if there[one[2], one[1]] >= 0:
                yield one

    def _filters_before(self) -> list[str]:
        try:
            found = json.loads((self._directory / "foreign.filters").read_bytes())
        except (OSError, ValueError):
            return []
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _check(mapping: Mapping | None, prefix: str) -> None:
    """Raises ToolError if a source reads nothing but our boards' topics."""
    for one in mapping.readers if mapping is not None else []:
        if one.pattern.text.startswith(f"{prefix}/"):
            raise ToolError(
                f"--sources: {one.name!r}: topics below {prefix}/ are those of Outpost's boards, "
                "which are read without a mapping; give another topic, or another --prefix"
            )


def _digest(topic: bytes, payload: bytes) -> bytes:
    """Of what a frame keeps of a message."""
    digest = hashlib.blake2b(b"%d " % len(topic), digest_size=_HASH_BYTES)
    digest.update(topic + payload[: segments.MAX_PAYLOAD_BYTES])
    return digest.digest()


def _may_have_key(payload: bytes) -> bool:
    """False only for what has none for sure: the label `sid` is not in it, neither plain nor in
    another encoding or with escapes, and it is neither CBOR nor a series."""
    is_binary = is_cbor(payload) or series.is_series(payload)
    return is_binary or b"sid" in payload or b"\\" in payload or b"\0" in payload

"""Other people's messages as rows of schemas.FRAME, by a mapping (the room `sources`).

Their key has the form of a board's, but nothing in it counts: `stream` is the name of the source,
`seq` 62 bits of the message's identity. That is what the sender says of the message, so that copies
are equal (sources.guarantee), or else its place in the log. There is one boot, 0, and nothing is
held back. A reading that has the time of its arrival is `placed`. A device's state is a reading
named ONLINE. A retained message is no reading: it is the last known value.

fingerprints() are what the table of that name keeps of messages whose copies are recognised. The
upper 12 bits say where to look: those of one day are adjacent, or of one device where the sender
gives identifiers. Of 10^9 messages, 10^7 a day, one in 10^10 is mistaken for a copy of another.
"""

from __future__ import annotations

import functools
import hashlib
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.log import segments
from outpost_tools.readings.pipeline import schemas
from outpost_tools.readings.sources import decode, file, guarantee
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.readings.sources.paths import SWITCH
from outpost_tools.readings.sources.result import Message, Refused, State

ONLINE = "online"  # 1 or 0
_SEQ_SHIFT = 64 - 62  # Delta's integers have a sign
_HASH_BITS, _NEAR = 52, 1 << 12
_DAY_US = 86_400_000_000


@functools.lru_cache(maxsize=4)
def mapping_of(text: str) -> Mapping:
    """The mapping of a file's text. A worker keeps it, with what it has learnt of topics and
    paths."""
    return file.parse(text, "sources")


def frame_rows(mapping: Mapping, frame: segments.Frame, collector: str, number: int) -> list[tuple]:
    """One row per reading, or one for the frame if it cannot be read."""
    found = decode.of_frame(mapping, frame)
    origin = schemas.origin_of(frame, collector, number)
    if type(found) is Refused:
        reason = f"{found.source}: {found.reason}" if found.source else found.reason
        topic = frame.topic.decode("utf-8", "replace")
        refused = (topic, frame.payload, frame.retained, frame.original_length)
        return [(*schemas.NO_MESSAGE, *origin, reason, *refused)]
    if type(found) is Message and not found.is_last_known:
        return _readings(found, frame, origin)
    if type(found) is State and not found.is_last_known:
        time_us = None if frame.arrival_ms is None else frame.arrival_ms * 1000
        said = (ONLINE, SWITCH, float(found.is_online), time_us)
        placed = None if time_us is None else True
        head = (found.device, found.source, _by_place(origin[1:4]), placed, guarantee.NONE)
        return [_row(head, 0, said, origin)]
    return []


def _readings(found: Message, frame: segments.Frame, origin: tuple) -> list[tuple]:
    head = head_of(found, frame.topic, frame.payload, origin[1:4])
    return [
        _row(head, at, (r.name, r.unit, r.value, r.time_us), origin)
        for at, r in enumerate(found.readings)
    ]


def head_of(
    found: Message, topic: bytes, payload: bytes, place: tuple[str, int, int]
) -> tuple[str, str, int, bool | None, str]:
    """device, stream, seq, placed, guarantee. place: (collector, segment, offset)."""
    identity = guarantee.identity(found, topic, payload)
    seq = _by_place(place) if identity is None else _number(identity)
    placed = True if found.time_from == "arrival" else None
    return found.device, found.source, seq, placed, found.guarantee


def _by_place(place: tuple[str, int, int]) -> int:
    said = "/".join(map(str, place))
    return _number(hashlib.blake2b(said.encode(), digest_size=8).digest())


def _number(identity: bytes) -> int:
    return int.from_bytes(identity[:8], "little") >> _SEQ_SHIFT


def _row(head: tuple, record: int, said: tuple, origin: tuple) -> tuple:
    """In the order of schemas.FRAME."""
    device, stream, seq, *promised = head
    message = (device, stream, seq, record, 0, seq, None, None, None)
    return (*message, *said, *promised, *origin, *schemas.NOT_REFUSED)


# --- Rows of schemas.READING ---


def identified(heads: pa.Table) -> np.ndarray:
    """Of which messages copies are recognised."""
    return pc.not_equal(heads["guarantee"], guarantee.NONE).to_numpy()


def fingerprints(heads: pa.Table) -> np.ndarray:
    """Of the first rows of identified messages."""
    days = pc.fill_null(heads["time"].cast(pa.int64()), 0).to_numpy() // _DAY_US
    by_id = pc.equal(heads["guarantee"], guarantee.IDENTIFIER).to_numpy()
    near = np.where(by_id, _devices(heads["device"]), days).astype(np.int64) % _NEAR
    low = heads["seq"].to_numpy() & ((1 << _HASH_BITS) - 1)
    return ((near << _HASH_BITS) | low).view(np.dtype("<u8"))


def _devices(names: pa.ChunkedArray) -> np.ndarray:
    encoded = names.combine_chunks().dictionary_encode()
    found = [zlib.crc32(name.encode()) for name in encoded.dictionary.to_pylist()]
    return np.array(found, np.int64)[encoded.indices.to_numpy()]

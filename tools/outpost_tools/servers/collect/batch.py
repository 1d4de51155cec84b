"""What the broker sent in one go, on its way into the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from outpost_tools.messages.message import Key


class Entry(NamedTuple):
    """A message of another sender: where its frame is in the batch, its packet identifier, the hash
    of its topic and payload, and its arrival."""

    index: int
    packet_id: bytes
    digest: bytes
    received_ms: int


@dataclass(slots=True)
class Batch:
    """What arrived on one connection: frames ready for the log, the keys to confirm, and the packet
    identifiers to acknowledge when all of it is durable. An identifier means nothing on a later
    connection. foreign: what to remember of other senders' messages, see foreign.py. is_note: from
    the collector itself, see notes.py."""

    connection: int
    frames: list[bytes] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    packet_ids: list[bytes] = field(default_factory=list)
    foreign: list[Entry] = field(default_factory=list)
    frame_bytes: int = 0
    is_note: bool = False

    def __bool__(self) -> bool:
        return bool(self.frames or self.packet_ids)

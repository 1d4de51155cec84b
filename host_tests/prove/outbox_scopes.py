"""The scopes of the proof: geometry, what the user and the world may do, and in which ways an
operation is cut. Data only; `prove_outbox.py` runs them to their fixpoints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from outbox_chip import ERASE_WAYS, PROGRAM_WAYS
from outbox_states import Folding

STABLE = tuple(way for way in PROGRAM_WAYS if not way.startswith("unstable"))
STABLE_ERASE = tuple(way for way in ERASE_WAYS if not way.startswith("unstable"))
UNSTABLE = tuple(way for way in PROGRAM_WAYS if way.startswith("unstable"))
UNSTABLE_ERASE = tuple(way for way in ERASE_WAYS if way.startswith("unstable"))


@dataclass(frozen=True)
class Scope:
    """actions: names of `outbox_actions.ACTIONS`. most_held: so many messages are held at most,
    when the ring itself does not bound them. wear: so many blocks may fail, in one of `ailments`.
    flips: so many bits may fall or rise by themselves. errors: any one call to the driver may raise
    OSError. short: it runs in .ci/run."""

    name: str
    blocks: int
    block_bytes: int
    actions: tuple[str, ...]
    page_bytes: int = 32
    align: int = 4
    record_bytes: int = 64
    kind: str = "Outbox"
    program_ways: tuple[str, ...] = STABLE
    erase_ways: tuple[str, ...] = STABLE_ERASE
    most_held: int = 99
    wear: int = 0
    ailments: tuple[str, ...] = ("deaf",)
    flips: int = 0
    errors: bool = False
    first_seq: int = 0
    starts_blank: bool = False
    checks_progress: bool = True
    short: bool = False
    folding: Folding = field(default_factory=Folding)

    @property
    def largest(self) -> int:
        """Bytes of payload of a message that fills a sector."""
        return self.record_bytes - 16 - 1


_BASIC = ("append large", "free first", "free second", "save", "erase ahead", "off")
_BOTH = ("append small", *_BASIC)

SCOPES = (
    Scope("two blocks", 2, 96, _BASIC, short=True),
    Scope("two blocks, two sizes", 2, 128, _BOTH),
    Scope("three blocks", 3, 96, _BASIC),
    Scope("unstable", 2, 96, _BASIC, program_ways=UNSTABLE, erase_ways=UNSTABLE_ERASE),
    Scope("reads", 2, 96, (*_BASIC, "load first", "load next")),
    Scope("driver errors", 2, 96, _BASIC, errors=True, program_ways=("nothing", "all", "random"),
          erase_ways=("nothing", "all", "random")),
    Scope("bad block", 3, 96, _BASIC, wear=1, ailments=("deaf",)),
    Scope("refusing block", 3, 96, _BASIC, wear=1, ailments=("refusing",)),
    Scope("first format", 2, 96, ("append large", "off"), starts_blank=True,
          folding=Folding(turn=False, blank=False)),
    Scope("format again", 2, 96, ("append large", "free first", "format", "off"),
          folding=Folding(turn=False, blank=False, acks=False)),
    Scope("drop oldest", 2, 96, _BASIC, kind="DropOldest"),
    Scope("notes", 3, 128, ("append large", "free first", "note", "save", "erase ahead", "off"),
          kind="NotedOutbox", folding=Folding(torn=False)),
    Scope("end of the numbers", 2, 96, _BASIC, first_seq=(1 << 30) - 6,
          folding=Folding(numbers=False)),
    Scope("a flipped bit", 2, 96, _BASIC, flips=1, folding=Folding(acks=False)),
)  # fmt: skip

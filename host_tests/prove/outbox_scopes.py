"""The scopes of the proof: the geometry, what the user and the world may do, and in which ways an
operation is cut. Data only; `prove_outbox.py` runs them to their fixpoints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from outbox_states import Folding
from virtual.chip import ERASE_WAYS, PROGRAM_WAYS

# Ways that differ each time, or with the value of a CRC: for the hunts only.
_DRAWN = ("any prefix", "any hole", "all but a bit", "all but a byte", "a weak cell")


def _stable(ways: dict) -> tuple[str, ...]:
    return tuple(way for way in ways if not way.startswith("unstable") and way not in _DRAWN)


STABLE, STABLE_ERASE = _stable(PROGRAM_WAYS), _stable(ERASE_WAYS)
# Assumption about the chip: if cells of a torn program may read as programmed, it does not read as
# erased at mount and again before the first append(). So no face of it is wholly erased.
UNSTABLE = ("unstable, half", "unstable, later", "unstable, some")


@dataclass(frozen=True)
class Scope:
    """actions: names of `outbox_actions.ACTIONS`. most_held: the most messages held, if the ring
    itself does not bound them. wear: this many blocks may fail, each in one of `ailments`. flips:
    this many bits may fall or rise by themselves. errors: any one call to the driver may raise
    OSError. short: .ci/run runs it. kills: mutants are checked with it."""

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
    cuts_mounts: bool = False  # the programs of mount() are cut as well
    most_states: int = 1 << 60  # stop there, closed or not
    short: bool = False
    kills: bool = False
    folding: Folding = field(default_factory=Folding)

    @property
    def is_series(self) -> bool:
        return self.kind == "Series"

    @property
    def largest(self) -> int:
        """Returns the bytes of payload of a message that fills a sector."""
        return self.record_bytes - 16 - 1


_BASIC = ("append large", "free first", "save", "off")
_MORE = (*_BASIC, "free second", "erase ahead")
# A torn header that lacks one cell is mended; the outbox does not promise to survive a second fault
# in it.
_NO_CELL = tuple(way for way in STABLE if "cell" not in way)
_FEW = ("nothing", "all", "first half", "random")
_SOME = (
    *_FEW,
    "last half",
    "a header",
    "all but 4 bytes",
    "hole",
    "long hole",
    "hole after a header",
)
_SOME_ERASE = (*_FEW, "last half", "zeros")

# Cells that change: what a fold takes for lost may be there again.
_LITTLE = Folding(turn=False, blank=False, acks=False, torn=False)

SCOPES = (
    Scope("two blocks", 2, 128, _BASIC, program_ways=_SOME, erase_ways=_SOME_ERASE,
          short=True, kills=True),
    Scope("first format", 2, 128, ("append large", "off"), starts_blank=True, short=True,
          kills=True, folding=Folding(turn=False, blank=False)),
    Scope("erase ahead", 2, 128, _MORE, program_ways=_SOME, erase_ways=_SOME_ERASE),
    Scope("drop oldest", 2, 128, _BASIC, kind="DropOldest", program_ways=_SOME,
          erase_ways=_SOME_ERASE),
    Scope("FF and 00", 2, 128, ("append FF", "append 00", "free first", "off"),
          program_ways=_SOME, erase_ways=_SOME_ERASE),
    Scope("driver errors", 2, 128, ("append large", "free first", "off"),
          errors=True, program_ways=_FEW, erase_ways=_FEW, checks_progress=False),
    Scope("three blocks", 3, 128, ("append large", "free first", "off"), program_ways=_FEW,
          erase_ways=_FEW, kills=True),
    Scope("bad block", 3, 128, ("append large", "free first"), wear=1, ailments=("deaf",),
          program_ways=("nothing", "all"), erase_ways=("nothing", "all"), checks_progress=False),
    Scope("refusing block", 3, 128, ("append large", "free first"), wear=1,
          ailments=("refusing",), program_ways=("nothing", "all"), erase_ways=("nothing", "all"),
          checks_progress=False),
    Scope("unstable cells", 2, 128, ("append large", "free first", "load newest", "off"),
          program_ways=UNSTABLE, erase_ways=("nothing", "all", "unstable, half"),
          folding=_LITTLE),
    Scope("spared block", 4, 128, ("append large", "load newest", "off"),
          program_ways=("unstable, half",), erase_ways=("all",), folding=_LITTLE,
          most_states=60_000),
    Scope("four blocks", 4, 128, ("append large", "free first", "load newest", "off"),
          program_ways=("unstable, half",), erase_ways=("all",), folding=_LITTLE,
          most_states=40_000),
    Scope("every way", 2, 128, _BASIC),
    Scope("cut starts", 3, 160, ("append large", "off"), program_ways=("nothing", "all", "random"),
          erase_ways=("nothing", "all"), cuts_mounts=True),
    Scope("reads", 2, 128, ("append large", "free first", "load first", "load next", "off")),
    Scope("two sizes", 2, 160, ("append small", "append large", "free first", "off"),
          most_states=20_000),
    Scope("notes", 3, 256, ("append large", "free first", "note", "off"), record_bytes=88,
          kind="NotedOutbox", folding=Folding(torn=False), most_states=6_000),
    Scope("end of the numbers", 2, 128, _BASIC, first_seq=(1 << 30) - 6,
          folding=Folding(numbers=False), most_states=20_000),
    # A record of 144 bytes is the smallest that Series accepts with one column: one per sector,
    # with up to 7 samples.
    Scope("series", 2, 208, ("add", "close", "append large", "free first", "off"),
          kind="Series", record_bytes=144, page_bytes=16, program_ways=_SOME,
          erase_ways=_SOME_ERASE),
    Scope("series alone", 2, 208, ("add", "free first", "off"), kind="Series", record_bytes=144,
          page_bytes=16, program_ways=_SOME, erase_ways=_FEW, kills=True),
    Scope("a flipped bit", 2, 160, ("append large", "free first", "off"), flips=1,
          program_ways=_NO_CELL, erase_ways=STABLE_ERASE, folding=Folding(acks=False),
          most_states=20_000),
)  # fmt: skip

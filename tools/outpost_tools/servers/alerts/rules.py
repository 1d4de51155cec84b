"""What alerts report: the tables [[reading]], [[silence]] and [attention] of alerts.toml."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Any

from outpost_tools.attention.attention import DAMAGED, KINDS, TAKEN_OVER
from outpost_tools.servers.alerts.table import Table

HOUSE = ("collector", "log", "disk", "job", DAMAGED.key, TAKEN_OVER.key)  # kinds without a board


def fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Reading:
    """One limit for a sensor. hysteresis: how far back from the bound the value must be for the
    problem to end. id: the rule in words."""

    sensor: str
    boards: tuple[str, ...]
    is_above: bool
    bound: float
    hysteresis: float
    wait_s: float

    def is_of(self, board: str, sensor: str) -> bool:
        return fits(board, self.boards) and fits(sensor, (self.sensor,))

    @property
    def id(self) -> str:
        return f"reading {'above' if self.is_above else 'below'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Silence:
    longer_s: float
    boards: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"silence {self.longer_s:g}"


@dataclass(frozen=True, slots=True)
class Attention:
    boards: tuple[str, ...]
    leave_out: tuple[str, ...]
    wait_s: float


def readings(table: Table) -> list[Reading]:
    if not (table.has("above") or table.has("below")):
        table.wrong("above", "missing; give above, below, or both")
    sensor, boards = table.text("sensor"), table.texts("boards", ("*",))
    hysteresis = table.number("hysteresis", 0, 1e38, 0)
    wait_s = table.span_s("for", "0s")
    bounds = {key: table.number(key, -1e38, 1e38, None) for key in ("above", "below")}
    above, below = bounds["above"], bounds["below"]
    if above is not None and below is not None and below + hysteresis > above - hysteresis:
        table.wrong("below", f"{below:g} and above {above:g}: no value between them is normal")
    table.done()
    return [
        Reading(sensor, boards, key == "above", float(bound), float(hysteresis), wait_s)
        for key, bound in bounds.items()
        if bound is not None
    ]


def silence(table: Table) -> Silence:
    longer_s = table.span_s("longer_than")
    if longer_s < 10:
        table.wrong("longer_than", "at least 10 seconds")
    made = Silence(longer_s, table.texts("boards", ("*",)))
    table.done()
    return made


def attention(given: Any, top: Table) -> Attention:
    table = Table(given, f"{top.where}: [attention]", top.folder)
    leave_out = table.texts("leave_out", ())
    known = [*(key for key, kind in KINDS.items() if kind.needs_attention), *HOUSE]
    for one in leave_out:
        if one not in known:
            table.wrong("leave_out", f"{one!r}: known: {', '.join(known)}")
    made = Attention(table.texts("boards", ("*",)), leave_out, table.span_s("for", "5m"))
    table.done()
    return made

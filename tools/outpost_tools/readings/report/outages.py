"""Reads a file of events: what was down, from when to when; folded for the list on the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from outpost_tools.errors import ToolError
from outpost_tools.text.words import natural

# What goes down, and the event that ends it; any other kind is a single moment.
POWER_CUT = "power cut"  # a moment, of one device
_ENDS = {"broker killed": "broker up", "collector killed": "collector up", "link cut": "link up"}


@dataclass
class Outage:
    """Something was down from `begin` to `end` (equal: a moment); `device` None concerns all."""

    kind: str
    begin: pd.Timestamp
    end: pd.Timestamp
    device: str | None


def load_events(path: Path) -> list[Outage]:
    """Raises ToolError that names the fault."""
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
        events = [_event(item) for item in items]
    except OSError as error:
        raise ToolError(f"{path}: cannot read the events: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ToolError(
            f'{path}: not a JSON list of {{"time_ms", "kind", "device"}}: {error!r}'
        ) from None
    return paired(sorted(events, key=lambda event: event[0]))


def _event(item: dict) -> tuple[pd.Timestamp, str, str | None]:
    """Raises whatever a malformed item causes."""
    time, device = pd.Timestamp(int(item["time_ms"]), unit="ms", tz="UTC"), item.get("device")
    if not isinstance(device, str | None):
        raise TypeError(f"device {device!r}")
    return time.as_unit("ns"), str(item["kind"]), device  # time spans are in nanoseconds


def paired(events: list[tuple[pd.Timestamp, str, str | None]]) -> list[Outage]:
    """Each beginning paired with the next end of its kind and device; one without an end lasts to
    the last event."""
    found, last = [], events[-1][0] if events else None
    for index, (begin, kind, device) in enumerate(events):
        if kind in _ENDS.values():
            continue
        ends = (
            time
            for time, other, who in events[index:]
            if other == _ENDS.get(kind) and who == device
        )
        end = next(ends, last) if kind in _ENDS else begin
        found.append(Outage(kind, begin, end, device))
    return found


@dataclass
class Fold:
    """Outages of one kind, each soon after the preceding one."""

    kind: str
    outages: list[Outage]

    @property
    def begin(self) -> pd.Timestamp:
        return self.outages[0].begin

    @property
    def end(self) -> pd.Timestamp:
        return max(one.end for one in self.outages)

    @property
    def down(self) -> pd.Timedelta:
        """The sum over all of them."""
        return sum((one.end - one.begin for one in self.outages), pd.Timedelta(0))

    @property
    def devices(self) -> list[str]:
        """Empty: all devices."""
        return sorted({one.device for one in self.outages if one.device}, key=natural)


def folded(outages: list[Outage], span: pd.Timedelta) -> list[Fold]:
    """The newest first. span: the longest time between the beginnings of two that are folded."""
    found: list[Fold] = []
    open_folds: dict[str, Fold] = {}
    for one in outages:
        fold = open_folds.get(one.kind)
        if fold is None or one.begin - fold.outages[-1].begin > span:
            fold = open_folds[one.kind] = Fold(one.kind, [])
            found.append(fold)
        fold.outages.append(one)
    return sorted(found, key=lambda fold: fold.begin, reverse=True)

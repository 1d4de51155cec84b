"""Which device needs a look, why, and in which order.

Pure; every state has a sign and words of its own, not a colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from outpost_tools.report.data import Report, natural
from outpost_tools.report.words import duration

SILENT_INTERVALS = 20  # of its own usual ones ...
SILENT_S = 60.0  # ... but never less
BEHIND_MESSAGES = 100
BOOTS, BOOTS_A_DAY = 3, 4.0


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing that can be wrong; `many` says it of several devices."""

    key: str
    sign: str
    many: str
    needs_attention: bool = True


# In the order of their weight.
KINDS = {
    kind.key: kind
    for kind in (
        Kind("lost", "✕", "lost messages"),
        Kind("silent", "○", "silent"),
        Kind("open", "◐", "gaps that may still close"),
        Kind("behind", "▲", "backlog"),
        Kind("restarts", "↻", "restarting often"),
        Kind("noclock", "?", "readings without a time", needs_attention=False),
        Kind("fine", "✓", "fine", needs_attention=False),
    )
}
_WEIGHT = {key: weight for weight, key in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Finding:
    key: str
    text: str
    size: float = 0.0  # of two devices with the same finding the larger comes first

    @property
    def kind(self) -> Kind:
        return KINDS[self.key]


def findings(report: Report) -> list[tuple[dict, list[Finding]]]:
    """(row of `devices`, what was found: at least `fine`) of each device, the worst first."""
    newest = report.devices["last_seen"].max()
    found = [(row, _of_device(row, report, newest)) for row in report.devices.to_dict("records")]
    return sorted(
        found, key=lambda one: (_WEIGHT[one[1][0].key], -one[1][0].size, natural(one[0]["device"]))
    )


def _of_device(row: dict, report: Report, newest: pd.Timestamp) -> list[Finding]:
    found = []
    if row["missing_closed"]:
        found.append(Finding("lost", f"{row['missing_closed']:,} lost", row["missing_closed"]))
    silent_s = (newest - row["last_seen"]).total_seconds()
    if silent_s > max(SILENT_S, SILENT_INTERVALS * report.intervals_s.get(row["device"], 0.0)):
        found.append(Finding("silent", f"silent {duration(silent_s * 1000)}", silent_s))
    if row["missing_open"]:
        found.append(
            Finding("open", f"{row['missing_open']:,} may still come", row["missing_open"])
        )
    if row["backlog_last"] >= BEHIND_MESSAGES:
        found.append(Finding("behind", f"holds {row['backlog_last']:,}", row["backlog_last"]))
    if _restarts_often(row):
        found.append(Finding("restarts", f"{row['boots']:,} boots", row["boots"]))
    if row["readings_without_time"]:
        found.append(
            Finding(
                "noclock",
                f"{row['readings_without_time']:,} without time",
                row["readings_without_time"],
            )
        )
    return found or [Finding("fine", "fine")]


def _restarts_often(row: dict) -> bool:
    days = max((row["last_seen"] - row["first_seen"]).total_seconds() / 86_400, 1e-6)
    return row["boots"] >= BOOTS and row["boots"] / days > BOOTS_A_DAY


def verdict(found: list[tuple[dict, list[Finding]]]) -> list[str]:
    """The first sentence of the page, and a few words for each kind of trouble."""
    troubled = [one for _, one in found if one[0].kind.needs_attention]
    if not found:
        return ["No device has sent anything yet."]
    if not troubled:
        return [
            f"All {len(found):,} devices are fine." if len(found) > 1 else "The one device is fine."
        ]
    parts = []
    for kind in KINDS.values():
        count = sum(any(f.key == kind.key for f in one) for one in troubled)
        if count and kind.needs_attention:
            parts.append(f"{kind.sign} {kind.many}: {count:,}")
    need = "needs" if len(troubled) == 1 else "need"
    return [f"{len(troubled):,} of {len(found):,} devices {need} attention:", *parts]

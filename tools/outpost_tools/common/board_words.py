"""The readings by which a board tells of itself (firmware/station: health.py, flash_wear.py,
about.py), as the report and Home Assistant know them apart from what its sensors measure."""

from __future__ import annotations

COUNTERS = (
    "left_out", "aside", "pins_lost", "unheard", "not_published", "unreadable", "mended", "torn",
    "takeovers", "ahead",
)  # fmt: skip
WEAR = ("erases", "outbox_blocks")
ABOUT = ("firmware", "report_s", "reset_cause", "signal")
DIAGNOSTIC = frozenset((*COUNTERS, *WEAR, *ABOUT))

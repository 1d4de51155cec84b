"""The readings by which a board tells of itself (firmware/station: health.py, flash_wear.py,
about.py), as the report and Home Assistant know them apart from what its sensors measure."""

from __future__ import annotations

from outpost_tools.common.labels import HEALTH_COUNTS, HEALTH_STATES

COUNTERS = (*HEALTH_STATES, *HEALTH_COUNTS)
WEAR = ("erases", "outbox_blocks")
ABOUT = ("firmware", "report_s", "reset_cause", "signal")
DIAGNOSTIC = frozenset((*COUNTERS, *WEAR, *ABOUT))

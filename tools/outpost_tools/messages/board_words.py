"""The readings with which a board describes itself (firmware/station: health.py, flash_wear.py,
about.py). The report and Home Assistant distinguish them from what its sensors measure."""

from __future__ import annotations

from outpost_tools.messages.labels import HEALTH_COUNTS, HEALTH_STATES

COUNTERS = (*HEALTH_STATES, *HEALTH_COUNTS)
WEAR = ("erases", "outbox_blocks")
ABOUT = ("firmware", "report_s", "reset_cause", "signal", "no_memory")
DIAGNOSTIC = frozenset((*COUNTERS, *WEAR, *ABOUT))
COMMANDS = ("command", "commands_ignored")  # the answer to a command; commands.py
OF_SENSORS = FAULT, FAULTS = ".fault", ".faults"  # as in NAME.fault of a sensor; sensor_notices.py

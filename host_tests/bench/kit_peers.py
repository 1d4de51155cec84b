#!/usr/bin/env python3
"""Outpost beside umqtt.simple and mqtt_as in one virtual world (boards/BENCH): readings that a
program measured, and that never came, over outages and every power cut of a run.

    python host_tests/bench/kit_peers.py [--minutes 20]

Each program measures once a minute, prints `reading N`, and sends it with QoS 1 as its library's
own page shows. What a program printed is the truth: a reading that was measured and did not come by
the end of the time is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)


PROGRAMS = paths.HOST_TESTS / "bench" / "kit_programs"
OUTAGES = {
    "none": [],
    "broker away for 3 min": [(4, 7, "refuses")],
    "path silent for 3 min": [(4, 7, "silent")],
    "no Wi-Fi for 3 min": [(4, 7, "no_wifi")],
}

"""The message's labels, limits, and valid names of streams (for devices see name_rules.py).

A message is a SenML pack (RFC 8428) written by the board's `telemetry` module, whose docstring
explains each label. Every reader of messages imports this module: message.py (the exact reader, and
the collector's key) and readings/pipeline/decode.py (the fast reader). Knows nothing about bytes.
"""

from __future__ import annotations

import re
from typing import Any

MESSAGE_VERSION = 1
VERSIONS = (MESSAGE_VERSION,)  # the versions that the readers understand
MAX_PAYLOAD_BYTES = 16 * 1024
MAX_SEQ = (1 << 30) - 1
MAX_BOOT = 65535
MAX_VERSION = 1 << 16
# RFC 8428 section 4.5.3: below 2^28 a time is relative to now, which a stored message must not be.
# The upper limit is the year 2100: with a wilder clock, a table's timestamps could overflow.
MIN_TIME_S = 1 << 28
MAX_TIME_S = 4_102_444_800
# Limits of a message's times relative to each other and to its arrival (arrival.py). Each day with
# readings costs a folder and a file in every table, so a message whose times are spread over years,
# or lie in 2099, would stop the tables as surely as a wrong number. An outbox may deliver years
# late, but a clock is never weeks fast.
MAX_SPAN_S = 31 * 86_400  # between the readings of one message
MAX_AHEAD_S = 31 * 86_400  # after the arrival: allows for time zones, and clocks that drift
MAX_AGE_S = 5 * 365 * 86_400  # before the arrival
MAX_VALUE = 1e38  # about the largest float of 32 bits: sums and differences of values stay finite
MAX_UPTIME_S = 1 << 30  # 34 years

# Labels by the kind of their value. n, v, u, t belong to each record, the others to the first one.
# A number outside its bounds is refused by the readers. So what the tables compute from it
# (microseconds in 64 bits, sums) cannot overflow, and they need not check again.
TEXTS = ("n", "u", "bn", "sid")
NUMBERS = {
    "v": (-MAX_VALUE, MAX_VALUE),
    "t": (-MAX_TIME_S, MAX_TIME_S),
    "bt": (-MAX_TIME_S, MAX_TIME_S),
    "up": (0, MAX_UPTIME_S),
}
INTEGERS = {"seq": MAX_SEQ, "held": MAX_SEQ, "boot": MAX_BOOT, "ver": MAX_VERSION}  # 0 to this
REQUIRED = ("n", "v")  # in each record
LIMITS = NUMBERS | {"bv": NUMBERS["v"]}
VALUES = ("v", "vs", "vb", "vd")  # a record has one of them
SENML_VERSION = 10  # of RFC 8428

# Readings in which a board reports its own health (`firmware/station/health.py`): states, of which
# the last value counts, and counts, which restart at each start of the board.
HEALTH_STATES = ("left_out", "aside", "pins_lost", "unheard")
HEALTH_COUNTS = ("not_published", "unreadable", "mended", "torn", "takeovers", "ahead")
HEALTH_COUNTS += ("cut_short", "not_passed")

# In CBOR, SenML's labels are integers (RFC 8428 section 6); ours are text, as in JSON.
CBOR = {-1: "bver", -2: "bn", -3: "bt", -4: "bu", -5: "bv", -6: "bs"}
CBOR |= {0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb", 5: "s", 6: "t", 7: "ut", 8: "vd"}


def scaled(value: int, exponent: int) -> float:
    """value * 10^exponent, rounded once: 42, -2 is 0.42, as JSON reads it."""
    return float(value * 10**exponent) if exponent >= 0 else value / 10**-exponent


GUARANTEE = "exactly once, gaps named"  # of a board's messages, in the tables
STREAM = r"[0-9a-f]{8}"
_STREAM = re.compile(rf"{STREAM}\Z")


def is_stream(name: Any) -> bool:
    return isinstance(name, str) and _STREAM.match(name) is not None

"""The columns of the gold tables, as Arrow schemas."""

from __future__ import annotations

import pyarrow as pa

from outpost_tools.readings.pipeline import health
from outpost_tools.readings.pipeline.schemas import KEY, READING

_TIME = pa.timestamp("us", "UTC")
_LAST = pa.struct([("received", _TIME), ("seq", pa.int64()), ("backlog", pa.int64())])
_VALUE = pa.struct([("received", _TIME), ("seq", pa.int64()), ("value", pa.float64())])
_TOLD = pa.struct([("seq", pa.int64()), ("value", pa.float64())])
COUNTED = [(name, pa.int64()) for name in ("readings", "placed", "without_time")]
TOTALS = pa.schema(
    [
        *(READING.field(name) for name in (*KEY, "boot")),
        *COUNTED,
        *(
            (f"{end}_{name}", kind)
            for name, kind in (("seq", pa.int64()), ("received", _TIME), ("time", _TIME))
            for end in ("first", "last")
        ),
        ("backlog_max", pa.int64()),
        ("last", _LAST),
        ("battery", _VALUE),
        ("reset_cause", _VALUE),
        *((name, _TOLD) for name in health.NAMES),
        ("delays", pa.map_(pa.int64(), pa.int64())),
        ("delay_max_ms", pa.int64()),
        # What kind of row it is (closing.py); null: what is known of a boot.
        ("kind", pa.int8()),
        ("not_before", _TIME),  # as in BOOTS, whether the boot has a clock or not
        ("not_after", _TIME),
        # Of a stream's row (folded.py): ranges of its boots, and arrivals that order states.
        ("closed", pa.list_(pa.int32())),
        ("timeless", pa.list_(pa.int32())),
        *((f"{name}_received", _TIME) for name in health.STATES),
    ]
)
GAPS = pa.schema(
    [("device", pa.string()), ("stream", pa.string())]
    + [(name, pa.int64()) for name in ("first", "last", "count")]
    + [("state", pa.string())]
)
PERCENTILES = (0.5, 0.95, 0.99)
LATENCY = pa.schema(
    [("device", pa.string()), ("count", pa.int64())]
    + [(f"p{round(part * 100)}_ms", pa.float64()) for part in PERCENTILES]
    + [("max_ms", pa.float64())]
)
DEVICE_COUNTS = [
    "streams",
    "received",
    "messages",
    "redelivered",
    "missing_closed",
    "missing_open",
    "conflicts",
    "two_boards",
    "went_back",
]
DEVICES = pa.schema(
    [
        ("device", pa.string()),
        ("first_seen", _TIME),
        ("last_seen", _TIME),
        ("boots", pa.int64()),
        ("last_boot", pa.int32()),
    ]
    + [
        (name, pa.int64())
        for name in (
            "readings",
            "readings_without_time",
            "backlog_last",
            "backlog_max",
            *DEVICE_COUNTS,
        )
    ]
    + [("battery", pa.float64()), ("reset_cause", pa.float64())]
    + [(name, pa.int64()) for name in health.NAMES]  # null: never reported
)
BOOTS = pa.schema(
    [
        *(READING.field(name) for name in (*KEY, "boot")),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
    ]
    + COUNTED
    + [(name, _TIME) for name in ("first_time", "last_time", "not_before", "not_after")]
)
WINDOWS = pa.schema(
    [*(READING.field(name) for name in ("device", "name", "unit")), ("start", _TIME)]
    + [("count", pa.int64())]
    + [(name, pa.float64()) for name in ("min", "max", "sum", "mean", "last")]
    + [("last_time", _TIME)]  # of the last reading, so that a window can continue (windows.py)
)

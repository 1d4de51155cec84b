"""The columns of the tables, once, as Arrow schemas; `spark()` gives the same for Spark.

Times are microseconds since 1970, UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TIME = pa.timestamp("us", "UTC")

# Where a row came from: the frame's place in the log is its identity for good.
_ORIGIN = [
    ("received", _TIME),
    ("collector", pa.string()),
    ("segment", pa.int64()),
    ("offset", pa.int64()),
]
READING = pa.schema(
    [
        ("device", pa.string()),
        ("stream", pa.string()),
        ("seq", pa.int64()),
        ("record", pa.int32()),  # index in the SenML pack
        ("boot", pa.int32()),
        ("held", pa.int64()),
        ("uptime_s", pa.float64()),
        ("name", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        ("time", _TIME),  # null: the board's clock was not set
        *_ORIGIN,
    ]
)
# What the source gives: a reading, or a frame that is no message (then only origin and these three are set).
_REFUSED = pa.schema([("reason", pa.string()), ("topic", pa.string()), ("payload", pa.binary())])
FRAME = pa.schema([*READING, *_REFUSED])
QUARANTINE = [*_REFUSED.names, *(name for name, _ in _ORIGIN)]
# One row per (device, stream): flat inclusive ranges of the numbers in silver, messages received, `held` seen.
STREAM_STATE = pa.schema(
    [
        ("ranges", pa.list_(pa.int64())),
        ("copies", pa.int64()),
        ("held_min", pa.int64()),
        ("held_max", pa.int64()),
    ]
)
KEY = ["device", "stream"]
STREAM = pa.schema([*(READING.field(name) for name in KEY), *STREAM_STATE])
# Readings and state leave one cogroup as one frame: a row with `ranges` is a stream's state, any other a reading.
MARKED = pa.schema([*READING, *STREAM_STATE])


def spark(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema  # late: the tables are read without Spark

    return from_arrow_schema(schema)

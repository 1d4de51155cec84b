"""The columns of the tables, defined once, as Arrow schemas; `spark()` converts them for Spark.

Times are microseconds since 1970, UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from outpost_tools.log.segments import Frame

DAMAGE = ("damaged segment", "not a segment")  # how the reason for unreadable bytes begins
REPLAY = ".replay"  # as a collector, quarantine: see quarantine.py
_TIME = pa.timestamp("us", "UTC")
# Where a row came from: the frame's place in the log identifies it permanently.
_ORIGIN = [
    ("received", _TIME),
    ("collector", pa.string()),
    ("segment", pa.int64()),
    ("offset", pa.int64()),
    # true: the clock that `received` comes from was not known to be set; otherwise null
    ("clock_unset", pa.bool_()),
]
READING = pa.schema(
    [
        ("device", pa.string()),
        ("stream", pa.string()),
        ("seq", pa.int64()),
        # place among the message's readings, from 0: not among SenML's records, some hold texts
        ("record", pa.int32()),
        ("boot", pa.int32()),
        ("held", pa.int64()),
        ("uptime_s", pa.float64()),
        ("shift_s", pa.float64()),  # the record's SenML time, relative to the pack's
        ("version", pa.int32()),  # of the message
        ("name", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        # null: the board's clock was not set, and is not yet known from another message of the boot
        ("time", _TIME),
        # the time is not the message's own: it comes from another message of that boot or, for
        # other people's messages, from the arrival
        ("placed", pa.bool_()),
        ("guarantee", pa.string()),  # a word of sources.guarantee; null: a board's (write_readings)
        *_ORIGIN,
    ]
)
# What the source yields: a reading, or a frame that is not a message (with only the origin and
# these columns set).
_REFUSED = pa.schema(
    [
        ("reason", pa.string()),
        ("topic", pa.string()),
        ("payload", pa.binary()),
        ("retained", pa.bool_()),
        ("original_length", pa.int64()),  # of a payload that was cut
    ]
)
FRAME = pa.schema([*READING, *_REFUSED])


# Of a row of FRAME: the columns before `received` where it is no message, and those after the
# origin where it is one.
NO_MESSAGE = (None,) * READING.get_field_index("received")
NOT_REFUSED = (None,) * (len(FRAME) - len(READING))


def origin_of(frame: Frame, collector: str, number: int) -> tuple:
    """received, collector, segment, offset, clock_unset."""
    place = (frame.received_ms * 1000, collector, number, frame.offset)
    return (*place, frame.is_clock_unset or None)


def frame_batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """A batch of FRAME; a column that is not given is null."""
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in FRAME
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=FRAME)


ORIGIN = ["collector", "segment", "offset"]
ORIGINS = pa.schema([READING.field(name) for name in ORIGIN])
PLACE = ["received", *ORIGIN]  # the order of arrival
# What is refused; and in the table, the call of `replay` that freed the frame, until it is read.
REFUSED = pa.schema([*_REFUSED, *(READING.field(name) for name, _ in _ORIGIN)])
QUARANTINE_TABLE = pa.schema([*REFUSED, ("replay", pa.int64())])
QUARANTINE = REFUSED.names
# One row per (device, stream): the numbers in silver as flat inclusive ranges, the messages
# received, and the range of `held`. For boots whose clock was set late: `clocks`, what to add to an
# uptime (known from message `seq`, the lowest that has both times); `open_boots`, the boots with
# readings in silver whose time comes, or will come, from such a clock. Then, about messages that
# have the number of another one: how many, signs that two boards send (conflicts.py), and the
# message that came last.
CLOCK = pa.struct([("boot", pa.int32()), ("seq", pa.int64()), ("offset_us", pa.int64())])
STREAM_STATE = pa.schema(
    [
        ("ranges", pa.list_(pa.int64())),
        ("copies", pa.int64()),
        ("held_min", pa.int64()),
        ("held_max", pa.int64()),
        ("clocks", pa.list_(CLOCK)),
        ("open_boots", pa.list_(pa.int32())),
        ("conflicts", pa.int64()),
        ("twin_signs", pa.int64()),
        ("last_seq", pa.int64()),
        ("last_boot", pa.int64()),
        ("last_conflicts", pa.bool_()),
        ("received_max", pa.int64()),  # microseconds since 1970
        # of other people's messages (foreign_marks.py): the names of metrics; null: a board's
        ("names", pa.list_(pa.string())),
    ]
)
KEY = ["device", "stream"]
BETWEEN = "\x1f"  # joins the parts of a key: no name has it, nor any other control character
FINGERPRINT = pa.schema([("fingerprint", pa.int64())])
STREAM = pa.schema([*(READING.field(name) for name in KEY), *STREAM_STATE])


def spark(schema: pa.Schema) -> StructType:
    # imported late: the tables are read without Spark
    from pyspark.sql.pandas.types import (
        from_arrow_schema,
    )

    return from_arrow_schema(schema)

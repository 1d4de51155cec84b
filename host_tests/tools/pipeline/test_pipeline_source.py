# cpython-only: Spark's data source classes and Arrow
"""The source without a Spark session: offsets, bounds, and what damage in the log leads to."""

import os
import subprocess
import sys

import pytest

from ground_truth import SEED, Board, Log
from outpost_tools.common import segments

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

    from outpost_tools.pipeline import exact, schemas, source
except ImportError as problem:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip(f"missing: PySpark: {problem}", allow_module_level=True)


@pytest.fixture
def log(tmp_path):
    """Two collectors with a few segments of 10 frames."""
    made = Log(tmp_path, SEED)
    for seq in range(100):
        made.message(Board("board-1", "00000001"), seq)
    made.seal(["a", "b"], per_segment=10)
    return made.directory


def last(log) -> dict[str, int]:
    return {name: numbers[-1] for name, numbers in source.available(log).items()}


def rows_between(reader, start: dict, end: dict) -> list[tuple]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_all_available_ends_at_the_last_segment_of_each_collector(log):
    reader = source.SegmentReader(log, 1)
    start = reader.initialOffset()
    assert start == {"a": -1, "b": -1}
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == last(log)
    assert len(rows_between(reader, start, end)) == 200
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_limit_takes_at_least_one_segment_and_reaches_the_end_without_skipping(log):
    reader = source.SegmentReader(log, 1)
    start, rows, steps = reader.initialOffset(), [], 0
    while (end := reader.latestOffset(start, ReadMaxBytes(1))) != start:
        assert sum(end.values()) == sum(start.values()) + 1
        rows += rows_between(reader, start, end)
        start, steps = end, steps + 1
    assert steps == sum(number + 1 for number in last(log).values())
    assert len(rows) == len(set(rows)) == 200


def test_available_now_does_not_look_beyond_its_target(log):
    reader = source.SegmentReader(log, 1 << 20)
    reader.prepareForTriggerAvailableNow()
    start, target = reader.initialOffset(), last(log)
    for name in ("a", "new"):
        writer = segments.SegmentWriter(log / name)
        writer.append(segments.encode_frame(1, b"t", b"x"))
        writer.seal()
    assert last(log) != target
    assert reader.latestOffset(start, ReadAllAvailable()) == target


def test_an_open_segment_is_not_read(log):
    writer = segments.SegmentWriter(log / "a")
    before = last(log)
    writer.append(segments.encode_frame(1, b"t", b"x"))
    writer.commit()
    assert last(log) == before


def test_a_collector_that_comes_later_is_read_from_its_first_segment(log):
    reader = source.SegmentReader(log, 1 << 20)
    end = reader.latestOffset({"a": last(log)["a"]}, ReadAllAvailable())
    assert end == last(log)
    assert {
        row[schemas.FRAME.get_field_index("collector")]
        for row in rows_between(reader, {"a": end["a"]}, end)
    } == {"b"}


def test_a_missing_segment_stops_the_query_and_is_named(log):
    reader = source.SegmentReader(log, 1 << 20)
    source.segment_path(log, "a", 1).unlink()
    with pytest.raises(FileNotFoundError, match="segment 1 of collector a"):
        reader.partitions(reader.initialOffset(), last(log))


def test_a_log_that_has_become_shorter_stops_the_query_and_is_named(log):
    reader, end = source.SegmentReader(log, 1), last(log)
    for number in (end["b"], end["b"] - 1):
        source.segment_path(log, "b", number).unlink()
    with pytest.raises(
        FileNotFoundError,
        match=f"collector b ends at segment {end['b'] - 2}, but {end['b']} has been taken in",
    ):
        reader.latestOffset(end, ReadAllAvailable())
    assert reader.latestOffset(last(log), ReadAllAvailable()) == last(log)


def test_damage_in_a_sealed_segment_goes_to_quarantine_and_the_rest_is_kept(log):
    path = source.segment_path(log, "a", 0)
    before, data = path.read_bytes(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    whole, rows = (list(exact.segment_rows(bytes(d), "a", 0)) for d in (before, data))
    reason = schemas.FRAME.get_field_index("reason")
    assert rows[-1][reason].startswith("damaged segment") and "1 message" in rows[-1][reason]
    at = {row[schemas.FRAME.get_field_index("offset")] for row in rows[-1:]}
    assert rows[:-1] == [r for r in whole if r[schemas.FRAME.get_field_index("offset")] not in at]
    copy, offset = rows[-1][schemas.FRAME.get_field_index("payload")], at.pop()
    assert copy == data[offset : offset + len(copy)] and len(rows) > len(whole) / 2


def test_a_foreign_file_in_the_log_goes_to_quarantine(log):
    source.segment_path(log, "a", 0).write_bytes(b"PAR1 is no segment")
    rows = rows_between(
        source.SegmentReader(log, 1), {"a": -1, "b": last(log)["b"]}, {"a": 0, "b": last(log)["b"]}
    )
    assert [row[schemas.FRAME.get_field_index("reason")] for row in rows] == [
        "not a segment: wrong magic"
    ]


def test_arrow_batches_are_bounded_in_bytes():
    row = [None] * len(schemas.FRAME)
    row[schemas.FRAME.get_field_index("payload")] = b"x" * (1 << 20)
    sizes = [batch.num_rows for batch in exact.arrow_batches(iter([row] * 40))]
    assert sizes == [16, 16, 8]


def test_the_source_loads_neither_pandas_nor_what_reads_tables():
    """Spark starts a Python with it in each round, for the offsets alone."""
    said = "import sys, outpost_tools.pipeline.source as s; print(*sys.modules)"
    line = [sys.executable, "-c", said]
    loaded = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()
    assert "pyarrow" in loaded
    assert not {"pandas", "deltalake", "pyarrow.dataset"} & set(loaded)

# cpython-only: Arrow and Delta Lake
"""The collectors' log as a round plans it: which segments, in which order, and what damage in the
log leads to.
"""

import shutil
from pathlib import Path

import pytest

from ground_truth import SEED, Board, Log
from optional_packages import needed
from outpost_tools.log import segments

with needed("the pipeline's packages"):
    import pyarrow as pa

    from outpost_tools.readings.pipeline import (
        decode,
        delta,
        exact,
        job,
        logs,
        plan,
        schemas,
        tables,
    )
    from serial_engine import Serial

ALL = 1 << 40


@pytest.fixture
def log(tmp_path) -> Path:
    """Two collectors with a few segments of 10 frames."""
    made = Log(tmp_path / "log", SEED)
    for seq in range(100):
        made.message(Board("board-1", "00000001"), seq)
    made.seal(["a", "b"], per_segment=10)
    return made.directory


@pytest.fixture
def place(tmp_path) -> Path:
    tables.create(tmp_path / "tables")
    return tmp_path / "tables"


def path_of(log: Path, collector: str, number: int) -> Path:
    return log / collector / segments.sealed_name(number)


def last(log: Path) -> dict[str, int]:
    return {name: found[-1].number for name, found in logs.Log.at(log).all_sealed().items()}


def listing(log: Path) -> logs.Listing:
    return logs.Listing(logs.Log.at(log))


def planned(log: Path, place: Path, most_bytes: int = ALL, listed: logs.Listing | None = None):
    return plan.next_round(delta.Opened(place), listed or listing(log), most_bytes)


def finish(place: Path, this: plan.Plan, names=tables.SILVER_TABLES) -> None:
    for name in names:
        delta.commit(place / name, [], *this.transactions)


def rows_of(log: Path, collector: str, number: int) -> list[tuple]:
    data = logs.Log.at(log).read(collector, number)
    return [
        tuple(row.values())
        for batch in decode.segment_batches(data, collector, number)
        for row in pa.Table.from_batches([batch]).to_pylist()
    ]


def test_a_round_ends_at_the_last_segment_of_each_collector(log, place):
    this = planned(log, place)
    assert (this.start, this.end) == ({"a": -1, "b": -1}, last(log))
    assert this.firsts == {"a": 0, "b": 0}
    read = [row for one in this.segments for row in rows_of(log, one.collector, one.number)]
    assert len(read) == 200
    finish(place, this)
    assert planned(log, place) is None


def test_a_limit_takes_at_least_one_segment_and_reaches_the_end_without_skipping(log, place):
    found = []
    while (this := planned(log, place, most_bytes=1)) is not None:
        assert len(this.segments) == 1 and this.number == len(found)
        found.append(this.segments[0][:2])
        finish(place, this)
    assert sorted(found) == [(name, n) for name, end in last(log).items() for n in range(end + 1)]


def test_the_lowest_numbers_come_first_also_of_a_log_that_begins_later(log, place):
    for number in range(3):
        path_of(log, "b", number).unlink()
    size = path_of(log, "a", 0).stat().st_size
    this = planned(log, place, most_bytes=3 * size)
    assert [one[:2] for one in this.segments] == [("a", 0), ("b", 3), ("a", 1)]
    assert this.firsts == {"a": 0, "b": 3}


def test_what_is_sealed_after_the_start_of_a_run_is_not_taken(log, place):
    ends, listed = last(log), listing(log)
    planned(log, place, listed=listed)
    for name in ("a", "new"):
        writer = segments.SegmentWriter(log / name)
        writer.append(segments.encode_frame(1, b"t", b"x"))
        writer.seal()
    this = planned(log, place, listed=listed)
    assert last(log) != ends and this.end == ends


def test_what_a_rival_has_taken_in_since_is_no_sign_of_an_older_log(log, place):
    """It has listed a segment that was sealed after our listing."""
    listed = listing(log)
    finish(place, planned(log, place, listed=listed))
    writer = segments.SegmentWriter(log / "a")
    writer.append(segments.encode_frame(1, b"t", b"x"))
    writer.seal()
    finish(place, planned(log, place))
    assert planned(log, place, listed=listed) is None


def test_tables_that_somebody_deletes_under_a_continuous_run_are_made_again(log, tmp_path):
    place = tmp_path / "made"
    opened = delta.Opened(place)
    for _ in range(2):
        assert job.run(Serial(), log, opened) == 1
        assert tables.read_table(place, "readings").num_rows == 200
        assert job.run(Serial(), log, opened) == 0
        shutil.rmtree(place)


def test_an_open_segment_is_not_read(log):
    writer = segments.SegmentWriter(log / "a")
    before = last(log)
    writer.append(segments.encode_frame(1, b"t", b"x"))
    writer.commit()
    assert last(log) == before


def test_a_collector_that_comes_later_is_read_from_its_first_segment(log, place):
    later = log.parent / "later"
    (log / "b").rename(later)
    finish(place, planned(log, place))
    later.rename(log / "b")
    this = planned(log, place)
    assert (this.start, this.end) == ({"b": -1}, {"b": last(log)["b"]})


def test_folders_that_are_no_collectors_are_passed_over(log, place):
    for name in ("lost+found", ".readers"):
        (log / name).mkdir()
    assert logs.Log.at(log).collectors() == ["a", "b"]


def test_a_missing_segment_stops_the_run_and_is_named(log, place):
    path_of(log, "a", 1).unlink()
    with pytest.raises(logs.Behind, match="segment 1 of collector a"):
        planned(log, place)


def test_a_log_that_has_become_shorter_stops_the_run_and_is_named(log, place):
    finish(place, planned(log, place))
    end = last(log)["b"]
    for number in (end, end - 1):
        path_of(log, "b", number).unlink()
    said = f"collector b ends before segment {end}, which has been taken in"
    with pytest.raises(logs.Behind, match=said):
        planned(log, place)


def test_an_open_round_is_repeated_to_its_own_end(log, place):
    this = planned(log, place, most_bytes=1)
    finish(place, this, ["quarantine"])
    for most_bytes in (1, ALL):
        again = planned(log, place, most_bytes=most_bytes)
        assert again == this


def test_an_open_round_of_a_collector_that_is_gone_is_told(log, place):
    """Else nothing would be taken in any more, and nobody would be told."""
    finish(place, planned(log, place), ["quarantine"])
    (log / "b").rename(log.parent / "b")
    with pytest.raises(logs.Behind, match="lacks the folder of a collector"):
        planned(log, place)
    with pytest.raises(logs.Behind):
        job.run(None, log, place)


def test_damage_in_a_sealed_segment_goes_to_quarantine_and_the_rest_is_kept(log):
    path = path_of(log, "a", 0)
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
    path_of(log, "a", 0).write_bytes(b"PAR1 is no segment")
    reason = schemas.FRAME.get_field_index("reason")
    assert [row[reason] for row in rows_of(log, "a", 0)] == ["not a segment: wrong magic"]


def test_arrow_batches_are_bounded_in_bytes():
    row = [None] * len(schemas.FRAME)
    row[schemas.FRAME.get_field_index("payload")] = b"x" * (1 << 20)
    sizes = [batch.num_rows for batch in exact.arrow_batches(iter([row] * 40))]
    assert sizes == [16, 16, 8]


def test_many_small_segments_make_few_tasks_and_large_ones_many(log, place):
    this = planned(log, place)
    assert len(list(job._bundles(this))) == 1
    large = [logs.Segment("a", number, 5 << 20) for number in range(6)]
    bundles = list(job._bundles(plan.Plan({}, {"a": 5}, -1, 0, large)))
    assert len(bundles) == 3

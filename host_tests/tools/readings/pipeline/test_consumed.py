# cpython-only: Arrow and Delta Lake
"""Which segments a run has not read and may not delete, without Spark."""

import pytest

from optional_packages import needed
from outpost_tools.log import segments

with needed("PySpark"):
    from outpost_tools.readings.pipeline import consumed, delta, job, rounds, status, tables
    from serial_engine import Serial


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def made(tmp_path):
    place = tmp_path / "tables"
    tables.create(place)
    return place


def seal(log, *numbers, collector="a"):
    for number in numbers:
        writer = segments.SegmentWriter(log / collector)
        writer._number = number
        writer.append(segments.encode_frame(1, b"t", b"x"))
        writer.seal()


def take_in(log, made):
    job.run(Serial(), log, made)


def kept(log, collector="a"):
    return [segments.segment_number(path) for path in segments.sealed_segments(log / collector)]


def test_older_segments_copied_in_are_named_counted_and_not_deleted(log, made):
    seal(log, 5, 6, 7)
    take_in(log, made)
    opened, said = delta.Opened(made), []
    troubles = rounds.Troubles(log, opened)
    troubles.tell(said.append)
    assert (troubles.count, said, troubles.summary) == (0, [], "done")
    seal(log, 1, 2, 3)
    take_in(log, made)
    for _ in range(2):
        troubles.tell(said.append)
    (line,) = said
    assert line.startswith(f"{log / 'a'}: 3 segments, 1 to 3, arrived after later ones")
    assert f"move them to a folder of their own, as {log / 'a'}-older" in line
    assert troubles.count == 1 and line in status.text(status.collect(log, made))
    assert troubles.summary == f"done, but: {line}"  # `outpost run` shows the last line
    assert consumed.prune(log)[0] == 2 and kept(log) == [1, 2, 3, 7]
    (log / "a-older").mkdir()
    for path in segments.sealed_segments(log / "a")[:3]:
        path.rename(log / "a-older" / path.name)
    take_in(log, made)
    troubles.tell(said.append)
    assert troubles.count == 0 and len(said) == 1


def test_what_was_pruned_and_new_collectors_are_no_trouble(log, made):
    seal(log, 0, 1, 2)
    take_in(log, made)
    consumed.prune(log)
    seal(log, 4, collector="b")
    seal(log, 0, 1)  # put back: they were read
    take_in(log, made)
    assert consumed.unread_lines(log, made) == []

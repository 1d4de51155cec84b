# cpython-only: Arrow and Delta Lake
"""Tables of the version that kept its place in Spark's checkpoint are continued exactly. They were
made by that version: old_tables.py says how.
"""

import json
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    import driver_steps
    import old_tables
    from driver_steps import Driver
    from outpost_tools.errors import ToolError
    from outpost_tools.messages import labels
    from outpost_tools.readings.pipeline import (
        consumed,
        delta,
        job,
        plan,
        quarantine,
        tables,
        upkeep,
    )
    from serial_engine import Serial
    from test_plan import contents

FIXTURE = Path(__file__).with_name("old_tables.tar.xz")


def run(log: Path, place: Path, versions=old_tables.VERSIONS) -> int:
    return job.run(Serial(), log, place, versions=versions, is_all=True)


@pytest.fixture
def old(tmp_path) -> Path:
    """A folder with `log` and `tables`."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    old_tables.third_part(tmp_path / "old" / "log")
    return tmp_path / "old"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What this version makes of the same log, with the same done to it."""
    folder = tmp_path_factory.mktemp("plain")
    log, place = folder / "log", folder / "tables"
    old_tables.use(log, place, lambda *places: run(*places, versions=(1,)))
    old_tables.third_part(log)
    run(log, place)
    return contents(place)


def assert_taken_over(place: Path, expected: dict) -> None:
    """The fingerprint of the message that was deleted cannot be recreated, nor is it wanted."""
    found, expected = (_with_guarantees(one) for one in (contents(place), expected))
    for name in tables.ALL:
        lost = expected[name] - found[name]
        assert not found[name] - expected[name], name
        assert lost.total() == (name == "fingerprints"), (name, lost)


def _with_guarantees(found: dict) -> dict:
    """A row of a version before the column has none: it is a board's."""
    word = f"'guarantee': {labels.GUARANTEE!r}"
    rows = Counter()
    for row, count in found["readings"].items():
        rows[row.replace("'guarantee': None", word)] += count
    return found | {"readings": rows}


def old_files(place: Path) -> list[str]:
    parts = ("_checkpoint", plan.REPLAY)
    found = [path for part in parts for path in (place / part).rglob("*") if path.is_file()]
    found += (place / "fingerprints").glob("*.u64")
    found += [place / name for name in ("_first_segments.json", "deleted-before")]
    return [path.name for path in found if path.exists()]


def test_the_fixture_is_of_that_version(old):
    assert FIXTURE.stat().st_size < 200_000
    assert {"metadata", "_first_segments.json", "deleted-before"} <= {*old_files(old / "tables")}
    assert any(name.endswith(".u64") for name in old_files(old / "tables"))
    assert any(name.endswith(".seg") for name in old_files(old / "tables"))
    assert not delta.exists(old / "tables" / "fingerprints")


def test_they_are_continued_exactly(old, expected):
    assert run(old / "log", old / "tables") == 1
    assert_taken_over(old / "tables", expected)
    assert old_files(old / "tables") == []
    assert run(old / "log", old / "tables") == 0


def test_days_that_were_deleted_stay_deleted_and_first_segments_are_known(old):
    log, place = old / "log", old / "tables"
    run(log, place)
    assert tables.deleted_before(delta.open_table(place / "readings")) > 0
    streams = delta.open_table(place / "streams")
    assert (plan.first(streams, "collector-1"), plan.first(streams, "collector-2")) == (0, 2)
    newest = max((log / "collector-2").glob("*.seg"))
    shutil.copy(newest, newest.with_name("segment-000000000001.seg"))
    (line,) = consumed.unread_lines(log, place)
    assert "segment 1 arrived after later ones" in line


def test_frames_that_a_replay_had_taken_out_come_into_silver_once(old):
    log, place = old / "log", old / "tables"
    rows = tables.read_table(place, "readings", ["device"])["device"].to_pylist()
    assert "board-6" not in rows
    run(log, place)
    rows = tables.read_table(place, "readings", ["device", "seq"]).to_pylist()
    assert sorted(one["seq"] for one in rows if one["device"] == "board-6") == [0, 1, 2, 3, 4]
    assert quarantine.reasons(place)["unknown version 2"] == 0


def test_a_driver_that_dies_at_any_commit_of_it_changes_nothing(old, expected):
    log, place, deaths = old / "log", old / "tables", 0
    with driver_steps.in_steps():
        while True:
            driver = Driver(lambda: run(log, place))
            if not (driver.step() and (deaths % 2 == 0 or driver.step())):
                break
            driver.step(dies=True)
            deaths += 1
    assert deaths > 2 * len(tables.SILVER_TABLES)
    assert_taken_over(place, expected)


@pytest.mark.parametrize("order", ["aaaabbbbaaaa", "abababababab"])
def test_two_drivers_may_take_over_at_once(old, expected, order):
    log, place = old / "log", old / "tables"
    with driver_steps.in_steps():
        drivers = {name: Driver(lambda: run(log, place)) for name in "ab"}
        for name in order:
            drivers[name].step()
        for driver in drivers.values():
            driver.finish()
    assert_taken_over(place, expected)


def test_an_interrupted_batch_is_refused_with_what_to_do(old):
    place = old / "tables"
    query = json.loads((place / "_checkpoint" / "metadata").read_text())["id"]
    number = delta.committed(place / "quarantine", query)
    delta.commit(place / "quarantine", [], delta.Batch(query, number + 1))
    before = sorted(old_files(place))
    with pytest.raises(ToolError, match="run `outpost pipeline run` of the version that made"):
        run(old / "log", place)
    assert sorted(old_files(place)) == before
    for name in ("readings", "streams"):  # that version has finished it
        delta.commit(place / name, [], delta.Batch(query, number + 1))
    shutil.copy(place / "_checkpoint" / "offsets" / str(number),
                place / "_checkpoint" / "offsets" / str(number + 1))  # fmt: skip
    assert run(old / "log", place) == 1


def test_a_lost_table_of_fingerprints_is_recreated(old, expected):
    run(old / "log", old / "tables")
    shutil.rmtree(old / "tables" / "fingerprints")
    assert run(old / "log", old / "tables") == 0
    assert_taken_over(old / "tables", expected)
    upkeep.compact(old / "tables")

# cpython-only: Arrow and Delta Lake
"""Commits without Spark: what counts, what a repeat and a compaction beside a rewrite do."""

import datetime
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from optional_packages import needed
from paths import REPOSITORY

with needed("the pipeline's packages"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset
    from deltalake import DeltaTable

    from outpost_tools.errors import ToolError
    from outpost_tools.readings.pipeline import (
        changes,
        delta,
        displaced,
        packed,
        plan,
        quarantine,
        retries,
        schemas,
        tables,
        upkeep,
        windows,
    )
    from outpost_tools.store import local
    from outpost_tools.store.at import at

BEGIN = 1_763_694_000_000_000  # 2025-11-21T03:00:00Z
DAY = 86_400_000_000
BATCH = delta.Batch("query", 0)


def readings(*micros: int | None, device: str = "a") -> pa.Table:
    rows = [
        {"device": device, "seq": n, "time": None if at is None else BEGIN + at, "offset": n}
        for n, at in enumerate(micros)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.READING)


@pytest.fixture
def silver(tmp_path):
    tables.create(tmp_path)
    return tmp_path / "readings"


def rows(silver) -> int:
    return tables.read_table(silver.parent, "readings", ["seq"]).num_rows


def test_files_count_from_the_commit_on_and_lie_by_day(silver):
    files = tables.write_readings(silver.parent, readings(0, 1, DAY, None))
    tables.write_readings(silver.parent, readings(0, 1))  # a task that was killed, or ran twice
    assert rows(silver) == 0
    delta.commit(silver, files, BATCH)
    assert rows(silver) == 4
    assert sorted(str(one["partition"]) for one in files) == ["2025-11-21", "2025-11-22", "None"]
    day = datetime.date(2025, 11, 22)
    assert tables.read_table(silver.parent, "readings", day=day)["day"].to_pylist() == [day]
    assert delta.committed(silver, "query") == 0 and delta.committed(silver, "another") == -1


def test_the_note_about_the_newest_checkpoint_is_durable_as_well(silver, monkeypatch):
    """It is replaced, so a search for new names does not find it."""
    delta.create(silver, pa.schema([]), None, checkpointInterval="1")
    synced, sync = set(), local.sync_path

    def noted(path):
        synced.add(path.name)
        sync(path)

    monkeypatch.setattr(local, "sync_path", noted)
    for number in range(3):
        synced.clear()
        delta.commit(silver, tables.write_readings(silver.parent, readings(number)))
        assert "_last_checkpoint" in synced
    synced.clear()
    upkeep._compacted(at(silver))
    assert "_last_checkpoint" in synced


def test_a_table_of_an_older_version_gets_the_settings_that_it_lacks_once(tmp_path):
    place, schema = tmp_path / "table", pa.schema([("device", pa.string())])
    delta.create(place, schema, None, logRetentionDuration="interval 7 days")
    delta.create(place, schema, None, checkpointInterval="10")
    versions = [delta.open_table(place).version()]
    delta.create(place, schema, None, checkpointInterval="10")
    versions.append(delta.open_table(place).version())
    assert versions == [1, 1]
    assert delta.open_table(place).configuration == {
        "delta.logRetentionDuration": "interval 7 days",
        "delta.checkpointInterval": "10",
    }


@pytest.mark.parametrize("name", ["plain", "my tables", "größe", "100%", "a#b?", "{a}"])
def test_files_that_can_hold_rows_are_found_whatever_the_folder_is_called(tmp_path, name):
    tables.create(tmp_path / name)
    silver = tmp_path / name / "readings"
    delta.commit(silver, tables.write_readings(silver.parent, readings(0, None)))
    table = delta.open_table(silver)
    (found,) = delta.files_of(table, lambda one: one.nulls("time") and one.ends("device")[0] == "a")
    assert found["partition"] is None and (silver / delta.name_of(found)).is_file()
    assert not delta.files_of(table, lambda one: one.overlaps("device", "x", "x"))


def test_statistics_are_of_each_plain_column_and_times_are_rounded_outwards(silver):
    (file,) = tables.write_readings(silver.parent, readings(1, 1999, device="x'y"))
    found = json.loads(file["stats"])
    assert found["numRecords"] == 2 and found["nullCount"]["placed"] == 2
    assert (found["minValues"]["time"], found["maxValues"]["time"]) == (
        "2025-11-21T03:00:00.000Z",
        "2025-11-21T03:00:00.002Z",
    )
    delta.commit(silver, [file])
    table = delta.open_table(silver)
    (known,) = table.files.values()
    assert (known.rows, known.nulls("placed"), known.nulls("x")) == (2, 2, None)
    for ends, may_hold in (
        (("device", "x'y", "x'y"), True),
        (("device", "y", "y"), False),
        (("seq", 2, 9), False),
        (("seq", 1, 9), True),
        (("placed", False, True), True),  # it has no ends
    ):
        assert known.overlaps(*ends) == may_hold, ends
    for condition, number in (
        ("device = 'x''y'", 2),
        ("device = 'y'", 0),
        ("placed IS NOT NULL", 0),
        ("time > '2025-11-21T03:00:00.001Z'", 2),
        ("seq BETWEEN 2 AND 9", 0),
    ):
        assert delta.dataset(silver, condition).count_rows() == number, condition


@pytest.mark.parametrize("text", ["a" * 65, "é" * 65])
def test_a_long_text_is_in_no_statistics(silver, text):
    (file,) = tables.write_readings(silver.parent, readings(0, device=text))
    assert "device" not in json.loads(file["stats"])["minValues"]
    delta.commit(silver, [file])
    (known,) = delta.open_table(silver).files.values()
    assert known.overlaps("device", "b", "b") and delta.dataset(silver, "device = 'b'").count_rows()


def test_a_text_too_long_for_parquets_own_statistics_is_in_none_either(silver):
    """Else engines pass over the file that has it: the ends were those of its other groups."""
    count = delta._GROUP_ROWS
    names = pa.array(["b"] * count + ["z" * 5000], pa.string())
    units = pa.array(["V"] * count + [None], pa.string())
    file = delta.write(silver, pa.table({"name": names, "unit": units}))
    assert json.loads(file["stats"])["maxValues"] == {"unit": "V"}


def test_a_rewrite_beside_a_compaction_is_made_again(silver):
    """The library would take out a file that is there no more, and leave its rows twice."""
    for part in ((0, 1), (2,), (3,)):
        delta.commit(silver, tables.write_readings(silver.parent, readings(*part)))
    tries = []

    def without_first(table):
        tries.append(delta.files_of(table))
        found = [(one, tables.read_files(at(silver), [delta.name_of(one)], schemas.READING))
                 for one in tries[-1]]  # fmt: skip
        if len(tries) == 1:
            upkeep.compact(silver.parent, kept_h=24)
        kept = pa.concat_tables([part for _, part in found]).slice(1)
        return tables.write_readings(silver.parent, kept), [one for one, _ in found]

    delta.rewrite(delta.Opened(silver.parent), "readings", without_first, [BATCH])
    assert [len(found) for found in tries] == [3, 1]
    assert rows(silver) == 3 and delta.committed(silver, "query") == 0


def test_silver_can_be_read_as_it_was_before_a_batch(silver):
    """So a batch that comes again does, unless a vacuum has taken the files of that version."""
    old, new = (tables.write_readings(silver.parent, readings(0, device=name)) for name in "ab")
    delta.commit(silver, old, BATCH)
    assert delta.version_before(delta.open_table(silver), [BATCH]) == 0
    again = delta.Batch("query", 1)
    opened = delta.Opened(silver.parent)
    delta.rewrite(opened, "readings", lambda table: (new, delta.files_of(table)), [again])
    upkeep.compact(silver.parent)
    before = delta.version_before(delta.open_table(silver), [again])
    wanted = {("a", None, 0), ("b", None, 0)}

    def devices(version):
        return displaced.stored(silver, wanted, version)["device"].to_pylist()

    assert before == 1 and (devices(before), devices(None)) == (["a"], ["b"])
    (silver / delta.name_of(old[0])).unlink()
    assert devices(before) == ["b"]


def test_what_has_changed_since_a_version_is_told_by_day_but_not_by_compaction(silver):
    version = tables.version(silver.parent, "readings")
    for part in ((0,), (DAY,), (DAY, None)):
        delta.commit(silver, tables.write_readings(silver.parent, readings(*part)))
    assert delta.changed(delta.open_table(silver), version) == {"2025-11-21", "2025-11-22", None}
    assert delta.changed(delta.open_table(silver), version + 1) == {"2025-11-22", None}
    assert delta.changed(delta.open_table(silver), -1) is None
    version = tables.version(silver.parent, "readings")
    assert upkeep.compact(silver.parent)["readings"] == (4, 3)
    assert delta.changed(delta.open_table(silver), version) == set()


def test_a_device_and_what_is_old_can_be_deleted(silver):
    for device in ("a", "b"):
        files = tables.write_readings(silver.parent, readings(0, DAY, None, device=device))
        delta.commit(silver, files)
    assert upkeep.delete_device(silver.parent, "a")["readings"] == 3
    assert rows(silver) == 3 and tables.deleted_before(delta.open_table(silver)) == 0
    assert upkeep.delete_before(silver.parent, datetime.date(2025, 11, 22))["readings"] == 1
    days = tables.read_table(silver.parent, "readings")["day"].to_pylist()
    assert sorted(map(str, days)) == ["2025-11-22", "None"]
    for day, least in ((22, 22), (21, 22), (23, 23)):
        upkeep.delete_before(silver.parent, datetime.date(2025, 11, day))
        first = tables.deleted_before(delta.open_table(silver))
        assert first == BEGIN - 3 * 3_600_000_000 + (least - 21) * DAY


def four_readings(silver) -> None:
    made = pa.concat_tables([readings(n, device=name) for n, name in enumerate("abbc")])
    delta.commit(silver, tables.write_readings(silver.parent, made))


def test_what_a_deletion_leaves_of_a_file_can_be_filtered_by_anybody(silver):
    four_readings(silver)
    assert upkeep.delete_device(silver.parent, "a")["readings"] == 1
    left = pa.dataset.dataset(DeltaTable(str(silver)).file_uris(), schema=schemas.READING)
    assert left.to_table(filter=pc.field("device") == "b").num_rows == 2


def test_what_the_library_leaves_of_a_file_can_be_filtered_by_its_texts(silver):
    """It writes texts as views, and pyarrow does not compare statistics with them. Earlier versions
    deleted with it."""
    four_readings(silver)
    DeltaTable(str(silver)).delete("device = 'a'")
    (one,) = delta.files_of(delta.open_table(silver))
    left = tables.open_dataset(silver.parent, "readings")
    for wanted, count in (("b", 2), ("c", 1), ("d", 0)):
        is_wanted = pc.field("device") == wanted
        found = left.to_table(columns=["seq"], filter=is_wanted)
        assert (found.num_rows, found.column_names) == (count, ["seq"])
        batches = [*left.to_batches(columns=["seq"], filter=pc.field("device").isin([wanted]))]
        assert sum(batch.num_rows for batch in batches) == count
        of_file = tables.dataset(at(silver), [delta.name_of(one)], schemas.READING)
        assert of_file.to_table(filter=is_wanted).num_rows == count
    with pytest.raises(pa.ArrowNotImplementedError):
        left.to_table(filter=pc.field("device") > 1)


def test_a_device_that_is_deleted_before_gold_has_seen_it_is_made_again(silver):
    """Of what silver has left of it: nothing. Else gold would take in the files from before."""
    version = tables.version(silver.parent, "readings")
    files = tables.write_readings(silver.parent, readings(0, DAY, device="a"))
    delta.commit(silver, files)
    upkeep.delete_device(silver.parent, "a")
    (step,) = changes.of_silver(delta.open_table(silver), version)
    assert step.again == ["a"] and len(step.fresh) == len(files)
    upkeep.delete_device(silver.parent, "a")  # once more: nothing has changed
    version = tables.version(silver.parent, "readings")
    upkeep.delete_device(silver.parent, "a")
    assert [one.again for one in changes.of_silver(delta.open_table(silver), version)] == [[]]


def test_a_commit_and_the_files_that_it_names_are_on_the_disk(silver, monkeypatch):
    """After a power cut a table had less than the state of its streams, for good."""
    log, synced = silver / "_delta_log", []

    def note(handle):
        synced.append((os.readlink(f"/proc/self/fd/{handle}"), len(list(log.glob("*.json")))))

    monkeypatch.setattr(os, "fsync", note)
    files = tables.write_readings(silver.parent, readings(0, DAY, None))
    known = len(list(log.glob("*.json")))
    delta.commit(silver, files)
    for one in files:
        path = silver / delta.name_of(one)
        assert {(str(path), known), (str(path.parent), known)} <= set(synced)
    (contents, before), names = synced[-2:]  # its contents are durable before it has its name
    assert Path(contents).name.startswith(f".{max(log.glob('*.json')).name}") and before == known
    assert names == (str(log), known + 1)


def test_a_compaction_is_on_the_disk(silver, monkeypatch):
    """It is deltalake's own, which does not wait for it."""
    synced: set[Path] = set()
    link = "/proc/self/fd/{}".format
    for day in range(3):
        delta.commit(silver, tables.write_readings(silver.parent, readings(day * DAY, 1)))
    monkeypatch.setattr(os, "fsync", lambda handle: synced.add(Path(os.readlink(link(handle)))))
    before = set(silver.rglob("*"))
    upkeep._compacted(at(silver))
    made = set(silver.rglob("*")) - before
    assert {path.suffix for path in made} == {".json", ".parquet"}
    assert made | {path.parent for path in made} <= synced


def test_a_device_is_not_deleted_between_the_commits_of_a_round(silver):
    """Its driver was killed there, or is at it now. Another finishes it."""
    names = tables.SILVER_TABLES
    for name in names[:2]:
        delta.commit(silver.parent / name, [], plan.marked(0))
    with pytest.raises(ToolError, match="`outpost pipeline run` finishes it"):
        upkeep.delete_device(silver.parent, "a")
    for name in names[2:]:
        delta.commit(silver.parent / name, [], plan.marked(0))
    assert upkeep.delete_device(silver.parent, "a")["readings"] == 0


def test_a_device_is_not_deleted_while_frames_are_on_their_way_to_silver(silver):
    quarantined(silver, "unknown version 2")
    assert quarantine.replay(silver.parent, "", versions=(1, 2)) == (1, 0)
    with pytest.raises(ToolError, match="replayed frames wait"):
        upkeep.delete_device(silver.parent, "a")


def test_frames_of_a_device_are_deleted_whatever_the_topics_prefix(silver):
    topics = ["outpost/a_b/data", "farm/north/a_b/data", "outpost/axb/data", "outpost/za_b/data"]
    found = [{"reason": "empty", "topic": one, "payload": b""} for one in topics]
    place = silver.parent / "quarantine"
    refused = pa.Table.from_pylist(found, schema=schemas.QUARANTINE_TABLE)
    delta.commit(place, [delta.write(place, refused)])
    assert upkeep.delete_device(silver.parent, "a_b")["quarantine"] == 2
    left = tables.read_table(silver.parent, "quarantine")["topic"].to_pylist()
    assert sorted(left) == sorted(topics[2:])


@pytest.mark.parametrize(("day", "deleted"), [("0001-01-01", 0), ("9999-12-31", 2)])
def test_any_day_can_be_the_first_that_stays(silver, day, deleted):
    delta.commit(silver, tables.write_readings(silver.parent, readings(0, DAY, None)))
    found = upkeep.delete_before(silver.parent, datetime.date.fromisoformat(day))
    assert found["readings"] == deleted


def test_windows_and_frames_of_days_before_are_deleted_to_the_microsecond(silver):
    """Whether the library compares a column with that time is seen where there are rows."""
    midnight = datetime.datetime(2025, 11, 23, tzinfo=datetime.UTC)
    ends = [midnight - datetime.timedelta(microseconds=1), midnight]
    rows_ = {
        "windows": [{"device": "a", "start": ends[0], "last_time": end} for end in ends],
        "quarantine": [{"reason": "empty", "topic": "t", "received": end} for end in ends],
    }
    for name, found in rows_.items():
        place, schema = silver.parent / name, tables.schema(name)
        part = pa.Table.from_pylist(found, schema=schema).select(
            [one for one in schema.names if one != "bucket"]
        )
        partition = {"partition": "0", "by": "bucket"} if name == "windows" else {}
        delta.commit(place, [delta.write(place, part, **partition)])
    found = upkeep.delete_before(silver.parent, midnight.date())
    assert (found["windows"], found["quarantine"]) == (1, 1)
    (left,) = tables.read_table(silver.parent, "windows")["last_time"].to_pylist()
    assert left == midnight


def test_a_window_that_has_a_later_reading_stays(silver):
    """A week's window, of which the first days are deleted."""
    rows_ = windows.with_start(readings(0, DAY, 2 * DAY, -9 * DAY), 7 * 86_400.0)
    place = silver.parent / "windows"
    for bucket, part in packed.split(windows.of_rows(rows_), packed.BUCKETS):
        delta.commit(place, [delta.write(place, part, str(bucket), "bucket")])
    assert upkeep.delete_before(silver.parent, datetime.date(2025, 11, 23))["windows"] == 1
    (left,) = tables.read_table(silver.parent, "windows").to_pylist()
    assert (left["start"].day, left["last_time"].day) == (20, 23)
    assert upkeep.delete_before(silver.parent, datetime.date(2025, 11, 24))["windows"] == 1


def quarantined(silver, *reasons):
    """Messages of version 2, refused for these reasons."""
    pack = b'[{"bn":"a/","sid":"0000000a","seq":%d,"boot":1,"held":0,"ver":%d,"n":"x","vs":"t"},'
    pack += b'{"n":"y","v":1}]'
    found = [
        {"reason": reason, "topic": "outpost/a/data", "payload": pack % (at, 2 - at)}
        | {"received": datetime.datetime.now(datetime.UTC), "offset": at, "segment": 0}
        | {"collector": "c", "retained": False}
        for at, reason in enumerate(reasons)
    ]
    place = silver.parent / "quarantine"
    refused = pa.Table.from_pylist(found, schema=schemas.QUARANTINE_TABLE)
    delta.commit(place, [delta.write(place, refused)])


def test_a_message_with_a_text_among_its_values_is_replayed_once(silver):
    """It was refused as a whole; one of which the numbers are in silver stays."""
    reasons = ["unknown version 2", "records without a number left out: vs"]
    quarantined(silver, *reasons)
    assert quarantine.replay(silver.parent, "", versions=(1, 2)) == (1, 1)
    assert dict(quarantine.reasons(silver.parent)) == {reasons[1]: 1}


def test_two_replays_at_once_free_each_frame_once(silver):
    quarantined(silver, "one", "other")
    with ThreadPoolExecutor() as pool:
        work = [
            pool.submit(quarantine.replay, silver.parent, reason, versions=(1, 2))
            for reason in ("one", "other", "")
        ]
        assert sum(one.result()[0] for one in work) == 2
    rows = tables.read_table(silver.parent, "quarantine").to_pylist()
    assert len(rows) == 2 and all(row["replay"] is not None for row in rows)
    assert not quarantine.reasons(silver.parent)


def test_tables_of_an_older_version_are_named_with_the_commands_that_make_them_again(tmp_path):
    (tmp_path / "silver" / "batch=0").mkdir(parents=True)
    for use in (tables.create, lambda place: tables.read_table(place, "readings")):
        with pytest.raises(ToolError, match="outpost pipeline run --tables"):
            use(tmp_path)


def test_tables_get_the_columns_that_a_newer_version_has(tmp_path):
    """Every engine sees them; in rows from before they are null, and nothing counts as changed."""
    place = tmp_path / "readings"
    older = pa.schema([*schemas.READING, pa.field("day", pa.date32())])
    older = older.remove(older.get_field_index("value"))
    delta.create(place, older, "day")
    delta.commit(place, [delta.write(place, readings(5).drop_columns("value"), None, "day")], BATCH)
    tables.create(tmp_path)
    found = delta.open_table(place)
    assert "value" in found.columns
    assert rows(place) == 1
    assert tables.read_table(tmp_path, "readings", ["value"])["value"].to_pylist() == [None]
    assert delta.changed(delta.open_table(place), found.version() - 1) == set()
    tables.create(tmp_path)
    assert delta.open_table(place).version() == found.version()


def page_lines(beginning: str) -> list[str]:
    page = REPOSITORY / "tools/outpost_tools/readings/pipeline/README.md"
    found = [line.strip() for line in page.read_text().splitlines()]
    return [line for line in found if line.startswith(beginning)]


@pytest.mark.parametrize("expression", page_lines("polars.scan_pyarrow_dataset("))
def test_what_the_page_says_for_polars_and_a_blank_in_the_path(expression, tmp_path, monkeypatch):
    """Its advice before, use_pyarrow=True, counted no rows."""
    deltalake, polars = pytest.importorskip("deltalake"), pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    deltalake.write_deltalake("my tables/readings", pa.table({"value": [20.0, 21.0]}))
    frame = eval(expression, {"polars": polars, "deltalake": deltalake})
    assert frame.select(polars.len()).collect().item() == 2
    assert frame.collect()["value"].sum() == 41


def test_the_page_tells_spark_where_the_days_begin():
    (line,) = page_lines("spark.read.option(")
    assert '.option("basePath", "tables/readings").parquet(*files)' in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Generic LocalFileSystem error\n  No space left on device (os error 28)",
            "Generic LocalFileSystem error: No space left on device",
        ),
        ("No space left on device", "No space left on device"),
        ("at x\nCaused by: IOError: disk\nat y", "Caused by: IOError: disk"),
    ],
)
def test_a_full_disk_is_named(text, said):
    assert retries.cause(OSError(text)) == said

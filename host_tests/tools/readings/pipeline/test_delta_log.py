# cpython-only: Arrow and Delta Lake
"""A table's log, read and continued without the library: it finds what the library finds, and of
two writers one wins."""

import json
from pathlib import Path

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError, TableNotFoundError

    from outpost_tools.errors import ToolError
    from outpost_tools.readings.pipeline import delta, delta_log
    from outpost_tools.store.local import LocalStore

SCHEMA = pa.schema([("name", pa.string()), ("time", pa.timestamp("us", "UTC"))])
SCHEMA = pa.schema([*SCHEMA, ("day", pa.string())])


@pytest.fixture
def place(tmp_path):
    delta.create(tmp_path / "table", SCHEMA, "day", checkpointInterval="5")
    return tmp_path / "table"


def file(place: Path, number: int) -> dict:
    rows = pa.table({"name": [f"n{number}", None], "time": [number, number + 1]})
    rows = rows.cast(SCHEMA.remove(2))
    return delta.write(place, rows, f"d {number % 3}" if number % 4 else None, "day")


def add(place: Path, number: int, of: delta.Table | None = None) -> delta.Table:
    return delta.commit(place, [file(place, number)], delta.Batch("q", number), of=of)


def same_as_library(place: Path, found: delta.Table) -> None:
    known = DeltaTable(str(place))
    rows = pa.table(known.get_add_actions(flatten=True)).to_pylist()
    assert found.version() == known.version()
    assert found.configuration == known.metadata().configuration
    assert {*found.columns} == {one.name for one in known.schema().fields}
    assert found.transactions.get("q") == known.transaction_version("q")
    assert {one["path"] for one in rows} == {*found.files}
    for one in rows:
        mine = found.files[one["path"]]
        assert (mine.size, mine.rows) == (one["size_bytes"], one["num_records"])
        assert mine.partition == one["partition.day"]
        assert mine.ends("name") == (one["min.name"], one["max.name"])
        assert mine.times("time") == (one["min.time"], one["max.time"])
        assert mine.nulls("name") == one["null_count.name"]


def test_it_is_what_the_library_finds_whoever_has_committed(place):
    """Commits of ours and the library's, past checkpoints of both; a table opened at each moment is
    renewed to the same."""
    opened = [delta.open_table(place)]

    def steps():
        for number in range(7):
            yield add(place, number, delta.open_table(place))
        yield DeltaTable(str(place)).delete("name = 'n3'")
        yield DeltaTable(str(place)).optimize.compact()
        yield delta.set_properties(place, {"outpost.x": "1"})
        table = delta.open_table(place)
        yield delta.commit(place, [], gone=delta.files_of(table)[:1], of=table)
        yield DeltaTable(str(place)).create_checkpoint()
        yield add(place, 8)
        yield DeltaTable(str(place)).alter.add_columns([delta.Schema.from_arrow(
            pa.schema([("more", pa.int64())])).fields[0]])  # fmt: skip

    for _ in steps():
        opened.append(delta.open_table(place))
        same_as_library(place, opened[-1])
    for one in opened:
        same_as_library(place, delta_log.renewed(one))
    for one in opened[3:]:
        old = delta.open_table(place, one.version())
        assert (old.files.keys(), old.transactions) == (one.files.keys(), one.transactions)


def test_what_a_commit_returns_is_what_is_read(place):
    table = delta.open_table(place)
    for number in range(12):
        table = add(place, number, table)
        again = delta.open_table(place)
        assert (again.number, again.transactions) == (number + 1, {"q": number})
        assert again.files.keys() == table.files.keys()
    assert sorted(path.name[:20] for path in (place / "_delta_log").glob("*.parquet")) == [
        f"{number:020}" for number in (4, 9)
    ]


def test_of_two_that_commit_on_one_version_one_wins(place):
    one = other = delta.open_table(place)
    add(place, 0, one)
    with pytest.raises(CommitFailedError):
        add(place, 1, other)
    with pytest.raises(CommitFailedError):
        delta.commit(place, [], gone=delta.files_of(delta.open_table(place)), of=other)
    assert len(add(place, 2).files) == 2  # what only adds is put on top


def test_a_commit_whose_answer_was_lost_is_its_own(place, monkeypatch):
    """The store says that the file is there; it is the one that was sent."""
    create = LocalStore.create
    monkeypatch.setattr(LocalStore, "create", lambda *a: create(*a) and create(*a))
    assert add(place, 0, delta.open_table(place)).number == 1


def test_a_table_that_was_looked_at_long_ago_is_read_again(place):
    """Else a commit that was cleaned away since would seem not to be there yet."""
    old = delta_log.replace(delta.open_table(place), looked_s=1.0)
    with pytest.raises(CommitFailedError, match="too long ago"):
        add(place, 0, old)
    for number in range(7):
        add(place, number)
    for path in sorted((place / "_delta_log").glob("*.json"))[:5]:
        path.unlink()
    assert delta_log.renewed(old).number == 7
    assert [n for n, _ in delta_log.versions_down(delta.open_table(place))] == [7, 6, 5]


@pytest.mark.parametrize("lost", ["_last_checkpoint", "*.checkpoint.parquet"])
def test_a_log_without_its_note_or_with_one_of_a_checkpoint_that_is_gone(place, lost):
    for number in range(7):
        add(place, number)
    for path in (place / "_delta_log").glob(lost):
        path.unlink()
    found = delta.open_table(place)
    assert (found.number, len(found.files)) == (7, 7)


def test_no_table_and_half_a_table(place):
    with pytest.raises(TableNotFoundError):
        delta.open_table(place.parent / "another")
    assert not delta.exists(place.parent / "another") and delta.exists(place)
    opened = delta.Opened(place.parent)
    assert opened.find("another") is None and opened.find_all(["table", "x"])[1] is None
    add(place, 0)
    (place / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(ToolError, match="begins in the middle"):
        delta.open_table(place)


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
          "writerFeatures": ["deletionVectors"]}, "deletionVectors"),
        ({"minReaderVersion": 2, "minWriterVersion": 5}, "column mapping"),
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]}, None),
        ({"minReaderVersion": 1, "minWriterVersion": 4}, None),
    ],
)  # fmt: skip
def test_a_table_with_features_that_are_not_known_is_refused(place, protocol, said):
    (place / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}))
    if said is None:
        assert delta.open_table(place).number == 1
        return
    with pytest.raises(ToolError, match=said):
        delta.open_table(place)


def test_a_table_that_somebody_recreates_is_forgotten(place):
    opened = delta.Opened(place.parent)
    for number in range(3):
        opened.note("table", add(place, number, opened["table"]))
    opened.check("table")
    assert opened["table"].number == 3
    for path in (place / "_delta_log").iterdir():
        path.unlink()
    delta.create(place, SCHEMA, "day")
    opened.check("table")
    assert opened["table"].number == 0


def test_others_commits_show_when_they_are_asked_for(place):
    opened = delta.Opened(place.parent)
    before = opened["table"]
    add(place, 0)
    assert opened["table"] is before
    assert opened.newest("table").number == 1
    add(place, 1)
    opened.again()
    assert opened["table"].number == 2


def test_a_checkpoint_in_parts_is_refused_and_never_read_as_a_whole(place):
    for number in range(5):
        add(place, number)
    note = place / "_delta_log" / "_last_checkpoint"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"parts": 2}))
    with pytest.raises(ToolError, match="parts"):
        delta.open_table(place)


def test_a_text_with_another_end_of_a_line_is_one_line(place):
    row = pa.table({"name": ["a\u2028b\x85c"], "time": pa.array([1], SCHEMA.field("time").type)})
    delta.commit(place, [delta.write(place, row, "x\u2028", "day")])
    (found,) = delta.open_table(place).files.values()
    assert found.ends("name") == 2 * ("a\u2028b\x85c",) and found.partition == "x\u2028"
    same_as_library(place, delta.open_table(place))


def test_engines_read_names_that_are_quoted(place):
    """As in the folder of a day with a space."""
    for number in range(4):
        add(place, number)
    rows = delta.dataset(place).to_table()
    assert sorted({*rows["day"].to_pylist()} - {None}) == ["d 0", "d 1", "d 2"]
    names = [delta.name_of(one) for one in delta.files_of(delta.open_table(place))]
    assert all((place / name).is_file() for name in names)

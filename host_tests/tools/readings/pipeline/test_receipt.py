# cpython-only: Arrow and Delta Lake
"""Which numbers of a board are in which version of the tables."""

import json

import pytest

from optional_packages import needed
from outpost_tools import cli
from outpost_tools.errors import ToolError

with needed("the pipeline's packages"):
    from ground_truth import Board, Log
    from outpost_tools.readings.pipeline import delta, job, receipt, schemas, tables, upkeep
    from serial_engine import Serial

BOARD = Board("board-1", "00000001")


@pytest.fixture
def made(tmp_path):
    """Numbers 0 to 9 in one round, 12 to 19 in another."""
    log = Log(tmp_path / "log", 1)
    for numbers in (range(10), range(12, 20)):
        for seq in numbers:
            log.message(BOARD, seq)
        log.seal(["collector-1"], per_segment=100)
        job.run(Serial(), log.directory, tmp_path / "tables")
    return tmp_path / "tables"


def test_the_version_holds_what_the_receipt_says_and_the_one_before_does_not(made):
    (one,) = receipt.of_device(made, "board-1")
    assert (one.stream, one.ranges) == ("00000001", [(0, 9), (12, 19)])
    assert (one.messages, one.missing) == (18, 2)
    assert one.committed is not None
    held = [numbers(made, one.version), numbers(made, one.version - 1)]
    assert held == [{*range(10), *range(12, 20)}, {*range(10)}]


def numbers(made, version):
    table = delta.open_table(made / "readings", version)
    names = [delta.name_of(one) for one in delta.files_of(table)]
    return set(tables.read_files(table.place, names, schemas.READING)["seq"].to_pylist())


def test_a_compaction_changes_no_receipt(made):
    before = receipt.of_device(made, "board-1")
    upkeep.compact(made)
    assert receipt.of_device(made, "board-1") == before


def test_the_command_says_it_in_a_line_and_in_json(made, capsys):
    line = ["pipeline", "receipt", "--tables", str(made), "--device", "board-1"]
    assert cli.main(line) == 0
    said = capsys.readouterr().out
    assert "numbers 0 to 19, but for 2 numbers that are missing, are in `readings` version" in said
    assert cli.main([*line, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["ranges"] == [[0, 9], [12, 19]] and row["messages"] == 18


def test_a_board_that_no_table_knows_is_named(made):
    with pytest.raises(ToolError, match="nothing of a board 'board-9'"):
        receipt.of_device(made, "board-9")

# cpython-only: tests a desktop tool
"""What `outpost outbox wear` says of a message is what is counted in the geometry of each board,
and its default is the boards' geometry.
"""

import json

import pytest

import wear_of_boards
from outpost_tools.boards.outbox import wear
from outpost_tools.cli import main
from paths import BOARDS
from wear_of_boards import GEOMETRIES, LOAD, MESSAGES

SHARED_PAGES = GEOMETRIES[0]  # RP2
NAMES = [one.boards for one in GEOMETRIES]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=NAMES)
@pytest.mark.parametrize("load", [LOAD, (20, 200)])
def test_the_model_is_what_is_counted(geometry, load):
    found = wear_of_boards.messages(geometry, *load)
    said = 1 / wear.Load(8, 1.0, *load, geometry.align).messages_per_block
    assert abs(found.erases - said) < 1.5 / MESSAGES + said * 0.01
    assert found.programs == 1


def test_on_rp2_a_message_takes_less_than_0_03_erases():
    assert wear_of_boards.messages(SHARED_PAGES).erases < 0.030


def test_on_rp2_it_was_more_than_twice_as_much():
    now, before = (wear_of_boards.messages(one).erases for one in GEOMETRIES[:2])
    assert before > 2 * now


@pytest.mark.parametrize("folder", [path.parent.name for path in BOARDS.glob("*/board.json")])
def test_the_table_of_the_command_is_of_the_boards_geometry(folder, capsys):
    flash = json.loads((BOARDS / folder / "board.json").read_text(encoding="utf-8"))["flash"]
    kinds = {(one.align, one.page_bytes) for one in GEOMETRIES if "before" not in one.boards}
    assert (flash["align"], flash["page_bytes"]) in kinds
    assert main(["outbox", "wear", "--table"]) == 0
    lines = wear.table(wear.ENDURANCE, flash["align"])
    assert capsys.readouterr().out.splitlines() == lines

# cpython-only: compiles what `outpost flash` copies, and measures it under 32-bit MicroPython
"""boards/PORTING.md says how many files go onto a board, as measured; they stay few."""

import pytest

import installed_files
import marked_table
from outpost_tools.machine.interpreters import find_micropython


@pytest.fixture(scope="module")
def rows():
    if find_micropython("i386") is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    return {row[0]: row[1:] for row in installed_files.rows()}


def test_the_page_has_the_table(rows):
    """Within 2 %, and a block or two: `installed_files.py --write` writes it again."""
    text = marked_table.read(installed_files.PAGE, "installed")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    found = {title: [int(one.replace(",", "")) for one in more] for title, *more in lines}
    assert found.keys() == rows.keys()
    for title, figures in found.items():
        assert figures == pytest.approx(rows[title], rel=0.02, abs=2), title


def test_the_default_leaves_room_for_an_update(rows):
    files, _, _, free = rows['mode = "broker"']
    assert files <= 52 and free >= 80
    _, size, _, free = rows["and with commands, update_key"]
    assert free >= size / 4096 + 22, "in packs, one more, and what littlefs needs"

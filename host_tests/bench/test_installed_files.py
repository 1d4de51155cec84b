# cpython-only: compiles what `outpost flash` copies, and measures it under 32-bit MicroPython
"""boards/README.md says which files go onto a board, as measured; their number stays small."""

import pytest

import installed_files
from outpost_tools.common.interpreters import find_micropython


@pytest.fixture(scope="module")
def rows():
    if find_micropython("i386") is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    return {row[0]: row[1:] for row in installed_files.rows()}


def test_the_page_has_the_table(rows):
    page = installed_files.PAGE.read_text(encoding="utf-8")
    assert installed_files.page_with(installed_files.table()) == page


def test_the_default_leaves_room_for_an_update(rows):
    files, _, _, free = rows['mode = "broker"']
    assert files <= 50 and free >= 80
    _, size, _, free = rows["and with commands, update_key"]
    assert free >= size / 4096 + 22, "in packs, one more, and what littlefs needs"

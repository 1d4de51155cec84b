# cpython-only: real brokers, MicroPython and mpremote
"""The lines of README and of the home guide, typed by three people with the set-up of this
checkout; `three_paths.py --fresh` also sets up.
"""

import shutil

import pytest

import three_paths
from paths import REPOSITORY
from person import Lines
from real_broker import need_mosquitto


@pytest.mark.long
def test_every_line_of_the_pages_does_what_they_say(tmp_path):
    need_mosquitto()
    people = three_paths.run(tmp_path)
    assert len(people) == 3 and all(one.steps for one in people)


@pytest.fixture
def pages(tmp_path):
    """Copies, to change."""
    for page in {page for page, _ in three_paths.SECTIONS}:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / page, tmp_path / page)
    return tmp_path


def test_a_line_that_nobody_types_is_told(pages):
    lines = Lines(pages, three_paths.SECTIONS)
    left = lines.left(three_paths.NOT_TYPED)
    assert any("outpost run home" in one for one in left)
    lines.take(three_paths.NOTHING, "outpost run home")
    assert len(lines.left(three_paths.NOT_TYPED)) == len(left) - 1


def test_a_line_that_a_page_has_lost_is_told(pages):
    readme = pages / three_paths.README
    text = readme.read_text(encoding="utf-8")
    readme.write_text(text.replace("    outpost setup home", "    outpost setup house"), "utf-8")
    lines = Lines(pages, three_paths.SECTIONS)
    with pytest.raises(AssertionError, match="0 lines: outpost setup home"):
        lines.take(three_paths.NOTHING, "outpost setup home")
    assert "no such line: outpost no" in lines.left({"outpost no": "why"})

# cpython-only: starts brokers and processes
"""The table of mistakes: Outpost's column, for mistakes that end it; the page's rows."""

import pytest

import marked_table
import mistakes

ENDS = {
    "none: the right program": (0, 1, "delivered: 1 acknowledged"),
    "a wrong password": (1, 0, "the broker refuses this board, return code 5"),
    "topic: str": (1, 0, "topic must be bytes"),
    "payload: a number": (1, 0, "payload must be bytes"),
    "the third argument is True": (1, 0, "RETAIN is retain=True"),
    "a wildcard in the topic": (1, 0, "has a wildcard"),
}
KNOWN = {one.title: one for one in mistakes.MISTAKES}


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    with mistakes.ports(tmp_path_factory.mktemp("ports")) as at:
        listener = mistakes.Listener(at["plain"])
        yield at, listener
        listener.close()


@pytest.mark.parametrize("title", ENDS)
def test_a_mistake_is_told_in_words(rig, title, monkeypatch):
    monkeypatch.setattr(mistakes, "LIMIT_S", 180)  # none of these waits
    seen = mistakes.run("Outpost", KNOWN[title], *rig)
    assert (seen.status, seen.came) == ENDS[title][:2] and ENDS[title][2] in seen.said


def test_the_page_has_a_row_for_each_mistake():
    table = marked_table.read(mistakes.PAGE, "mistakes")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert rows == ["the right program", *KNOWN]
    assert mistakes.statements("Outpost") == 6

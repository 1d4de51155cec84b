# cpython-only: parses status.py
"""What a program of one's own says: no number without words, and no words for a number that the
library does not know."""

import ast
import sys

from outpost_tools.boards.files import firmware_build, needed
from paths import FIRMWARE
from station import own_program, own_words

_TREE = ast.parse((FIRMWARE / "outpost" / "status.py").read_text(encoding="utf-8"))
STATUSES = {
    node.targets[0].id: ast.literal_eval(node.value.args[0])
    for node in _TREE.body
    if isinstance(node, ast.Assign)
}
# TOO_MANY ends a connection of QoS 2, which comes back; BLOCKED and REFUSED have words elsewhere
_ELSEWHERE = {"TOO_MANY", "BLOCKED", "REFUSED"}


def test_what_ends_a_connection_has_words():
    ends = {number for name, number in STATUSES.items() if number <= -20 and name not in _ELSEWHERE}
    assert ends == {number for number in own_words.CONNECTION if number < 0}


def test_what_publish_returns_has_words():
    names = "FULL TOO_BIG BUSY OFFLINE STORAGE BAD_TOPIC BAD_QOS BAD_LENGTH BAD_RETAIN"
    assert {STATUSES[name] for name in names.split()} == {*own_words.PUBLISH}


def test_what_mount_returns_has_words():
    names = "FOREIGN NEWER GEOMETRY SHORT_RECORDS SHORT_DEVICE STORAGE"
    assert {STATUSES[name] for name in names.split()} == {*own_words.MOUNT}


def test_a_board_that_takes_updates_does_without_them():
    """Its flash has to hold each file twice (system/test_update_room.py)."""
    texts = firmware_build.sources(FIRMWARE)
    for key, is_there in (("", True), ("00" * 32, False)):
        paths = needed.paths(texts, needed.defaults() | {"update_key": key})
        assert "station/own_program.py" in paths
        assert ("station/own_words.py" in paths) == is_there


def test_without_them_a_number_is_told(monkeypatch):
    assert own_program._words("CONNECTION", -22) == "no answer in time"
    monkeypatch.delattr("station.own_words")
    monkeypatch.setitem(sys.modules, "station.own_words", None)
    assert own_program._words("CONNECTION", -22) == "see outpost/status.py"

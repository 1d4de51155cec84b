# cpython-only: the explorer loads the firmware from source
"""The explorer closes its smallest scopes, and finds deliberate faults."""

import ast

import pytest

from session_explorer import Explorer
from session_firmware import classes, source_of
from session_scopes import Scope

ONE = Scope("one message", held=1, total=1, forgets=False)
IN = Scope("one message in", held=0, inbound=1, forgets=False)
LEVEL_3 = Scope("one message, MQTT 3.1", held=1, total=1, level=3, forgets=False)


@pytest.fixture(scope="module")
def firmware():
    return classes()


@pytest.mark.parametrize("scope", [ONE, IN, LEVEL_3], ids=lambda scope: scope.name)
def test_closes(firmware, scope):
    result = Explorer(scope, firmware).run(10_000, 600)
    assert result.closed, (result.violation, result.trace)
    assert result.at_rest
    assert result.cuts > 30


@pytest.mark.parametrize(
    ("scope", "old", "new", "found"),
    [
        (ONE, "if is_open and (self._is_noted or self._save()):", "if is_open:", "before the note"),
        (ONE, "if not self._released & bit:", "if True:", "PUBLISH of 0"),
        (ONE, "self._due |= bit", "pass", "not drain"),
        (IN, "if self._place(packet_id) < 0:", "if True:", "handed over twice"),
        (IN, "self._answer = _PUBCOMP | packet_id", "pass", "not drain"),
        (LEVEL_3, "(self.session_present or self._is_level_3)", "self.session_present", "has lost"),
        (
            IN,
            "_place(packet_id)\n        if at >= 0:",
            "_place(packet_id)\n        if at > 6:",
            "while noted",
        ),
    ],
)
def test_finds(scope, old, new, found):
    source = source_of("exactly_once")
    assert source.count(old) == 1
    broken = classes({"exactly_once": ast.parse(source.replace(old, new))})
    scopes = (scope, Scope("one message in, MQTT 3.1", held=0, inbound=1, level=3))
    results = [Explorer(one, broken).run(10_000, 600) for one in scopes[: 1 + (scope is LEVEL_3)]]
    assert any(found in result.violation for result in results), results

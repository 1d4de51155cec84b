# cpython-only: changes the firmware's sources
"""Mutants: each differs from the original in one token and has a name of its own; a dead one is
seen to be dead, and the original to live."""

import ast

import pytest

import mutants
import outbox_mutants
import session_mutants
from mutant_changes import Mutant
from mutant_changes import mutants as mutants_of

SOURCE = """
class Ring:
    def next(self, at):
        if at < 3 and not self.is_full:
            self.note(at)
            return at + 1
        return True
"""


def test_each_token_once():
    names = [mutant.name for mutant in mutants_of("ring", SOURCE)]
    assert names == [
        "ring.next: at < 3 and (not self.is_full)  ->  Or",
        "ring.next: at < 3  ->  LtE",
        "ring.next: not self.is_full  ->  without not",
        "ring.next: 3  ->  4",
        "ring.next: self.note(at)  ->  left out",
        "ring.next: at + 1  ->  Sub",
        "ring.next: 1  ->  2",
        "ring.next: True  ->  False",
    ]


@pytest.mark.parametrize("name", sorted({*outbox_mutants.MODULES, *session_mutants.MODULES}))
def test_names_are_unique_and_every_mutant_differs(name):
    source = mutants.source(name)
    found = list(mutants_of(name, source))
    assert len({mutant.name for mutant in found}) == len(found) > 10
    original = ast.dump(ast.parse(source))
    assert all(ast.dump(mutant.tree()) != original for mutant in found[::20])


def test_the_original_lives():
    original = Mutant("durable", mutants.source("durable"))
    assert session_mutants.killer(original) == ""


def test_one_without_its_bound_dies():
    dead = next(
        mutant
        for mutant in mutants_of("ring", mutants.source("ring"))
        if mutant.name == "ring._next_free: not self._is_free(block)  ->  without not"
    )
    assert "goes on" in outbox_mutants.killer(dead)


def test_a_reason_stands_above_its_mutants(tmp_path, monkeypatch):
    listed = tmp_path / "listed.txt"
    listed.write_text("# It only saves a read.\nring.next: 1  ->  2\n\n# Counters.\nring.x: a\n")
    monkeypatch.setattr(mutants, "EQUIVALENT", listed)
    assert mutants.equivalent() == {
        "ring.next: 1  ->  2": "It only saves a read.",
        "ring.x: a": "Counters.",
    }

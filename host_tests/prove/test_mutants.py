# cpython-only: changes the firmware's sources
"""Mutants: each differs from the original in one token and has a unique name. A dead mutant is
found dead, and the original alive."""

import ast
import json
import os
import subprocess
import sys

import pytest

import mutants
import outbox_mutants
import paths
import session_mutants
from mutant_changes import Mutant
from mutant_changes import mutants as mutants_of

KILLERS = """
import json, sys
sys.path.insert(0, "..")
import paths
sys.path.extend(paths.ALL)
import mutants, mutant_tests
from mutant_changes import Mutant, mutants as mutants_of

DEAD = (
    "ring._put_header: 16  ->  17",
    "mount._scan_head: 8  ->  9",
    "ring._after: block not in self._out  ->  In",
)

def work(suite):
    chosen = [Mutant("ring", mutants.source("ring"))]
    for module in ("mount", "ring"):
        found = mutants_of(module, mutants.source(module))
        chosen += [mutant for mutant in found if mutant.name in DEAD]
    for mutant, by in suite.killers(chosen, lambda mutant: suite.killer(mutant) or "nothing"):
        print(json.dumps([mutant.name, by]))

mutant_tests.collected(["test_outbox_format"], work, 1)
"""

MODULES = sorted(module for one in mutants.SETS.values() for module in one.MODULES)
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


def test_the_lines_that_a_mutant_changes():
    first = next(mutants_of("ring", SOURCE))
    assert first.difference() == [
        "-        if at < 3 and (not self.is_full):",
        "+        if at < 3 or not self.is_full:",
    ]


def test_every_listed_mutant_is_one():
    """Otherwise the reason for a line that has changed since would excuse another mutant."""
    names = {
        mutant.name for module in MODULES for mutant in mutants_of(module, mutants.source(module))
    }
    assert mutants.equivalent().keys() <= names


def test_a_constant_with_a_sign_loses_it():
    names = [mutant.name for mutant in mutants_of("ring", "def none():\n    return -1\n")]
    assert names == ["ring.none: -1  ->  without sign"]


@pytest.mark.parametrize("name", MODULES)
def test_names_are_unique_and_every_mutant_differs(name):
    source = mutants.source(name)
    found = list(mutants_of(name, source))
    assert len({mutant.name for mutant in found}) == len(found) > 5
    original = ast.dump(ast.parse(source))
    assert all(ast.dump(mutant.tree()) != original for mutant in found[::20])


@pytest.mark.long
def test_the_original_lives():
    original = Mutant("durable", mutants.source("durable"))
    assert session_mutants.killer(original) == ""


def test_one_without_its_bound_dies():
    dead = next(
        mutant
        for mutant in mutants_of("ring", mutants.source("ring"))
        if mutant.name == "ring._next_free: not self._may_open(block)  ->  without not"
    )
    assert "goes on" in outbox_mutants.killer(dead)


@pytest.mark.long
def test_the_unit_tests_kill_what_they_cover_and_only_that():
    """In a separate process: the original, and dead mutants: in a module that stays loaded, in one
    that is loaded again at each use, and one that does not end."""
    lines = subprocess.run(
        [sys.executable, "-c", KILLERS], cwd=paths.PROVE, env={**os.environ, "CI": ""}, check=True,
        capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    found: dict[str, str] = dict(json.loads(line) for line in lines if line.startswith("["))
    assert found.pop(": ") == "nothing"  # the name of no change
    assert all(by.startswith("test_outbox_format.py::") for by in found.values()), found
    assert len(found) == 3


def test_a_reason_stands_above_its_mutants(tmp_path, monkeypatch):
    (tmp_path / "ring.mutants.txt").write_text("# It only saves a read.\nring.next: 1  ->  2\n\n")
    (tmp_path / "shelf.mutants.txt").write_text("# Counters.\nshelf.x: a\n")
    monkeypatch.setattr(mutants, "EQUIVALENT", tmp_path)
    assert mutants.equivalent() == {
        "ring.next: 1  ->  2": "It only saves a read.",
        "shelf.x: a": "Counters.",
    }

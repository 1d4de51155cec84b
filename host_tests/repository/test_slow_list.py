# cpython-only: about the list of pytest
"""The measured list of slow tests names tests that are there."""

import re

import cpu_times


def test_the_list_names_tests_that_are_there():
    """A file may have its tests from a module beside it."""
    gone = []
    for name in cpu_times.listed():
        file, *names = name.split("::")
        path = cpu_times.HOST_TESTS / file
        texts = [one.read_text(encoding="utf-8") for one in path.parent.glob("*.py")]
        is_there = any(all(re.search(rf"\b{one}\b", text) for one in names) for text in texts)
        if not (path.exists() and is_there):
            gone.append(name)
    assert gone == [], "run host_tests/rigs/cpu_times.py --write, or correct these lines by hand"


def test_the_list_is_as_it_is_written():
    lines = cpu_times.LIST.read_text(encoding="utf-8").splitlines()
    spent = {line.split()[1]: float(line.split()[0]) for line in lines}
    assert cpu_times.lines(spent) == lines


def test_a_target_that_names_its_tests_runs_the_slow_ones_too():
    makefile = (cpu_times.HOST_TESTS.parent / "Makefile").read_text(encoding="utf-8")
    calls = re.findall(r"-m pytest(?:[^\n]|\\\n)*?\.py", makefile)
    assert len(calls) > 8 and [one for one in calls if '-m ""' not in one] == []

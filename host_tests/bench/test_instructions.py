# cpython-only: it traces MicroPython from outside
"""The instruction counter counts, twice the same; and the count of a publish has not grown."""

import os

import pytest

import bench_readme
import growth
import instruction_count
import instructions
import peers
from outpost_tools.machine.interpreters import find_micropython

PROGRAM = """
marks = open("/dev/null", "wb")
def turns(count):
    for _ in range(count):
        pass
for count in (0, 100, 100, 300):
    turns(count)
    name = b"\\x01B%d" % count
    marks.write(name)
    turns(count)
    marks.write(b"\\x01E")
    if count == 100:
        assert marks.write(b"no mark") == 7
"""
# Of the baseline: more is a fault, less is a reason to take a new one. What else the program has
# moves the figure by up to 3 %, because a name is found sooner or later.
GROWN = 1.08


@pytest.fixture
def micropython() -> list[str]:
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython for i386: run `make setup`")
    if reason := instruction_count.why_not():
        pytest.skip(f"optional: {reason}")
    return command


@pytest.mark.long
@pytest.mark.parametrize("architecture", ["i386", "amd64"])
def test_counts_are_the_same_twice_and_grow_with_the_work(micropython, architecture, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    counts: dict[str, list[int]] = {}
    command = [*(find_micropython(architecture) or micropython), str(script)]
    instruction_count.count(
        command, dict(os.environ), lambda name, count: counts.setdefault(name, []).append(count)
    )
    (nothing,), (first, second), (three,) = counts["0"], counts["100"], counts["300"]
    assert first == second > 1000
    assert three - nothing == pytest.approx(3 * (first - nothing), rel=0.02)


def test_a_program_that_fails_is_told(micropython, tmp_path):
    script = tmp_path / "program.py"
    script.write_text("raise SystemExit(3)\n")
    with pytest.raises(ChildProcessError, match="exit status 3"):
        instruction_count.count([*micropython, str(script)], dict(os.environ))


@pytest.mark.usefixtures("micropython")
def test_a_publish_takes_no_more_than_it_did():
    kept = {
        name.removeprefix("instructions: "): values[0]
        for name, values in bench_readme.kept().items()
    }
    with peers.rig(offline=True) as (one, port):
        found = instructions.count(one, port, ("ours",))
    for kind in ("RAM", "flash"):
        assert min(found[f"{kind} {step}"] for step in growth.STEPS) > 1000
        assert growth.whole(found, kind) < growth.whole(kept, kind) * GROWN, found

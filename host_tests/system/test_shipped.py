# cpython-only: compiles what `outpost flash` copies and runs it under 32-bit MicroPython
"""What `outpost flash` copies, run as it is: the very files of the payload, in a world with the
ports' names and no others.
"""

import ast
import itertools
import json
import re
from pathlib import Path

import pytest

from outpost_tools.kit.outcome import World
from paths import REPOSITORY
from rp2040.tracebacks import source_path
from shipped_run import bench_of, payload_of, run

PROGRAM = Path(__file__).parent / "programs" / "watched_main.py"
KINDS = ("ESP32_GENERIC", "ESP32_GENERIC_C3", "ESP32_GENERIC_S3", "RPI_PICO2_W", "RPI_PICO_W")
FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
TURNS = 2000  # as in PROGRAM


def watched(kind: str, files: dict[str, bytes], **settings: object) -> World:
    """files: the board's own."""
    bench = bench_of(kind, device_id="board-1", mode="broker", **settings)
    bench.files = files
    return run(bench, PROGRAM, payload_of(kind), 60)


def test_every_kind_of_board_is_in_the_list():
    folders = {path.parent.name for path in (REPOSITORY / "boards").glob("*/board.json")}
    assert folders - {"UNIX"} == {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_what_flash_copies_publishes_and_feeds_the_watchdog(kind):
    world = watched(kind, {})
    files, watchdog_ms, feeds, longest_ms = json.loads(world.output[-1])
    assert [Path(one).name for one in files] == ["board.mpy", "main.py", "__init__.mpy"]
    first = world.broker.came[0]
    assert first.topic == b"outpost/board-1/data" and b"temperature" in first.payload
    assert watchdog_ms == 8000
    assert feeds >= TURNS and longest_ms < 1000
    assert (world.open_sockets, world.boots, world.broker.violations) == (0, 1, [])


# --- A traceback ---


def source_of(file: str, kind: str) -> Path | None:
    """The file in the repository that a traceback of such a board names: `outpost.client`,
    `main.py`; None for one of the test's own.
    """
    path = source_path(file)
    places = (REPOSITORY / place / path for place in ("firmware", "boards", f"boards/{kind}"))
    found = [place for place in places if place.is_file()]
    return found[0] if found and not Path(file).is_absolute() else None


def function_at(path: Path, line: int) -> str:
    """The innermost function that has the line."""
    functions = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)
    ]
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno).name


def is_call_of(path: Path, line: int, name: str) -> bool:
    """True where a statement on that line calls something of that name, or a callable that is held
    under another one.
    """
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    here = {
        getattr(call.func, "attr", getattr(call.func, "id", ""))
        for call in calls
        if call.lineno == line
    }
    return name in here


def test_a_traceback_names_file_line_and_function_of_the_source():
    kind = "RPI_PICO_W"
    world = watched(kind, {"breaks": b""}, interval_ms=1000)
    said = re.sub('"/[^"]*/compiled/', '"', world.output[-1])
    assert "ValueError: as an example" in said, said
    frames = [(file, int(line), name) for file, line, name in FRAME.findall(said)]
    ours = [(path, line, name) for file, line, name in frames if (path := source_of(file, kind))]
    assert [path.name for path, _, _ in ours][:3] == ["main.py", "main.py", "client.py"]
    assert [function_at(path, line) for path, line, _ in ours] == [name for _, _, name in ours]
    calls = itertools.pairwise(ours)
    assert [
        (path.name, line)
        for (path, line, _), (_, _, called) in calls
        if not is_call_of(path, line, called)
    ] == []
    assert is_call_of(ours[-1][0], ours[-1][1], "write")

# cpython-only: compiles what `outpost flash` copies and runs it under 32-bit MicroPython
"""What `outpost flash` copies, run as it is: the very files of the payload, over fakes with the
ports' names and no others.
"""

import ast
import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from outpost_tools.common.interpreters import find_micropython
from outpost_tools.device import kinds, payload
from paths import BENCH_BOARD, FAKES, REPOSITORY, UNIX_BOARD
from rp2040.tracebacks import source_path

PROGRAM = Path(__file__).with_name("shipped_board.py")
KINDS = ("ESP32_GENERIC", "ESP32_GENERIC_C3", "ESP32_GENERIC_S3", "RPI_PICO2_W", "RPI_PICO_W")
FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
SETTINGS = {
    "device_id": "board-1",
    "broker_host": "broker.test",
    "mode": "broker",
    "wifi_ssid": "home",
    "outbox_blocks": 4,
}
TURNS = 2000  # of 5 ms: longer than the watchdog's 8 s


@pytest.fixture
def micropython():
    """The 32-bit one, with the fakes to import, and without the firmware's sources."""
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    path = os.pathsep.join(map(str, (FAKES, UNIX_BOARD, BENCH_BOARD, ".frozen")))

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "-X", "heapsize=4M", *map(str, words)],
            env=os.environ | {"MICROPYPATH": path}, capture_output=True, text=True, check=False,
            timeout=120,
        )  # fmt: skip

    return run


def put(folder: Path, kind: str) -> None:
    for path, data in payload.build(REPOSITORY, kinds.load(REPOSITORY, kind), "x86").items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def test_every_kind_of_board_is_in_the_list():
    folders = {path.parent.name for path in (REPOSITORY / "boards").glob("*/board.json")}
    assert folders - {"UNIX"} == {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_what_flash_copies_publishes_and_feeds_the_watchdog(tmp_path, micropython, kind):
    put(tmp_path, kind)
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    done = micropython(PROGRAM, kind, tmp_path, TURNS)
    assert done.returncode == 0, done.stdout + done.stderr
    board = json.loads(done.stdout.splitlines()[-1])
    assert board["files"] == ["board.mpy", "main.py", "outpost/__init__.mpy"]
    topic, pack = board["messages"][0]
    assert topic == "outpost/board-1/data" and "temperature" in pack
    assert board["watchdog_ms"] == 8000
    assert board["feeds"] >= TURNS and board["longest_hunger_ms"] < 100
    assert board["open"] == 0


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


def test_a_traceback_names_file_line_and_function_of_the_source(tmp_path, micropython):
    kind = "RPI_PICO_W"
    put(tmp_path, kind)
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS | {"interval_ms": 1000}))
    done = micropython(PROGRAM, kind, tmp_path, TURNS, "break")
    assert done.returncode == 1 and "ValueError: as an example" in done.stderr, (
        done.stdout + done.stderr
    )
    frames = [(file, int(line), name) for file, line, name in FRAME.findall(done.stderr)]
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

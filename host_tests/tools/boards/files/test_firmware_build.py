# cpython-only: it tests the desktop command
"""`outpost build`, and what it compiles: the sources as they are, names and line numbers kept.
test_shipped.py runs it.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from outpost_tools import cli
from outpost_tools.boards.files import firmware_build, payload
from outpost_tools.boards.port import kinds
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_micropython
from paths import REPOSITORY

FIRMWARE = REPOSITORY / "firmware"


def test_every_module_is_compiled_under_its_own_name(tmp_path, capsys):
    assert cli.main(["build", "--arch", "armv6m", "--out", str(tmp_path)]) == 0
    for room in (FIRMWARE / "outpost", FIRMWARE / "station", REPOSITORY / "boards" / "support"):
        sources = {path.relative_to(room).with_suffix(".mpy") for path in room.rglob("*.py")}
        built = tmp_path / room.name
        found = {path.relative_to(built) for path in built.rglob("*.*")}
        assert found == sources and len(sources) > 5
    session = (tmp_path / "outpost" / "session.mpy").read_bytes()
    assert b"on_acknowledged" in session and b"outpost.session" in session
    printed = capsys.readouterr().out
    size = (FIRMWARE / "outpost" / "session.py").stat().st_size
    assert f"outpost/session.py{size:>32}{len(session):>10}" in printed


def test_build_writes_what_flash_copies(tmp_path):
    assert (
        cli.main(["build", "--arch", "armv6m", "--board", "RPI_PICO_W", "--out", str(tmp_path)])
        == 0
    )
    built = {
        f"/{path.relative_to(tmp_path)}": path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    flashed = payload.build(REPOSITORY, kinds.load(REPOSITORY, "RPI_PICO_W"), "armv6m")
    assert flashed.items() < built.items()
    assert built["/main.py"] == (FIRMWARE / "main.py").read_bytes() and "/board.mpy" in built


def test_an_earlier_build_leaves_nothing_in_the_packages_folder(tmp_path):
    for room in ("outpost", "station", "support"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "gone.mpy").write_bytes(b"old")
    assert cli.main(["build", "--arch", "armv6m", "--out", str(tmp_path)]) == 0
    assert not list(tmp_path.rglob("gone.mpy"))


def test_the_mpy_version_is_the_one_that_flash_asks_of_a_board():
    data = firmware_build.compiled("x = 1\n", "x.py", "armv6m")
    assert (data[:1], data[1]) == (b"M", kinds.MPY_VERSION[0])
    viper = "import micropython\n@micropython.viper\ndef f() -> int:\n    return 1\n"
    assert firmware_build.compiled(viper, "x.py", "armv6m")[2] & 3 == kinds.MPY_VERSION[1]


def test_a_syntax_error_is_named_with_its_file_and_line():
    with pytest.raises(ToolError, match=r'outpost/x.py: mpy-cross: .*File "outpost/x.py", line 2'):
        firmware_build.compile_all({"outpost/x.py": "a = 1\ndef f(:\n"}, "armv6m")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--source", "{tmp}"], "no modules"),
        (["--out", "{tmp}/x"], "name it with --arch"),
        (
            ["--arch", "x86", "--out", "{tmp}/x", "--board", "NOBOARD"],
            "boards: BENCH, ESP32_GENERIC, ",
        ),
    ],
)
def test_faults_are_one_line_and_status_2(tmp_path, capsys, arguments, fault):
    assert cli.main(["build", *(word.format(tmp=tmp_path) for word in arguments)]) == 2
    complaint = capsys.readouterr().err
    assert fault in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(("architecture", "mpy_architecture"), [("i386", "x86"), ("amd64", "x64")])
def test_main_publishes_with_the_built_firmware(tmp_path, architecture, mpy_architecture):
    """The UNIX board on real MicroPython against a real broker: readings arrive, it drains and
    exits.
    """
    command = find_micropython(architecture)
    if command is None:
        pytest.skip(f"missing: MicroPython for {architecture}; run `make setup`")
    built, board = tmp_path / "built", tmp_path / "board"
    assert (
        cli.main(["build", "--arch", mpy_architecture, "--out", str(built), "--board", "UNIX"]) == 0
    )
    board.mkdir()
    settings = {
        "device_id": "board-1",
        "broker_host": "127.0.0.1",
        "outbox_blocks": 4,
        "mode": "broker",
    }
    settings |= {"interval_ms": 20, "sensors": ["load"]}
    (board / "simulation.json").write_text(json.dumps({"stop_file": "stop"}))
    with Broker("mosquitto", tmp_path / "broker") as broker:
        (board / "settings.json").write_text(json.dumps({**settings, "broker_port": broker.port}))
        env = {**os.environ, "MICROPYPATH": f"{built}:.frozen"}
        words = [*command, built / "main.py"]
        process = subprocess.Popen(
            words, cwd=board, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        wait_for_readings(board / "journal.txt", process)
        (board / "stop").touch()
        printed, _ = process.communicate(timeout=180)
    assert (process.returncode, printed) == (0, "")
    counters = json.loads((board / "counters.json").read_text())
    assert counters["acknowledged"] >= 5
    assert counters["held"] == counters["next_seq"]


def wait_for_readings(journal: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_text().count("\nok ") >= 5:
            return
        time.sleep(0.05)

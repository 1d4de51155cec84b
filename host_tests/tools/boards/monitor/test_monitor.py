# cpython-only: tests a desktop tool
"""`outpost monitor` and `outpost devices`: what a board prints, what it holds, its messages; and
who is disturbed.
"""

import ast
import json
import os
import re
import threading
import time
import tty
import types

import pytest
import serial
from serial.tools import list_ports

import outpost_command
from flash_rig import SETTINGS
from outpost_tools import cli
from outpost_tools.boards.monitor import watching
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from paths import REPOSITORY
from pty_board import PtyBoard
from real_broker import need_mosquitto, wait_for

pytestmark = pytest.mark.timeout(600)


def flash(rig, **more):
    path = rig.folder / "settings.toml"
    path.write_text(
        "".join(
            f"{key} = {json.dumps(value)}\n"
            for key, value in {**SETTINGS, "outbox_blocks": 8, **more}.items()
        )
    )
    assert rig.outpost("flash", "--settings", path, "--no-link") == 0, rig.err
    wait_for(lambda: rig.is_running_its_program, "its program")
    return path


def monitor(capsys, *words):
    capsys.readouterr()
    status = cli.main(["monitor", *map(str, words)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def shown_until(tmp_path, texts, *words, meanwhile=None):
    """What `outpost monitor` prints, on stdout and stderr, until it has all of these; then it is
    ended."""
    output = tmp_path / "monitor.txt"
    command = outpost_command.line("monitor", *words)
    process = children.start(command, log=output, env=children.tools_environment())
    try:
        if meanwhile:
            wait_for(lambda: "listening at" in output.read_text(), "it listens")
            meanwhile()
        wait_for(lambda: all(one in output.read_text() for one in texts), str(texts))
    finally:
        children.kill(process)
    return output.read_text()


def test_listening_shows_what_is_printed_and_disturbs_nobody(rig, tmp_path, capsys):
    flash(rig)
    starts = len(rig.starts)
    status, _, err = monitor(capsys, "--port", rig.port, "--seconds", 1)
    assert status == 0 and len(rig.starts) == starts and rig.is_running_its_program
    assert err.startswith(f"listening at {rig.port}; Ctrl-C ends.")
    shown_until(tmp_path, ["started, boot"], "--port", rig.port, meanwhile=rig.power_cut)


def test_a_reader_of_its_output_that_goes_is_not_taken_for_a_board_that_went():
    board, port = os.openpty()
    tty.setraw(port)

    def tell(_):
        raise BrokenPipeError

    printing = threading.Timer(0.5, os.write, (board, b"a line\n"))  # what comes at once is lost
    printing.start()
    with pytest.raises(BrokenPipeError):
        watching.listen(os.ttyname(port), time.monotonic() + 10, tell)
    printing.join()
    os.close(board)
    os.close(port)


def test_what_has_no_end_of_line_is_shown_all_the_same(tmp_path, capsys):
    """Of a board at another speed, or of what is none: it would be kept for ever, and be searched
    from its beginning each time more comes."""
    with PtyBoard([], tmp_path, "", "") as board:
        stop = threading.Event()

        def talk():
            while not stop.is_set():
                board.send(b"U" * 512)
                stop.wait(0.001)

        talker = threading.Thread(target=talk)
        talker.start()
        try:
            text = shown_until(tmp_path, ["U" * 4096], "--port", board.port)
        finally:
            stop.set()
            talker.join()
    assert max(map(len, text.splitlines())) < 16_000


@pytest.mark.long
def test_a_crash_is_shown_with_its_reason(rig, tmp_path):
    flash(rig)
    rig.mpremote(
        "exec", "f = open('/board.py', 'w'); f.write('import nothing_of_that_name'); f.close()"
    )
    reason = "ImportError: no module named 'nothing_of_that_name'"
    shown_until(tmp_path, [reason], "--port", rig.port, meanwhile=rig.power_cut)


@pytest.mark.long
def test_a_traceback_is_that_of_the_repository_and_its_controls_are_visible(rig, tmp_path):
    """As flash installs it now: module, line and function of the source."""
    flash(rig)
    fault = "def fail(*_):\n  raise ValueError('as an example' + chr(27) + '[2J')\n"
    text = f"import station.station as s\n{fault}s.Station.measure = fail\n"
    text += "import main_\nmain_.main()\n"
    rig.mpremote("exec", "import os; os.rename('/main.py', '/main_.py')")
    rig.mpremote("exec", f"f = open('/main.py', 'w'); f.write({text!r}); f.close()")
    reason = "ValueError: as an example\\x1b[2J"
    out = shown_until(tmp_path, [reason], "--port", rig.port, meanwhile=rig.power_cut)
    frames = re.findall(r'File "(station\.station)", line (\d+), in (\w+)', out)
    assert frames, out
    assert "\x1b" not in out
    for _, line, function in frames:
        source = ast.parse((REPOSITORY / "firmware" / "station" / "station.py").read_text())
        (found,) = (
            node for node in ast.walk(source)
            if isinstance(node, ast.FunctionDef) and node.lineno <= int(line) <= node.end_lineno
        )  # fmt: skip
        assert found.name == function


@pytest.mark.long
def test_looking_tells_fill_and_crash_and_the_program_goes_on(rig, capsys):
    flash(rig)
    rig.mpremote(
        "exec",
        "f = open('/crash.txt', 'w'); f.write('Traceback:\\nValueError: a reason\\x1b[2J')\n"
        "f.close()",
    )
    status, out, _ = monitor(capsys, "--port", rig.port, "--look")
    assert status == 0, out
    assert (
        "outpost    0.1.0 for RIG" in out
        and "ValueError: a reason\\x1b[2J" in out
        and "bytes of heap" in out
    )
    assert int(out.split(" messages held in 8 blocks")[0].split()[-1]) > 0
    wait_for(lambda: rig.is_running_its_program, "its program again")


def test_looking_at_a_board_without_outpost(rig, capsys):
    status, out, _ = monitor(capsys, "--port", rig.port, "--look")
    assert status == 0 and "not installed by `outpost flash`" in out and "crash.txt  none" in out


def test_following_at_the_broker_shows_the_counters(rig, tmp_path):
    need_mosquitto()
    port = children.free_port()
    path = flash(rig, broker_port=port)
    starts = len(rig.starts)
    with Broker("mosquitto", tmp_path / "broker", port=port):
        expected = ("following outpost/rig-1/data", "held before it: count ", ", boot ")
        shown_until(tmp_path, expected, "--settings", path)
    assert len(rig.starts) == starts


def test_faults_are_one_line(rig, tmp_path, capsys):
    (tmp_path / "s.toml").write_text(
        'device_id = "a"\nbroker_host = "127.0.0.1"\nbroker_port = 1\n'
    )
    status, _, err = monitor(capsys, "--settings", tmp_path / "s.toml", "--seconds", 1)
    assert status == 2 and "127.0.0.1:1: the broker does not answer" in err and err.count("\n") == 2
    assert err.startswith("connecting to 127.0.0.1:1\n")
    status, _, err = monitor(capsys, "--port", tmp_path / "nothing", "--seconds", 1)
    assert status == 2 and "no such port" in err
    status, _, err = monitor(capsys, "--port", tmp_path / "s.toml", "--seconds", 1)
    assert status == 2 and "is not a serial port; `outpost devices`" in err
    with serial.Serial(rig.port, exclusive=True):
        status, _, err = monitor(capsys, "--port", rig.port, "--seconds", 1)
    assert status == 2 and "in use by another program" in err


def plugged_in(monkeypatch, *ports):
    found = [
        types.SimpleNamespace(device=port, vid=vid, pid=5, description="Board in FS mode")
        for port, vid in ports
    ]
    monkeypatch.setattr(list_ports, "comports", lambda: found)


def devices(capsys, *words):
    capsys.readouterr()
    assert cli.main(["devices", *words]) == 0
    return capsys.readouterr().out


def test_devices_are_listed_and_probed_when_asked(rig, monkeypatch, capsys):
    plugged_in(monkeypatch, (rig.port, 0x2E8A), ("/dev/ttyS0", None), ("/dev/ttyX", 0x1A86))
    starts = len(rig.starts)
    out = devices(capsys)
    assert (
        f"{rig.port} " in out
        and "Raspberry Pi (Pico), Board in FS mode, 2e8a:0005" in out
        and "CH340" in out
    )
    assert "ttyS0" not in out and len(rig.starts) == starts
    assert "not installed by `outpost flash`" in devices(capsys, "--probe")
    flash(rig)
    out = devices(capsys, "--probe")
    assert (
        "board: micropython 1.25.0 on linux" in out
        and "outpost: 0.1.0 for RIG" in out
        and "/dev/ttyX: no such port" in out
    )
    wait_for(lambda: rig.is_running_its_program, "its program again")


def test_nothing_plugged_in(monkeypatch, capsys):
    plugged_in(monkeypatch)
    assert "no USB device with a serial port" in devices(capsys)


def test_a_port_in_use_is_said_so_and_one_that_is_let_go_is_taken(rig, capsys):
    with serial.Serial(rig.port, exclusive=True) as other:
        status, _, err = monitor(capsys, "--port", rig.port, "--look")
        assert status == 2 and "in use by another program; close it" in err and err.count("\n") == 1
        threading.Timer(0.5, other.close).start()
        assert monitor(capsys, "--port", rig.port, "--look")[0] == 0

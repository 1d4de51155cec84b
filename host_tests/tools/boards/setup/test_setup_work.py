# cpython-only: tests a desktop tool
"""Work on a board that the page starts: the real worker, real MicroPython behind a
pseudo-terminal."""

import json
import os
import subprocess

import pytest

from flash_rig import SETTINGS, Rig
from outpost_tools.boards.setup import jobs
from outpost_tools.machine import children
from paths import REPOSITORY, RIGS
from real_broker import wait_for
from setup_server import SetupServer

RIG = str(RIGS / "rig_board")


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    with Rig(tmp_path_factory.mktemp("board") / "rig", REPOSITORY) as board:
        yield board


@pytest.fixture
def server(board, tmp_path):
    with SetupServer(tmp_path, "--port", board.port, "--board", RIG) as server:
        server.enter()
        yield server


def order(board, task, **more):
    """As the page sends it: no broker, so nothing is installed to the end."""
    values = {"device_id": "rig-1", "broker_host": "127.0.0.1", "broker_port": "1"}
    made = {"values": values | {"mode": "broker"}, "own": ["count"]}
    return {"task": task, "port": board.port, "board": RIG, "form": made} | more


def test_a_board_says_what_it_is_and_another_kind_is_refused(server, board):
    lines = server.finished(server.post("jobs", order(board, "kind"))["job"])
    assert {"kind": RIG} in lines and lines[-1] == {"end": "good"}
    wrong = order(board, "check") | {"board": "RPI_PICO_W"}
    wrong["form"]["networks"] = [{"ssid": "Home"}]
    wrong["form"]["own"] = ["temperature"]
    last = server.finished(server.post("jobs", wrong)["job"])[-1]
    assert last["end"] == "error" and "not RPI_PICO_W" in last["text"]


def test_a_check_changes_nothing_and_the_port_is_busy_meanwhile(server, board):
    board.mpremote("exec", "1")
    before = board.image.read_bytes()
    number = server.post("jobs", order(board, "check"))["job"]
    refused = server.post("jobs", order(board, "flash"))
    assert refused == {
        "error": f"{board.port}: work on this board is going on; wait until it is done"
    }
    lines = server.finished(number)
    rows = {line["row"]: line["text"] for line in lines if line.get("row")}
    assert lines[-1] == {"end": "good"} and "nothing was changed" in rows["dry run"]
    assert "to copy" in rows["files"] and board.image.read_bytes() == before


def test_ctrl_c_interrupts_a_flash_as_it_interrupts_outpost_flash(server, board):
    number = server.post("jobs", order(board, "flash"))["job"]
    wait_for(
        lambda: any("copying" in line.get("note", "") for line in job_lines(server, number)),
        "files on their way",
    )
    starts = len(board.starts)
    assert server.interrupt() == 130
    said = server.text()
    assert f"{board.port}: interrupting; the board's program starts again first" in said
    assert "interrupted; the board's program was started again" in said
    wait_for(lambda: "main" in board.starts[starts:], "the board's program starts again")
    assert "Traceback" not in said


def job_lines(server, number):
    return server.get(f"jobs/{number}")["lines"]


def test_work_goes_on_when_nobody_reads_what_it_says(board):
    """The browser is closed, and `outpost setup` killed with its terminal."""
    given = SETTINGS | {"device_id": "unheard", "outbox_blocks": 16}
    sent = {"task": "provision", "dry_run": False, "board": RIG, "port": board.port, "given": given,
            "ca": "", "folder": "/", "replace": False, "held": ""}  # fmt: skip
    reading, writing = os.pipe()
    process = subprocess.Popen(
        jobs.WORKER, stdin=subprocess.PIPE, stdout=writing, stderr=writing,
        env=children.tools_environment(), start_new_session=True,
    )  # fmt: skip
    os.close(reading)
    os.close(writing)
    process.communicate(json.dumps(sent).encode() + b"\n", timeout=120)
    assert '"device_id": "unheard"' in board.mpremote("cat", ":/settings.json")

# cpython-only: runs a desktop tool as a process, with real mosquitto
"""`outpost run`: one command to values on the page; killed at seeded random moments nothing is
lost; what ends is started again; ends in order.

OUTPOST_HOME_KILLS is how often it is killed (`make kills-run`: 20), OUTPOST_HOME_SEED when.
"""

import os
import random
import signal
import socket
import sys
import threading
import time

import pytest

import outpost_command
from collector_process import wait_until
from home_run import Board, Home
from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.machine import children, java, needs
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.servers.home import job_notes
from outpost_tools.servers.home import jobs as jobs_module
from outpost_tools.servers.home import plan as plan_module
from outpost_tools.servers.home.jobs import Job, Jobs
from outpost_tools.servers.home.plan import Plan, Wish, plan
from outpost_tools.servers.home.process import Process, pause_s
from outpost_tools.servers.home.state import State
from outpost_tools.servers.home.supervisor import Supervisor

KILLS = int(os.environ.get("OUTPOST_HOME_KILLS", "3"))
SEED = int(os.environ.get("OUTPOST_HOME_SEED", "1"))
MESSAGES = 150 * KILLS

pytestmark = pytest.mark.skipif(
    find_mosquitto() is None, reason="missing: mosquitto; run `make setup`"
)


@pytest.mark.long
def test_killed_at_random_moments_nothing_is_lost_and_it_goes_on_where_it_was(tmp_path):
    """The whole group by SIGKILL; then each child of it; then its orderly end."""
    home, moments = Home(tmp_path), random.Random(SEED)
    home.start()
    try:
        home.wait_for("ready")
        assert "outpost broker add" in home.text()
        with Board(home.add_board("kitchen"), MESSAGES) as board:
            for number in range(KILLS):
                home.wait_for("ready", times=number + 1)
                began = board.confirmed
                wait_until(
                    lambda began=began: board.confirmed > began or board.measured == MESSAGES
                )
                time.sleep(moments.random())
                home.kill()
                time.sleep(moments.random() / 4)
                home.start()
            home.wait_for("ready", times=KILLS + 1)
            for name in ("mosquitto", "collect", "live"):
                os.kill(home.child(name), signal.SIGKILL)
            home.wait_for("ended with signal 9; starts again in 1 s", times=3)
            board.wait_until_confirmed()
        # the last one may be read before one that was sent again
        wait_until(lambda: f">{MESSAGES - 1}<" in (page := home.page()) and " lost" not in page)
        assert home.terminate() == 0
        assert home.stored() == set(range(MESSAGES))
        assert home.text().rstrip().endswith("ended")
        assert "Traceback" not in home.text()
    finally:
        children.kill(home.process)


def test_a_second_one_in_the_same_folder_is_refused_and_a_wrong_one_says_what_to_do(tmp_path):
    state = State(tmp_path / "home")
    state.take()
    done = outpost_command.run("run", tmp_path / "home", "--broker", "127.0.0.1:1")
    assert done.returncode == 2 and "another `outpost run`" in done.stderr
    for words, said in (
        (["--broker", "h:1", "--credentials", "x"], "one of them"),
        (["--broker", "h:1", "--host", "x"], "Outpost's own broker"),
        (["--host", "a b"], "--host 'a b'"),
        (["--listen", "0.0.0.0:80"], "--password-file"),
    ):
        args = cli.build_parser("run").parse_args(["run", str(tmp_path / "other"), *words])
        with pytest.raises(ToolError, match=said):
            args.func(args)
    assert not (tmp_path / "other").exists()


def test_a_child_that_dies_is_started_again_at_growing_distances():
    assert [pause_s(failures) for failures in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pause_s(10_000) == 60
    said = []
    child = Process("x", [sys.executable, "-c", "print('why'); raise SystemExit(3)"], said.append)
    child.start()
    wait_until(lambda: child.turn() or sum("status 3" in one for one in said) == 2)
    ends = [one for one in said if "status 3" in one]
    assert ends == [
        "x: ended with status 3; starts again in 1 s",
        "x: ended with status 3; starts again in 2 s",
    ]
    assert said.count("x: why") == 2
    child.stop()
    missing = Process("y", ["/nowhere/program"], said.append)
    missing.start()
    assert "cannot be started: No such file" in said[-1]


def test_jobs_run_one_at_a_time_and_tell_a_failure_once(tmp_path):
    said, runs = [], []
    put = f"open({str(tmp_path / 'a')!r}, 'a').write"
    work = f"import time; {put}('<'); time.sleep(0.05); {put}('>')"
    good = [[sys.executable, "-c", work]] * 2
    bad = [[sys.executable, "-c", f"{work}; print('no room'); raise SystemExit(2)"], ["never"]]

    def commands_of_bad():
        runs.append(time.monotonic())
        return [list(one) for one in bad]

    jobs = Jobs(
        [
            Job("good", 1e9, lambda: [list(one) for one in good], first_s=0),
            Job("bad", 0.01, commands_of_bad, first_s=0),
            Job("nothing", 1e9, list, first_s=0),
        ],
        tmp_path,
        said.append,
    )
    wait_until(lambda: jobs.turn() or len(runs) >= 3)
    jobs.stop()
    text = (tmp_path / "a").read_text()
    assert text.startswith("<><><><>") and "<<" not in text and ">>" not in text
    assert [one for one in said if one.startswith("good: done in ")] and len(said) == 2
    assert "bad: failed (status 2): no room" in said[1] and "bad.txt" in said[1]


@pytest.mark.parametrize(("status", "goes_on"), [(1, True), (2, False)])
def test_what_follows_a_command_that_found_trouble_runs(status, goes_on, tmp_path):
    """Two boards with one identity were in no report: `pipeline run` ends with 1 for them. A
    damaged segment ended the export of three days with the first."""
    said, reported = [], tmp_path / "reported"
    commands = [["sh", "-c", f"echo two boards; exit {status}"], ["touch", str(reported)]]
    jobs = Jobs([Job("tables", 1e9, lambda: commands, first_s=0)], tmp_path, said.append)
    wait_until(lambda: jobs.turn() or said)
    assert said[0].startswith(f"tables: failed (status {status}): two boards; ")
    assert reported.exists() is goes_on


def test_a_job_that_failed_runs_again_without_anything_new(tmp_path):
    """The disk was full when the tables were due, and no board has sent since."""
    said, done = [], tmp_path / "done"
    script = f"echo x >> {done}; test $(wc -l < {done}) -ge 3"
    new = [[["sh", "-c", script]]]
    job = Job("tables", 0.01, lambda: new.pop() if new else [], first_s=0)
    jobs = Jobs([job], tmp_path, said.append)
    wait_until(lambda: jobs.turn() or any("done" in line for line in said))
    for _ in range(10):  # and then no more
        time.sleep(0.02)
        jobs.turn()
    assert done.read_text() == "x\n" * 3 and not job.again
    assert [line.split(" in ")[0].split(":")[1] for line in said] == [" failed (status 1)", " done"]


def test_a_failed_job_is_noted_until_it_succeeds_also_over_a_restart(tmp_path):
    """Nobody saw it but who read the output of `outpost run`."""
    mended = tmp_path / "mended"
    job = [["sh", "-c", f"test -e {mended} || {{ echo no room; exit 2; }}"]]

    def jobs(*names):
        said = []
        due = [Job(name, 1e9, lambda: list(job), first_s=0) for name in names]
        made = Jobs(due, tmp_path, said.append)
        wait_until(lambda: made.turn() or len(said) >= len(names))

    jobs("tables", "export")
    wanted = {"tables": "status 2: no room", "export": "status 2: no room"}
    assert job_notes.read(tmp_path) == wanted
    mended.touch()
    jobs("tables")  # an export that is not wished any more has not failed
    assert job_notes.read(tmp_path) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"tables": 1}', "[" * 100_000, "\0"])
def test_a_note_that_is_none_of_ours_says_nothing(text, tmp_path):
    (tmp_path / "failed.json").write_text(text)
    assert job_notes.read(tmp_path) == {}


def test_a_job_with_nothing_to_do_is_asked_again_soon(tmp_path, monkeypatch):
    """The first data came after its first turn: the tables came 15 minutes later."""
    monkeypatch.setattr(jobs_module, "_AGAIN_S", 0.0)
    said, asked = [], []
    jobs = Jobs(
        [Job("tables", 1e9, lambda: asked.append(0) or [["true"]][: len(asked) > 2], first_s=0)],
        tmp_path,
        said.append,
    )
    wait_until(lambda: jobs.turn() or said)
    assert said[0].startswith("tables: done in") and len(asked) == 3


def test_tables_are_due_when_any_collector_has_a_new_segment(tmp_path, monkeypatch):
    """Another --id, as the collector advises for a restored disk, counts its segments from 0."""
    monkeypatch.setattr(plan_module.needs, "check", lambda *_: None)
    state = State(tmp_path / "home")
    state.take()
    wish = Wish(state, [], None, ["--broker", "h:1"], [], "http://127.0.0.1:1/", 15, 1)
    (tables,) = (job for job in plan(wish).jobs if job.name == "tables")
    assert not tables.commands()
    for collector, number in (("collector-1", 41), ("restored", 0), ("restored", 1)):
        folder = state.log / collector
        folder.mkdir(exist_ok=True)
        (folder / f"segment-{number:012d}.seg").touch()
        assert len(tables.commands()) == 2
        assert not tables.commands()


def test_a_full_disk_ends_no_job_and_not_the_program(tmp_path):
    said = []
    jobs = Jobs([Job("tables", 1e9, lambda: [["true"]], first_s=0)], tmp_path / "gone", said.append)
    jobs.turn()
    assert said[0].startswith("tables: ") and "No such file" in said[0]
    jobs.turn()  # goes on


def test_tables_need_no_java_and_no_spark(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "environment", _absent)
    made = plan(a_wish(tmp_path))
    assert [job.name for job in made.jobs] == ["tables", "compaction", "export"]


def test_without_the_packages_of_tables_it_says_so_once_and_runs_the_rest(tmp_path, monkeypatch):
    monkeypatch.setitem(needs.EXTRAS, "tables", ("no_such_package",))
    made = plan(a_wish(tmp_path))
    assert sum("not installed: no_such_package" in line for line in made.told) == 1
    assert [job.name for job in made.jobs] == ["export"]
    assert list(made.commands) == ["collector", "page"]
    for command in made.commands.values():  # all of it is a command of ours
        cli.build_parser(command[3]).parse_args(command[3:])


def _absent():
    raise ToolError("no Java found: run `outpost fetch java`")


def a_wish(tmp_path):
    state = State(tmp_path / "home")
    state.take()
    return Wish(state, [], None, ["--broker", "h:1"], [], "http://127.0.0.1:1/", 15, 1)


def test_a_folder_that_is_gone_is_told_once_and_ends_nothing(tmp_path, capsys):
    wish = Wish(State(tmp_path / "gone"), [], None, ["--broker", "h:1"], [], "", 0, 1)
    supervisor = Supervisor(wish, Plan({}, [], []))
    for _ in range(2):
        supervisor._look_at_disk()
    assert capsys.readouterr().err.count(f"{tmp_path / 'gone'}: No such file or directory") == 1


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nok\n", ""),
        (b"HTTP/1.0 503 Busy\r\n\r\nthe disk is full\n", "the disk is full"),
        (b"SSH-2.0-somebody else\r\n", "the collector does not answer yet"),
    ],
)
def test_the_collectors_health_is_asked_for_directly(answer, trouble, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply():
            with listener.accept()[0] as one:
                one.recv(4096)
                one.sendall(answer)

        replying = threading.Thread(target=reply, daemon=True)
        replying.start()
        state, port = State(tmp_path), listener.getsockname()[1]
        wish = Wish(state, [], None, ["--broker", "h:1"], [], "http://127.0.0.1:1/", 0, port)
        assert Supervisor(wish, Plan({}, [], []))._trouble() == trouble
        replying.join(120)

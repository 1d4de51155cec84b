# cpython-only: a desktop tool
"""Mistakes at `outpost run`: each is told at once, names what was wrong and what to do, and nothing
of it is kept.
"""

import getpass
import os
import socket
import sys

import pytest

from outpost_tools import cli
from outpost_tools.boards.broker.folder import Folder
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import own_user
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_mosquitto
from outpost_tools.servers.home import own_broker, ports, process
from outpost_tools.servers.home.ports import Taken, Wanted
from outpost_tools.servers.home.process import Process
from outpost_tools.servers.home.state import State

pytestmark = pytest.mark.skipif(
    find_mosquitto() is None, reason="missing: mosquitto; run `make setup`"
)


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(ports, "_WAIT_S", 0.2)
    monkeypatch.setattr(ports.check, "__defaults__", (0.2,))


@pytest.mark.parametrize(
    ("option", "what"),
    [("--port", "the broker"), ("--listen", "the page"), ("--metrics-port", "metrics")],
)
def test_a_port_in_use_is_told_with_its_option_and_is_not_kept(
    tmp_path, capsys, taken, impatient, option, what
):
    """mosquitto said `Address already in use` without the port, and the folder kept it."""
    free = {
        "--port": children.free_port(),
        "--listen": f"127.0.0.1:{children.free_port()}",
        "--metrics-port": children.free_port(),
    }
    free[option] = f"127.0.0.1:{taken}" if option == "--listen" else taken
    words = [str(word) for pair in free.items() for word in pair]
    assert cli.main(["run", str(tmp_path / "home"), "--host", "127.0.0.1", *words]) == 1
    said = capsys.readouterr().err
    assert f"{what} cannot have port {taken}: another program has it" in said
    assert f"give another one with {option}" in said
    assert not Folder(tmp_path / "home" / "broker").is_made


def test_a_port_that_gets_free_is_waited_for(taken):
    """The children of one that was killed a moment ago."""
    with pytest.raises(Taken):
        ports.check([Wanted("x", "--x", "127.0.0.1", taken)], wait_s=0)
    wanted = Wanted("x", "--x", "127.0.0.1", children.free_port())
    listener = socket.create_server(("127.0.0.1", wanted.port))
    problems = []

    class Freed(Wanted):
        def problem(self):
            found = super().problem()
            problems.append(found)
            listener.close()
            return found

    ports.check([Freed("x", "--x", "127.0.0.1", wanted.port)], wait_s=60)
    assert [one is None for one in problems] == [False, True]


def test_a_wrong_address_and_a_port_given_twice_are_told(taken):
    with pytest.raises(Taken, match=r"192\.0\.2\.77 is not an address of this machine"):
        ports.check([Wanted("the page", "--listen", "192.0.2.77", 8180)])
    port = children.free_port()
    pair = [Wanted(what, f"--{what}", "127.0.0.1", port) for what in ("a", "b")]
    with pytest.raises(ToolError, match=f"--b: a has port {port} already"):
        ports.check(pair)


def test_wrong_arguments_of_the_collector_are_told_at_once(tmp_path, capsys):
    """They were told by a child that was started again for ever."""
    home = str(tmp_path / "home")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["run", home, "--collect=--quite"])
    assert stopped.value.code == 2
    assert "arguments: --quite; --quite: did you mean --quiet?" in capsys.readouterr().err
    assert cli.main(["run", home, "--credentials", str(tmp_path / "fleet")]) == 2
    assert "fleet: cannot be read: No such file" in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_a_folder_that_is_none_or_not_ours_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="file: is a file; give the name of a folder"):
        State(tmp_path / "file").take()
    with pytest.raises(ToolError, match="Not a directory; give a folder"):
        State(tmp_path / "file" / "home").take()
    # root may write anywhere: what the kernel would say to another user
    theirs = tmp_path / "home" / "log" / "collector-1"
    theirs.mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: path != theirs)
    with pytest.raises(ToolError, match="collector-1: Permission denied; give a folder that"):
        State(tmp_path / "home").take()


def test_the_folder_of_outpost_run_leads_to_its_brokers(tmp_path, capsys):
    home = tmp_path / "home"
    init = ["broker", "init", str(home / "broker"), "--host", "127.0.0.1"]
    init += ["--user", getpass.getuser()]
    assert cli.main(init) == 0
    capsys.readouterr()
    for words in (
        ["broker", "add", str(home), "kitchen"],
        ["provision", "--example", "--credentials", str(home)],
    ):
        assert cli.main(words) == 2
        assert f"the broker's folder is {home / 'broker'}" in capsys.readouterr().err


def test_a_user_without_a_name_has_a_broker_too(tmp_path, monkeypatch):
    """As in the container: it ended in a traceback."""
    nobody = 54_321
    monkeypatch.setattr(os, "geteuid", lambda: nobody)
    assert own_user() == str(nobody)
    wanted = own_broker.listener(tmp_path / "broker", ["127.0.0.1"], None)
    assert (wanted.host, wanted.port) == ("127.0.0.1", 8883)


def test_mosquittos_lines_have_one_time_and_no_advice_for_us():
    said = []
    lines = (
        "1795407846: Note: It is recommended to replace `message_size_limit`.",
        "1795407846: New connection from 127.0.0.1:1 on port 2.",
        "1795407847: Client kitchen disconnected, not authorised.",
    )
    code = f"print({chr(10).join(lines)!r})"
    child = Process("broker", [sys.executable, "-c", code], said.append)
    child.start()
    assert child._reader is not None
    child._reader.join(process._STEADY_S)
    assert said == ["broker: Client kitchen disconnected, not authorised."]
    child.stop()

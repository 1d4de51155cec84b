# cpython-only: runs desktop tools as processes
"""`outpost run --sources`: each reader of other people's messages gets the file."""

from pathlib import Path

import pytest

import outpost_command
from collector_process import wait_until
from foreign_house import house
from live_server import Server
from outpost_tools import cli
from outpost_tools.loopback.broker import ANY_USER
from outpost_tools.machine import children
from outpost_tools.readings.sources import ready_files
from outpost_tools.servers.home import plan as plan_module
from outpost_tools.servers.home.plan import Wish, plan
from outpost_tools.servers.home.state import State

pytestmark = pytest.mark.timeout(300)


def test_collector_page_and_tables_get_the_file_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module.needs, "check", lambda *_: None)
    state = State(tmp_path / "home")
    state.take()
    (state.log / "c1").mkdir()
    (state.log / "c1" / "segment-000000000000.seg").touch()
    option = ["--sources", "/x/sources.toml"]
    broker = ["--broker", "h:1"]
    wish = Wish(state, [], None, broker, [], "http://127.0.0.1:1/", 15, 1, sources=option)
    made = plan(wish)
    of_jobs = [command for job in made.jobs for command in job.commands()]
    with_it = [
        next(word for word in command[3:] if not word.startswith("-"))
        for command in (*made.commands.values(), *of_jobs)
        if any(command[at : at + 2] == option for at in range(len(command)))
    ]
    assert with_it == ["collect", "live", "pipeline"]


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "cannot be read"), ("[[source]]\nname = 1\n", "sources.toml")],
)
def test_a_file_that_is_not_right_is_told_before_anything_is_made(text, says, tmp_path, capsys):
    path: Path = tmp_path / "sources.toml"
    if text is not None:
        path.write_text(text)
    state = tmp_path / "home"
    words = ["run", str(state), "--broker", "127.0.0.1:1", "--sources", str(path)]
    assert cli.main(words) == 2
    assert says in capsys.readouterr().err and not state.exists()


def test_its_own_broker_has_no_messages_of_other_people(tmp_path, capsys):
    path, state = tmp_path / "sources.toml", tmp_path / "home"
    path.write_text(ready_files.text("tasmota"))
    assert cli.main(["run", str(state), "--sources", str(path)]) == 2
    assert "give that as --broker HOST:PORT" in capsys.readouterr().err
    assert not state.exists()


def test_outpost_run_passes_the_file_on(tmp_path):
    page_port, metrics_port = children.free_port(), children.free_port()
    with house(tmp_path) as home:
        command = outpost_command.line(
            "run", tmp_path / "home", "--broker", f"127.0.0.1:{home.port}",
            f"--collect=--user={ANY_USER}", "--sources", home.sources, "--minutes", "0",
            "--listen", f"127.0.0.1:{page_port}", "--metrics-port", metrics_port,
        )  # fmt: skip
        output = tmp_path / "run.txt"
        process = children.start(command, log=output, env=children.tools_environment())
        try:
            seen = Server(tmp_path, tmp_path)  # only to read the page
            seen.url, seen.port = f"http://127.0.0.1:{page_port}", page_port
            wait_until(lambda: "ready" in output.read_text())
            with home.publishing():
                for name in ("washer", "cellar", "attic"):
                    seen.wait_for(f'data-name="{name}"')
                seen.wait_for("temperature as a table", "/board/other:cellar")
            assert "last known" in seen.text("/board/other:attic")
        finally:
            children.stop(process)
    assert "Traceback" not in output.read_text()

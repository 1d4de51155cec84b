# cpython-only: starts a broker and interpreters
"""firmware/README.md, "Without a board": the program as printed, with nothing but the library on
its path. Each start goes on with the flash of the one before, also of one that was killed."""

import os
import subprocess
import sys

import pytest

from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import children
from outpost_tools.machine.interpreters import find_micropython
from paths import FIRMWARE, STUBS, joined
from test_readme_program import MESSAGE, Listener

PAGE = (FIRMWARE / "README.md").read_text(encoding="utf-8")
PROGRAM = PAGE.split("<!-- plain.py -->\n```python\n")[1].split("```")[0]
PUBLISHES = PROGRAM.split("while not")[0]


@pytest.fixture(params=["c", "m"])
def start(request, tmp_path):
    """start(text, port) runs a program, and returns what subprocess.run() does."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "outpost").symlink_to(FIRMWARE / "outpost")
    command, environment = [sys.executable], {"PYTHONPATH": joined(library, STUBS)}
    if request.param == "m":
        command, environment = find_micropython("i386"), {"MICROPYPATH": joined(library, ".frozen")}
        if command is None:
            pytest.skip("missing: MicroPython for i386; run `make setup`")

    def run(text, port):
        (tmp_path / "plain.py").write_text(text.replace("1883", str(port)))
        return subprocess.run(
            [*command, "plain.py"], cwd=tmp_path, env={**os.environ, **environment},
            capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip

    return run


def test_each_start_sends_its_message_and_what_a_killed_one_left(start, tmp_path):
    assert start(PUBLISHES + "\nimport sys\nsys.exit(9)\n", children.free_port()).returncode == 9
    with Broker("mosquitto", tmp_path / "broker") as broker:
        listener = Listener(broker.port)
        try:
            for count in (2, 3):
                done = start(PROGRAM, broker.port)
                assert done.returncode == 0, done.stderr
                assert listener.all() == [MESSAGE] * count
        finally:
            listener.close()
    assert (tmp_path / "flash.img").stat().st_size == 16 * 4096

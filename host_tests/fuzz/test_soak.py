# cpython-only: it drives the interpreter from outside
"""The short form of the soak: two simulated months in each mode, and a proof that it can fail."""

import re
import shutil
import subprocess
import sys

import pytest

import soak
from outpost_tools.machine.interpreters import find_micropython
from paths import FIRMWARE, FUZZ, library_module


class Quiet:
    """Replaces the progress bar."""

    def update(self, days):
        pass


@pytest.fixture
def micropython():
    command = find_micropython("i386")
    if command is None:
        pytest.skip("missing MicroPython for i386: run `make setup`")
    return command


@pytest.mark.long
@pytest.mark.parametrize("mode", soak.MODES)
def test_two_months(micropython, mode):
    report = soak.soak(micropython, 60, 60, 3, mode, Quiet())
    assert report["messages"] == report["arrived"] > 80_000
    assert report["heap for a message, gross"] == 0
    assert report["outages"] > 5 and report["power cuts"] > 5
    assert report["erases a message"] < 0.0265


@pytest.mark.parametrize(
    ("module", "old", "new", "complaint"),
    [
        (
            "outbox",
            "self.oldest_seq = seq + 1",
            "self.oldest_seq = seq + 2",
            "missing|freed|AssertionError",
        ),
        (
            "session",
            "        self.sent += 1",
            "        self.sent += 1\n        bytes(20)",
            "bytes of heap",
        ),
        (
            "ring",
            "block = (block + 1) % self.blocks\n            if block not",
            "block = 1 - block\n            if block not",
            "AssertionError",
        ),
    ],
    ids=["frees what is not done with", "takes heap", "wears two blocks out"],
)
def test_it_finds(micropython, tmp_path, monkeypatch, module, old, new, complaint):
    shutil.copytree(FIRMWARE, tmp_path / "firmware")
    source = tmp_path / "firmware" / library_module(module).relative_to(FIRMWARE)
    assert old in source.read_text()
    source.write_text(source.read_text().replace(old, new, 1))
    monkeypatch.setattr(soak, "_PATHS", (str(tmp_path / "firmware"), *soak._PATHS[1:]))
    with pytest.raises(soak.Fault, match=complaint) as caught:
        soak.soak(micropython, 20, 60, 3, "broker", Quiet())
    assert re.search("again: .* broker", str(caught.value))


def test_the_command(micropython):
    done = subprocess.run(
        [sys.executable, str(FUZZ / "soak.py"), "--years", "0.02", "--interval", "60"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and "erases a message" in done.stdout, done.stderr

# cpython-only: text of the desktop tools
"""What others wrote is printed with its control characters visible, by every command."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from message_samples import pack
from outpost_tools import cli
from outpost_tools.boards.monitor import following
from outpost_tools.errors import ToolError
from outpost_tools.text.visible import guarded, unguarded, visible, visible_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain °C 温", "plain °C 温"),
        ("\x1b[2J", "\\x1b[2J"),
        ("one\ntwo\ttab\r", "one\\ntwo\\ttab\\r"),
        ("\u202egnp.exe", "\\u202egnp.exe"),  # turns the direction of text
        ("\x9b31m\x07", "\\x9b31m\\x07"),
        ("\udc80", "\\udc80"),
        (b"\xff\x1b", "\ufffd\\x1b"),
    ],
)
def test_controls_are_shown(text, shown):
    assert visible(text) == shown


def test_line_breaks_of_our_own_pass():
    assert visible_lines("name\tvalue\n\x1b]0;title\x07\n") == "name\tvalue\n\\x1b]0;title\\x07\n"


def test_whatever_a_command_prints_is_guarded(capsys):
    before = sys.stdout, sys.stderr
    with guarded():
        print("\x1b[31m", file=sys.stderr)
        sys.stdout.writelines(["a\x07", "\n"])
        print("cursor\r", end="", file=unguarded(sys.stdout), flush=True)
        assert sys.stdout.encoding == before[0].encoding
    assert (sys.stdout, sys.stderr) == before
    printed = capsys.readouterr()
    assert printed.err == "\\x1b[31m\n" and printed.out == "a\\x07\ncursor\r"


@pytest.fixture
def command(monkeypatch):
    """command(run): `outpost` runs this; its exit status."""

    def run_it(run):
        parser = SimpleNamespace(parse_args=lambda _: SimpleNamespace(func=run))
        monkeypatch.setattr(cli, "build_parser", lambda _: parser)
        return cli.main(["monitor"])

    return run_it


def test_a_command_and_its_error_are_guarded(command, capsys):
    def run(_):
        print("\x1b[2J")
        raise ToolError("what \x1b]0; said")

    assert command(run) == 2
    printed = capsys.readouterr()
    assert printed.out == "\\x1b[2J\n" and printed.err == "outpost: what \\x1b]0; said\n"


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w", encoding="utf-8")


def full_disk():
    return open("/dev/full", "w", encoding="utf-8")


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@pytest.mark.parametrize(
    "opened", [lambda: None, broken_pipe, pytest.param(full_disk, marks=needs_full)]
)
def test_a_line_on_stderr_that_cannot_be_written_ends_nothing(opened, monkeypatch, command):
    """A collector that waits for a full disk said so in a file on that disk, and was gone."""
    made = opened()
    monkeypatch.setattr(sys, "stderr", made)

    def run(_):
        print("cannot write", file=sys.stderr, flush=True)
        print("again", file=sys.stderr)
        return 7

    assert command(run) == 7
    if made is not None:
        made.close()  # as Python does at its end: it has nothing left that could fail


@needs_full
def test_a_result_that_a_full_disk_refuses_is_an_error_in_words(monkeypatch, capsys, command):
    with full_disk() as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert command(lambda _: print("a table")) == 2
    assert capsys.readouterr().err == "outpost: stdout: No space left on device\n"


@pytest.mark.parametrize(
    ("encoding", "said"), [("ascii", r"h\xe4user \u2713"), ("latin-1", r"häuser \u2713")]
)
def test_what_the_encoding_of_stdout_lacks_is_written_as_its_escape(
    encoding, said, tmp_path, monkeypatch, command
):
    """The work is done by then: a traceback would say that it is not."""
    with open(tmp_path / "out", "w", encoding=encoding) as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert command(lambda _: print("häuser ✓")) == 0
    assert (tmp_path / "out").read_text(encoding=encoding) == said + "\n"


def test_a_command_whose_stdout_nobody_reads_ends_without_a_word(monkeypatch, capsys, command):
    with broken_pipe() as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert command(lambda _: print("a table", flush=True)) == 141
    assert capsys.readouterr().err == ""


def test_a_command_whose_stdout_is_closed_runs(monkeypatch, command):
    monkeypatch.setattr(sys, "stdout", None)
    assert command(lambda _: print("a table", sys.stdout.isatty())) == 0


def test_monitor_shows_the_controls_of_a_message_on_one_line():
    told = []
    for payload in (pack(u="C\x1b[2J\nmessage 99"), json.dumps("\x1b").encode()):
        found = SimpleNamespace(topic="outpost/board-1/data", payload=payload, retain=False)
        following.tell_message(found, told.append)
    assert "C\\x1b[2J\\nmessage 99" in told[0] and all(line.isprintable() for line in told)

# cpython-only: tests the desktop tools
"""What Spark needs of its environment is named before it starts."""

import resource

import pytest

from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.machine import needs


def test_a_stale_python_of_spark_is_named(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/nonexistent/python")
    with pytest.raises(ToolError, match="PYSPARK_PYTHON=/nonexistent/python: no such program"):
        needs.check_spark()
    needs.check_spark(master="spark://host:7077")  # a path of its executors


def test_too_few_open_files_are_named_or_raised(monkeypatch):
    made = []
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, limits: made.append(limits))
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (128, 128))
    with pytest.raises(ToolError, match="at most 128 open files, and Spark needs 256: ulimit -n"):
        needs.check_spark()
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (128, 65536))
    assert needs._open_files() == "" and made == [(4096, 65536)]


def test_a_subcommand_that_was_misspelt_is_guessed(capsys):
    with pytest.raises(SystemExit):
        cli.main(["colect"])
    assert "colect: did you mean collect?" in capsys.readouterr().err

# cpython-only: it tests the desktop command
"""`outpost` names its subcommands, loads only the chosen one and turns errors into exit statuses."""

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from outpost_tools import cli
from outpost_tools.errors import ToolError


@pytest.fixture
def report_that(monkeypatch):
    """Puts a stand-in for outpost_tools.report; the test gives what its run(arguments) does."""

    def install(run):
        def add_parser(subparsers):
            parser = subparsers.add_parser("report", help=cli.SUBCOMMANDS["report"])
            parser.add_argument("--out")
            parser.set_defaults(func=run)

        monkeypatch.setitem(sys.modules, "outpost_tools.report", SimpleNamespace(add_parser=add_parser))

    return install


def raising(error):
    def run(arguments):
        raise error

    return run


def test_the_status_is_that_of_the_subcommand(report_that):
    report_that(lambda arguments: 7 if arguments.out == "x.html" else 0)
    assert cli.main(["report", "--out", "x.html"]) == 7
    assert cli.main(["report"]) == 0


def test_a_tool_error_is_one_line_on_stderr_and_status_2(report_that, capsys):
    report_that(raising(ToolError("settings.json: no broker_host: name one")))
    assert cli.main(["report"]) == 2
    assert capsys.readouterr() == ("", "outpost: settings.json: no broker_host: name one\n")


def test_an_interrupt_is_status_130(report_that):
    report_that(raising(KeyboardInterrupt()))
    assert cli.main(["report"]) == 130


def test_an_unknown_subcommand_is_status_2_and_names_the_known_ones(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["measure"])
    assert stopped.value.code == 2
    complaint = capsys.readouterr().err
    assert "'measure'" in complaint
    assert all(f"'{name}'" in complaint or f" {name}" in complaint for name in cli.SUBCOMMANDS)


def test_no_subcommand_shows_the_help(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"    {name} " in shown for name in cli.SUBCOMMANDS)
    assert "examples" in shown


def test_the_help_imports_no_subcommand():
    code = (
        "import sys; from outpost_tools import cli; cli.main([]);"
        "sys.exit(any(m in sys.modules for m in ['pyspark', 'pyarrow', 'plotly', 'paho', 'outpost_tools.simulate']))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_every_subcommand_is_there_and_explains_itself(name, capsys):
    importlib.import_module(f"outpost_tools.{name}")
    with pytest.raises(SystemExit) as stopped:
        cli.main([name, "--help"])
    assert stopped.value.code == 0
    assert f"outpost {name}" in capsys.readouterr().out

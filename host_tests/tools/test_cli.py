# cpython-only: it tests the desktop command
"""`outpost` names its subcommands, loads the chosen one alone, makes errors exit statuses."""

import ast
import errno
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from outpost_tools import cli
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import first_line


@pytest.fixture
def report_that(monkeypatch):
    """Replaces outpost_tools.readings.report.arguments; the test sets what its run(arguments)
    does."""

    def install(run):
        def add_parser(subparsers):
            parser = subparsers.add_parser("report", help="a stand-in")
            parser.add_argument("--out")
            parser.set_defaults(func=run)

        stand_in = SimpleNamespace(SUMMARY="a stand-in", add_parser=add_parser)
        monkeypatch.setitem(sys.modules, "outpost_tools.readings.report.arguments", stand_in)

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


def test_a_path_of_another_user_is_one_line_and_status_2(report_that, capsys):
    """Such as /var/lib/outpost of `outpost service`; the first look at it raises, wherever."""
    report_that(raising(PermissionError(errno.EACCES, "Permission denied", "/var/lib/x")))
    assert cli.main(["report"]) == 2
    said = "outpost: /var/lib/x: Permission denied; as which user?\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("words", [["outbox", "show", "n" * 300], ["export", "--log", "n" * 300]])
def test_a_path_that_no_disk_has_is_one_line_and_status_2(words, capsys):
    assert cli.main(words) == 2
    assert capsys.readouterr().err == f"outpost: {'n' * 300}: File name too long\n"


@pytest.mark.parametrize(
    "words",
    [
        ["broker", "init", "NAME", "--host", "broker.home"],
        ["pipeline", "compact", "--tables", "NAME"],
        ["pipeline", "prune", "--log", ".", "--forget", "NAME"],
    ],
)
def test_a_path_that_is_not_utf_8_is_one_line_and_status_2(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"\xff")
    assert cli.main([name if word == "NAME" else word for word in words]) == 2
    said = capsys.readouterr().err
    assert said == "outpost: \\udcff: not UTF-8, which is needed here; rename it\n"


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


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["provision", "--prot", "/dev/x", "a.toml"],
         "provision: error: unrecognized arguments: --prot a.toml; --prot: did you mean --port?"),
        (["flash", "--board", "B", "--prot=/dev/x"], ": --port; --prot: did you mean --port?"),
        (["broker", "add", "f", "b", "--colector", "x"], "--colector: did you mean --collector?"),
        (["report", "--tables", "t", "--out", "o", "--zzz"], "unrecognized arguments: --zzz\n"),
        (["service", "--home", "--out", "o", "--", "--hots"], None),
    ],
)  # fmt: skip
def test_a_misspelt_option_is_told_by_the_subcommand_with_the_one_that_was_meant(
    words, wanted, capsys
):
    parser = cli.build_parser(words[0])
    if wanted is None:  # what follows "--" is nobody's option
        assert parser.parse_args(words).more == ["--hots"]
        return
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(words)
    complaint = capsys.readouterr().err
    assert stopped.value.code == 2 and wanted in complaint
    assert complaint.startswith(f"usage: outpost {words[0]} ")


def test_no_subcommand_shows_the_help(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n    {name} " in shown for name in cli.SUBCOMMANDS)
    assert all(f"\n  {title}:\n" in shown for title in cli.GROUPS) and len(cli.GROUPS) == 4
    assert "outpost try hello.py" in shown


def arguments_of(folder):
    """Paths of the files that hold a subcommand's arguments, by module name."""
    files = [*folder.rglob("*/arguments.py"), *folder.rglob("*/arguments/*.py")]
    names = {path: ".".join(path.relative_to(folder).with_suffix("").parts) for path in files}
    return {
        name.removesuffix(".__init__"): path
        for path, name in names.items()
        if path.stem != "options" and name.split(".")[0] not in ("mqtt", "pages")
    }


ARGUMENTS = arguments_of(Path(cli.__file__).parent)
FOLDERS = {"boards.flash.arguments", "boards.monitor.arguments"}  # of subcommands, itself none


def test_the_help_imports_no_library_of_a_subcommand():
    """Neither other people's nor ours: the files with arguments, and what reads a command line."""
    code = (
        "import sys; from outpost_tools import cli; cli.main([]); sys.stdout.flush()\n"
        "names = [n for n in sys.modules if n.startswith('outpost_tools.')]\n"
        "print([n for n in names if n not in "
        "{n for n in names if any(m.startswith(n + '.') for m in names)}])\n"
        "sys.exit(any(m in sys.modules for m in "
        "['pyspark', 'pyarrow', 'plotly', 'paho', 'serial', 'tqdm']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0
    loaded = set(ast.literal_eval(done.stdout.splitlines()[-1]))
    modules = {f"outpost_tools.{name}" for name in ARGUMENTS}
    allowed = {
        f"outpost_tools.{name}"
        for name in (
            "cli",
            "boards.flash.arguments.options",
            "boards.port.options",
            "errors",
            "machine.exposure",
            "machine.source_tree",
            "mqtt.arguments",
            "pages.arguments",
            "readings.sources.option",
            "readings.sources.reference",  # texts
            "terminal.command_line",
            "terminal.parser",
            "text.visible",
            "store.at",
            "store.base",
            "store.local",
        )
    }
    assert loaded <= modules | allowed and len(loaded & modules) == len(cli.SUBCOMMANDS)


def test_every_file_of_arguments_is_reached_from_the_command():
    reached = set(cli.SUBCOMMANDS.values()) | FOLDERS
    for name in cli.SUBCOMMANDS:
        tree = ast.parse(ARGUMENTS[cli.SUBCOMMANDS[name]].read_text())
        members = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and names(node) == {"members"}
        ]
        reached |= {
            f"{cli.SUBCOMMANDS[name]}.{one}" for node in members for one in ast.literal_eval(node)
        }
    assert reached == set(ARGUMENTS)


def names(node):
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("module", sorted(set(ARGUMENTS) - FOLDERS))
def test_subcommands_are_written_in_one_way(module):
    """SUMMARY, add_parser(subparsers), run(args); the rest private; the job is imported inside of
    functions.
    """
    tree = ast.parse(ARGUMENTS[module].read_text())
    functions = {
        node.name: [a.arg for a in node.args.args]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    is_group = ARGUMENTS[module].stem == "__init__"
    wanted = {"add_parser": ["subparsers"]} | ({} if is_group else {"run": ["args"]})
    assert {name: args for name, args in functions.items() if not name.startswith("_")} == wanted
    constants = set().union(*(names(node) for node in tree.body if isinstance(node, ast.Assign)))
    assert "SUMMARY" in constants
    assert not [node for node in tree.body if isinstance(node, ast.ClassDef)]
    ours = {
        node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and "outpost_tools" in node.module
    }
    job = f"outpost_tools.{module.partition('.arguments')[0]}.arguments"
    names_of_light = (
        *("errors", "mqtt.arguments", "pages.arguments", "readings.sources.option"),
        *("boards.port", "boards.port.options", "readings.sources.reference", "store", "store.at"),
        "terminal.command_line",
    )
    assert ours <= {f"outpost_tools.{name}" for name in names_of_light} | {job}


@pytest.mark.parametrize("name", cli.SUBCOMMANDS)
def test_every_subcommand_is_there_and_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([name, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert f"outpost {name}" in shown
    assert shown.count("\n\n") >= 2, "usage, what it does, options"


@pytest.mark.parametrize(
    ("words", "module", "name"),
    [
        (["collect", "--log", "log"], "servers.collect.access", "of"),
        (["republish"], "servers.republish.arguments", "_link"),
        (["send", "kitchen", "report"], "boards.send.arguments", "_access"),
        (["mq", "bridge", "--lines", "x", "--queue", "Q"], "servers.mq.serve", "_source"),
    ],
)
def test_a_password_that_goes_in_plain_text_is_warned_of(words, module, name, tmp_path, capsys):
    secret = tmp_path / "password.txt"
    secret.touch(0o600)
    secret.write_text("word\n")
    log_in = ["--broker", "broker.example:1883", "--user", "u", "--password-file", str(secret)]
    for more, warned in (([], True), (["--tls"], False)):
        args = cli.build_parser(words[0]).parse_args([*words, *log_in, *more])
        getattr(importlib.import_module(f"outpost_tools.{module}"), name)(args)
        assert ("broker.example:1883 in plain text" in capsys.readouterr().err) is warned


@pytest.mark.parametrize(
    "words",
    [
        ["collect", "--log", "log"],
        ["republish"],
        ["send", "kitchen", "report"],
        ["mq", "bridge", "--lines", "out", "--queue", "Q"],
    ],
    ids=lambda words: words[0],
)
def test_credentials_and_a_login_are_two_answers_to_one_question(words, tmp_path, capsys):
    more = ["--credentials", str(tmp_path), "--user", "me", "--tls"]
    assert cli.main([*words, *more]) == 2
    assert "--user, --tls: only with --broker, not with --credentials" in capsys.readouterr().err


def test_a_password_has_no_mark_of_an_editor(tmp_path):
    path = tmp_path / "password.txt"
    path.write_bytes("\ufeffsecret\r\n".encode())
    path.chmod(0o600)
    assert first_line(path, "--password-file") == "secret"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["provision", "--board", "RPI_PICO_W", "/nowhere"], "/nowhere: cannot be read"),
        (["fetch", "mosquitto"], "has no home here: set HOME, or XDG_CACHE_HOME"),
    ],
)
def test_a_user_without_a_home_is_told_what_to_set(words, says, monkeypatch, capsys):
    """In a container: a number without a name, and no HOME."""

    def unknown(path):
        if str(path).startswith("~"):
            raise RuntimeError("Could not determine home directory.")
        return path

    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", unknown)
    assert cli.main(words) == 2
    assert says in capsys.readouterr().err

# cpython-only: it tests the machinery that starts the interpreters
"""The interpreters run and are what they claim to be; the MicroPython runner cannot pass by running
nothing.
"""

import os
import subprocess
import sys

import pytest

import run_micropython
from outpost_tools.errors import ToolError
from outpost_tools.machine import interpreters
from outpost_tools.trying.fetch.program import Program
from paths import HOST_TESTS

WORD_BITS = {"amd64": 64, "i386": 32, "armhf": 32}

MIXED_TEST_FILE = """\
import unittest

class Mixed(unittest.TestCase):
    def test_passes(self):
        with self.assertRaises(ValueError) as context:
            int("x")
        self.assertIsInstance(context.exception, ValueError)

    def test_fails(self):
        self.assertEqual(1, 2)

    def test_fails_in_two_subtests(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(number, 1)

    def test_fails_in_cleanup(self):
        self.addCleanup(self.fail, "cleanup ran")

    @unittest.skip("not today")
    def test_is_skipped(self):
        self.fail()

@unittest.skipIf(True, "whole class")
class Skipped(unittest.TestCase):
    def test_is_skipped(self):
        self.fail()
"""
WHAT_IS_IMPORTED = """
import unittest
class Imported(unittest.TestCase):
    def test_form(self):
        import board
        import main
        from outpost import client, native
        self.assertEqual([module.__file__[-3:] for module in (board, client, native, main)], %r)
"""
PASSING_TEST_FILE = (
    "import unittest\nclass A(unittest.TestCase):\n"
    "    def test_a(self):\n        self.assertTrue(1)\n"
)


def required_micropython(architecture):
    command = interpreters.find_micropython(architecture)
    if command is None:
        pytest.skip(f"missing MicroPython for {architecture}: run `make setup`")
    return command


def run_folder(folder, *options, architecture="amd64", **environment):
    """The runner over a forged test folder, in a process of its own. architecture "": all that it
    has.
    """
    chosen = ("--arch", architecture) if architecture else ()
    return subprocess.run(
        [sys.executable, str(HOST_TESTS / "run_micropython.py"),
         "--folder", str(folder), *chosen, *options],
        capture_output=True, text=True, check=False, timeout=180, env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize("architecture", interpreters.ARCHITECTURES)
def test_interpreter_runs_and_has_the_word_size_of_its_architecture(architecture):
    if (
        architecture not in interpreters.REQUIRED_ARCHITECTURES
        and not interpreters.find_micropython(architecture)
    ):
        pytest.skip(
            f"optional: MicroPython for {architecture} was not asked for "
            "(python3 tools/setup.py --arm)"
        )
    found = interpreters.probe(required_micropython(architecture))
    assert (found.name, found.architecture, found.word_bits) == (
        "micropython",
        architecture,
        WORD_BITS[architecture],
    )
    assert found.version[:2] >= interpreters.OLDEST_MICROPYTHON
    assert interpreters.describe(required_micropython(architecture)).endswith(f"({architecture})")


def test_mosquitto_is_found_and_runs():
    command = interpreters.find_mosquitto()
    if command is None:
        pytest.skip("missing mosquitto: run `make setup`")
    done = subprocess.run(
        [*command, "-h"], capture_output=True, text=True, check=False, timeout=180
    )
    assert "mosquitto version" in done.stdout + done.stderr


def test_cpython_says_what_it_is():
    assert interpreters.describe([sys.executable]).startswith(
        f"CPython {sys.version.split()[0]} 64-bit"
    )


def test_a_micropython_of_the_wrong_architecture_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("MICROPYTHON", required_micropython("i386")[0])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert interpreters.find_micropython("i386") == [os.environ["MICROPYTHON"]]
    assert interpreters.find_micropython("amd64") is None


def test_an_override_that_does_not_run_is_an_error(monkeypatch):
    monkeypatch.setenv("MICROPYTHON", "/nowhere/micropython")
    with pytest.raises(ToolError, match="/nowhere/micropython does not run"):
        interpreters.find_micropython("amd64")


def test_an_unknown_architecture_is_an_error():
    with pytest.raises(ToolError, match="'mips'.*amd64, i386, armhf"):
        interpreters.find_micropython("mips")


def test_runner_fails_and_names_the_interpreter_when_it_is_missing(tmp_path):
    (tmp_path / "test_a.py").write_text(PASSING_TEST_FILE)
    done = run_folder(tmp_path, XDG_CACHE_HOME=str(tmp_path), PATH="/nowhere", MICROPYTHON="")
    assert done.returncode == 1
    assert "no MicroPython for amd64: run `make setup`" in done.stderr


def test_runner_counts_passes_failures_and_skips_with_their_reasons(tmp_path):
    required_micropython("amd64")
    (tmp_path / "test_mixed.py").write_text(MIXED_TEST_FILE)
    done = run_folder(tmp_path)
    assert done.returncode == 1
    assert done.stdout.endswith("\n1 passed, 3 failed, 2 skipped\n")
    assert "SKIP test_mixed.Mixed.test_is_skipped: not today" in done.stdout
    assert "SKIP test_mixed.Skipped.test_is_skipped: whole class" in done.stdout
    assert "in subTest (number=2):" in done.stdout


def test_runner_leaves_out_cpython_only_files_and_runs_micropython_only_files(tmp_path):
    required_micropython("amd64")
    (tmp_path / "test_a.py").write_text("# cpython-only: a reason\nraise SystemExit(9)\n")
    (tmp_path / "test_b.py").write_text("# micropython-only: a reason\n" + PASSING_TEST_FILE)
    done = run_folder(tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed, 0 skipped")


@pytest.mark.parametrize(
    ("options", "ends"), [((), [".py"] * 4), (("--shipped",), ["mpy", "mpy", "mpy", ".py"])]
)
def test_runner_runs_the_sources_or_what_ships(tmp_path, options, ends):
    """main.py is copied as it is."""
    required_micropython("amd64")
    (tmp_path / "test_a.py").write_text(WHAT_IS_IMPORTED % ends)
    done = run_folder(tmp_path, *options)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "1 passed, 0 failed, 0 skipped",
    ), done.stdout


def test_what_ships_is_run_by_default_on_32_bit_and_the_rest_with_long(tmp_path):
    (tmp_path / "test_a.py").write_text("# long: a minute\n" + PASSING_TEST_FILE)
    (tmp_path / "test_b.py").write_text(
        "# micropython-only: a reason\n# long: a minute\n" + PASSING_TEST_FILE
    )
    (tmp_path / "test_c.py").write_text(PASSING_TEST_FILE)
    (tmp_path / "test_d.py").write_text("# slow: two minutes\n" + PASSING_TEST_FILE)
    for architecture in interpreters.REQUIRED_ARCHITECTURES:
        required_micropython(architecture)
    names = ["test_a.py", "test_b.py", "test_c.py"]
    assert files_run(tmp_path) == {"amd64": ["test_c.py"], "i386 shipped": names}
    assert files_run(tmp_path, "--quick") == {"amd64": ["test_c.py"]}
    assert files_run(tmp_path, "--long") == {
        "amd64": [*names[:2], "test_d.py"], "i386": ["test_c.py"], "i386 shipped": ["test_d.py"]
    }  # fmt: skip


@pytest.mark.parametrize("quick", ["", "1"])
def test_quick_leaves_the_long_files_out_of_pytest_too(quick):
    folder = HOST_TESTS / "firmware" / "outpost"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-n", "0", str(folder)],
        capture_output=True, text=True, check=True, cwd=HOST_TESTS.parent,
        env=os.environ | {"QUICK": quick},
    )  # fmt: skip
    collected = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    heads = ("# long:", "# slow:")
    files = {path for path in folder.glob("test_*.py") if path.read_text().startswith(heads)}
    assert len(files) > 10
    assert {path.name in " ".join(collected) for path in files} == {not quick}
    assert any(name.endswith("test_progress.py") for name in collected)


def files_run(folder, *options):
    """{target: files} of a run without --arch."""
    ran: dict[str, list[str]] = {}
    for line in run_folder(folder, *options, architecture="").stdout.splitlines():
        if line.startswith("ok "):
            *target, file = line[5 : line.index(":")].split()
            ran.setdefault(" ".join(target), []).append(file)
    return ran


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import no_such_module\n", "without a result"),
        ("import sys\nsys.exit(0)\n", "without a result"),
        ("import unittest\n", "holds no test"),
        (
            PASSING_TEST_FILE.replace("self.assertTrue(1)", "\n            while 1: pass"),
            "ran longer than 2.0 s",
        ),
    ],
    ids=["import error", "early exit", "no test", "endless"],
)
def test_runner_fails_on_a_file_without_a_result(tmp_path, source, says):
    required_micropython("amd64")
    (tmp_path / "test_a.py").write_text(source)
    done = run_folder(tmp_path, "--time-limit", "2")
    assert done.returncode == 1
    assert says in done.stdout
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n")


@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_runner_takes_a_skip_for_want_of_something_as_a_failure_under_ci_only(tmp_path, ci, status):
    required_micropython("amd64")
    skipping = PASSING_TEST_FILE.replace(
        "self.assertTrue(1)", "self.skipTest('missing broker: run `make setup`')"
    )
    (tmp_path / "test_a.py").write_text(skipping + "    def test_b(self):\n        pass\n")
    assert run_folder(tmp_path, CI=ci).returncode == status


def test_runner_fails_when_a_file_on_disk_was_not_run(tmp_path, monkeypatch, capsys):
    required_micropython("amd64")
    (tmp_path / "test_a.py").write_text(PASSING_TEST_FILE)
    (tmp_path / "test_b.py").write_text(PASSING_TEST_FILE)
    lists = iter([["test_a.py"], ["test_a.py", "test_b.py"]])
    monkeypatch.setattr(run_micropython, "discover", lambda folder, pattern: next(lists))
    assert run_micropython.main(["--folder", str(tmp_path), "--arch", "amd64"]) == 1
    assert "test_b.py is on disk and was not run" in capsys.readouterr().err


def test_runner_fails_when_it_ran_a_file_that_is_not_on_disk():
    assert run_micropython.unreported(["test_a.py"], ["test_a.py", "test_b.py"]) == [
        "test_b.py was run and is not on disk"
    ]


def test_discovery_finds_every_dual_file_of_every_folder():
    on_disk = {str(path.relative_to(HOST_TESTS)) for path in HOST_TESTS.rglob("test_*.py")}
    kept_out = {
        name for name in on_disk if (HOST_TESTS / name).read_text().startswith("# cpython-only:")
    }
    assert set(run_micropython.discover(HOST_TESTS)) == on_disk - kept_out


def test_a_file_in_a_subfolder_finds_its_neighbours(tmp_path):
    required_micropython("amd64")
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "deep" / "deeper" / "neighbour.py").write_text("")
    (tmp_path / "deep" / "deeper" / "test_a.py").write_text(
        "import neighbour\n" + PASSING_TEST_FILE
    )
    done = run_folder(tmp_path)
    assert done.returncode == 0 and "deep/deeper/test_a.py: 1 passed" in done.stdout, done.stdout


def test_a_half_made_program_is_not_taken_for_whole(tmp_path):
    program = Program("micropython-i386", "micropython", "i386", "/usr/bin/micropython")
    assert not program.is_in(tmp_path)
    (tmp_path / "roots" / program.folder).mkdir(parents=True)  # killed between the two renames
    assert not program.is_in(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program.name).write_text(program.wrapper())
    assert program.is_in(tmp_path)
    (tmp_path / "bin" / program.name).write_text("#!/bin/sh\n# made by an older set-up\n")
    assert not program.is_in(tmp_path)

# cpython-only: it tests a tool
"""The type check of the firmware can fail: each port's stubs find what that port does not have."""

import subprocess
import sys

import pytest

from paths import REPOSITORY

TYPECHECK = REPOSITORY / "tools" / "typecheck.py"


def typecheck(*arguments):
    return subprocess.run(
        [sys.executable, str(TYPECHECK), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


@pytest.mark.long
def test_a_wrong_name_and_a_wrong_type_are_errors_on_every_port(tmp_path):
    source = tmp_path / "scratch.py"
    source.write_text(
        "import time\n\n\ndef f():\n    time.sleep_ms('a')\n    return time.ticks_mss()\n"
    )
    done = typecheck(str(source))
    assert done.returncode == 1
    assert done.stdout.count(" 2 errors") == 3, done.stdout
    assert done.stderr.count("scratch.py:5:") == done.stderr.count("scratch.py:6:") == 3


@pytest.mark.long
def test_a_module_that_only_cpython_has_is_an_error(tmp_path):
    source = tmp_path / "scratch.py"
    source.write_text("import dataclasses\n\nprint(dataclasses)\n")
    assert typecheck(str(source)).returncode == 1


@pytest.mark.long
def test_right_code_passes_with_viper_pointers(tmp_path):
    source = tmp_path / "scratch.py"
    source.write_text(
        "import micropython\n\n\n@micropython.viper\n"
        "def f(buf: ptr8, at: int) -> int:\n    return int(buf[at])\n\n\n"
        "f(bytearray(3), 1)\n"
    )
    done = typecheck(str(source))
    assert done.returncode == 0, done.stderr


def test_a_file_that_is_not_there_is_an_error_and_not_a_pass():
    done = typecheck("no_such_file.py")
    assert done.returncode == 2
    assert "no_such_file.py" in done.stderr

# cpython-only: a cluster of Spark and an S3 server
"""`make demo STORE=s3`: boards, a collector without a disk and a Spark cluster that share only a
bucket; a worker of it is killed."""

import json
import subprocess
import sys

import pytest

from object_store import need_weed
from outpost_tools.errors import ToolError
from outpost_tools.machine import java, needs
from outpost_tools.machine.interpreters import find_mosquitto
from paths import HOST_TESTS

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_the_demo_on_a_bucket_is_exact(tmp_path):
    try:
        needs.check("pipeline", "report", "store")
        java.environment()
    except ToolError as error:
        pytest.skip(f"missing: {error}")
    if find_mosquitto() is None:
        pytest.skip("missing: mosquitto; run `make setup`")
    need_weed()
    program, out = HOST_TESTS / "system" / "demo_on_bucket.py", tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, str(program), "--out", str(out), "--seconds", "20"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-2000:]
    assert "a worker of the cluster killed" in done.stderr and "EXACT: " in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["silver_rows"] > 1000 and not (out / "log").exists()
    assert not (out / "tables").exists()

# cpython-only: Spark
"""The same job on a Spark standalone master and two workers, one of them killed: the same tables.
`make cluster-test`.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ground_truth import SEED, START_MS, Board, Log, assert_exact
from outpost_tools.common import java
from outpost_tools.common.errors import ToolError

try:
    from outpost_tools.pipeline import tables
    from pipeline_cluster import Cluster

    java.environment()
except (ImportError, ToolError) as problem:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip(f"missing: PySpark and Java: {problem}", allow_module_level=True)

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("CLUSTER"), reason="optional: make cluster-test, three minutes"
    ),
    pytest.mark.timeout(900),
]
MESSAGES = int(os.environ.get("CLUSTER_MESSAGES", "400"))  # of each of 50 boards


def run(log: Path, tables_dir: Path, master: str) -> subprocess.Popen:
    line = [
        sys.executable,
        "-m",
        "outpost_tools.cli",
        "pipeline",
        "run",
        "--log",
        log,
        "--tables",
        tables_dir,
        "--master",
        master,
    ]
    return subprocess.Popen(list(map(str, line)), stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors


def content(tables_dir: Path) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, tables.read_table(tables_dir, name).to_pylist()))
        for name in tables.ALL
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(log, the tables that local[*] made, a folder)."""
    folder = tmp_path_factory.mktemp("cluster")
    log = Log(folder / "log", SEED)
    boards = [
        Board(f"board-{n}", f"{n:08x}", clock_ms=None if n % 10 == 0 else START_MS + n * 7)
        for n in range(50)
    ]
    for seq in range(MESSAGES):
        for board in boards:
            log.message(board, seq, held=max(0, seq - 20))
    log.refuse("board-1", b"{", "not JSON")
    log.repeat_some(0.05)
    log.disorder(500)
    log.seal(["collector-1", "collector-2"], per_segment=500)
    finish(run(log.directory, folder / "local", "local[*]"))
    assert_exact(log, folder / "local")
    return log, content(folder / "local"), folder


def test_two_workers_make_the_same_tables(made):
    log, expected, folder = made
    with Cluster(folder / "two", workers=2) as cluster:
        finish(run(log.directory, folder / "tables-two", cluster.master))
    assert_exact(log, folder / "tables-two")
    assert content(folder / "tables-two") == expected
    applications = [path for path in folder.glob("two/worker-*/app-*/*") if path.is_dir()]
    assert len({path.parts[-3] for path in applications}) == 2, "only one worker had an executor"


def test_a_worker_killed_in_the_middle_changes_nothing(made):
    log, expected, folder = made
    tables_dir = folder / "tables-killed"
    with Cluster(folder / "killed", workers=2) as cluster:
        process = run(log.directory, tables_dir, cluster.master)
        while (
            process.poll() is None and not (tables_dir / "_checkpoint" / "offsets" / "0").exists()
        ):
            time.sleep(0.05)
        time.sleep(2)  # the batch has its tasks now
        assert process.poll() is None and not tables.version(tables_dir, "readings"), (
            "too late to be in the middle"
        )
        cluster.kill_worker()
        finish(process)
    assert content(tables_dir) == expected

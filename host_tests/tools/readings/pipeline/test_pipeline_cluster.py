# cpython-only: Spark
"""The same job by spark-submit on a standalone master and two workers, with the user's settings,
and with workers killed: the same tables. `make cluster-test`.

    make cluster-test KILLS=20 STORE=s3

STORE=s3: log and tables in a bucket of a real S3 server. The tables that they are compared with are
made in a folder, by one machine.
"""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import outpost_command
from ground_truth import SEED, START_MS, Board, Log, assert_exact
from optional_packages import needed
from outpost_tools.errors import ToolError
from outpost_tools.machine import java

with needed("PySpark and Java", ToolError):
    import pyspark

    from gold_truth import assert_gold_is_a_plain_recomputation
    from object_store import ObjectServer
    from outpost_tools.readings.pipeline import delta, plan, tables
    from outpost_tools.store.at import Place, at
    from outpost_tools.store.base import Store
    from spark_cluster import DRIVER, Cluster, submit

    java.environment()

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("CLUSTER"), reason="optional: make cluster-test, ten minutes"
    ),
    pytest.mark.timeout(900 + 90 * int(os.environ.get("CLUSTER_KILLS", "3"))),
]
MESSAGES = int(os.environ.get("CLUSTER_MESSAGES", "400"))  # of each of 50 boards
KILLS = int(os.environ.get("CLUSTER_KILLS", "3"))
IS_BUCKET = os.environ.get("OUTPOST_TABLES_STORE") == "s3"
LIMIT_S = 300  # of a step, on a busy machine


def on_one_machine(log: Path, tables_dir: Path) -> subprocess.Popen:
    line = outpost_command.line("pipeline", "run", "--log", log, "--tables", tables_dir)
    return subprocess.Popen(
        list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> tuple[str, str]:
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return out, errors


def content(tables_dir: Place) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, tables.read_table(tables_dir, name).to_pylist()))
        for name in tables.ALL
    }


@dataclass
class Made:
    log: Log
    parts: list[list[Path]]  # the segments of each part, in the order in which they are read
    copies: list[int]  # how many messages there were after each
    tables: dict[str, list[str]]
    folder: Path
    package: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A log, which grew in parts, and the tables that one machine made of it in one run."""
    folder = tmp_path_factory.mktemp("cluster")
    log, parts, copies, old = Log(folder / "log", SEED), [], [], set()
    boards = [
        Board(f"board-{n}", f"{n:08x}", clock_ms=None if n % 10 == 0 else START_MS + n * 7)
        for n in range(50)
    ]
    for part in range(KILLS):
        for seq in range(part * MESSAGES // KILLS, (part + 1) * MESSAGES // KILLS):
            for board in boards:
                log.message(board, seq, held=max(0, seq - 20))
        log.refuse("board-1", b"{", "not JSON")
        log.repeat_some(0.05)
        log.disorder(500)
        log.seal(["collector-1", "collector-2"], per_segment=500)
        new = {*log.directory.rglob("*.seg")} - old
        old |= new
        parts.append(sorted(new, key=lambda path: (path.name, path.parent)))
        copies.append(log.copies)
    finish(on_one_machine(log.directory, folder / "local"))
    assert_exact(log, folder / "local")
    package = folder / "outpost.zip"
    subprocess.run(
        outpost_command.line("pipeline", "package", package),
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return Made(log, parts, copies, content(folder / "local"), folder, package)


@pytest.fixture(scope="module")
def root(made):
    """Of log and tables: a folder, or a bucket whose keys are in the environment."""
    if not IS_BUCKET:
        yield at(made.folder)
        return
    with ObjectServer(made.folder / "server") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield at(server.bucket())


@pytest.fixture(scope="module")
def cluster(made, root):  # the workers inherit the keys
    with Cluster(made.folder / "cluster", workers=2) as cluster:
        yield cluster


def run(
    made: Made, log: Store, tables_dir: Store, master: str, *more: str, **named
) -> subprocess.Popen:
    program = made.package.with_name("outpost_submit.py")
    line = ("run", "--log", log, "--tables", tables_dir, *more)
    return submit(master, made.package, program, *line, **named)


def test_the_users_settings_are_in_force(made, cluster):
    probe = Path(__file__).with_name("cluster_probe.py")
    out, _ = finish(submit(cluster.master, made.package, probe, made.folder / "probe.log"))
    seen = json.loads(out.splitlines()[-1])
    assert seen["spark.master"] == cluster.master
    assert seen["spark.driver.host"] == DRIVER
    assert set(seen["hosts"]) == {DRIVER, "127.0.0.2", "127.0.0.3"}
    assert seen["spark.sql.shuffle.partitions"] == "3"
    assert seen["spark.executor.memory"] == "640m"
    assert 500 << 20 < seen["driver_bytes"] <= 700 << 20
    assert all("outpost.zip" in package for package in seen["packages"])
    # what the tables depend on is not the user's choice, and they are told
    assert seen["spark.sql.session.timeZone"] == "UTC"
    assert any("spark.sql.session.timeZone is UTC, not Asia/Tokyo" in line for line in seen["told"])


def test_two_workers_make_the_same_tables(made, root, cluster):
    log, tables_dir = root / "whole", root / "tables-two"
    for part in made.parts:
        put(made, part, log)
    # spark-submit passes on both outputs of its program as one
    said, _ = finish(run(made, log, tables_dir, cluster.master))
    assert f"Spark {pyspark.__version__} is up on {cluster.master}" in said
    assert_exact(made.log, tables_dir)
    assert content(tables_dir) == made.tables
    applications = [path for path in made.folder.glob("cluster/worker-*/app-*/*") if path.is_dir()]
    assert len({path.parts[-3] for path in applications}) == 2, "only one worker had an executor"


def put(made: Made, part: list[Path], log: Store) -> None:
    for path in part:
        log.put(path.relative_to(made.log.directory).as_posix(), path.read_bytes())


def wait_for(moment, process: subprocess.Popen, said: Path) -> None:
    """Until `moment()`. A run that ends by itself has failed."""
    deadline = time.monotonic() + LIMIT_S
    while not moment():
        is_alive = process.poll() is None and time.monotonic() < deadline
        assert is_alive, said.read_text(errors="replace")[-4000:]
        time.sleep(0.2 if IS_BUCKET else 0.02)


def messages_in_gold(tables_dir: Store) -> int:
    if not tables.exists(tables_dir, "devices"):
        return 0
    return sum(tables.read_table(tables_dir, "devices", ["received"])["received"].to_pylist())


def rounds(tables_dir: Store, name: str) -> int:
    exists = tables.exists(tables_dir, name)
    return plan.number(delta.open_table(tables_dir / name)) if exists else 0


def test_workers_killed_in_the_middle_of_rounds_change_nothing(made, root, cluster):
    """One run, a round for each part of the log; in each a worker and its executor are killed, and
    another one, with another address, takes its place."""
    tables_dir, log, chance = root / "tables-killed", root / "parts", Random(SEED)
    put(made, made.parts[0], log)
    said, in_rounds = made.folder / "killed.txt", 0
    with said.open("wb") as out:
        more = ("--continuous", "--interval", "1")
        process = run(made, log, tables_dir, cluster.master, *more, out=out)
    try:
        for number, part in enumerate(made.parts):
            before = rounds(tables_dir, "readings")
            if number == 0:
                wait_for(lambda: tables.exists(tables_dir, tables.ALL[-1]), process, said)
            else:
                put(made, part, log)
            time.sleep(chance.uniform(1, 3))  # the round has its tasks now
            in_rounds += rounds(tables_dir, "readings") == before
            cluster.kill_worker()
            cluster.add_worker(is_awaited=False)
            copies = made.copies[number]
            wait_for(lambda n=copies: messages_in_gold(tables_dir) == n, process, said)
            print(f"{number + 1} workers killed, {in_rounds} in the middle of a round", flush=True)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert in_rounds > len(made.parts) / 2
    assert_exact(made.log, tables_dir)
    assert_gold_is_a_plain_recomputation(tables_dir)
    assert content(tables_dir) == made.tables
    text = said.read_text(errors="replace")
    print(f"{rounds(tables_dir, 'streams')} rounds, {text.count('; again in ')} failures retried, "
          f"{made.copies[-1]:,} messages, {len(made.log.rows):,} readings: exact")  # fmt: skip

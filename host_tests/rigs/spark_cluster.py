"""A Spark standalone cluster from the PySpark package: a master and workers, each in a process
group of its own and with an address of its own, as machines have: 127.0.0.1 is the master's,
127.0.0.2 and so on the workers'. And spark-submit, as a user types it.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from outpost_tools.machine import java

START_S = 120
DRIVER = "127.0.1.1"  # apart from the workers', however many there are


def _die_with_parent() -> None:
    """A test run that is killed leaves no cluster behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def program(name: str) -> Path:
    """Of PySpark's own."""
    import pyspark

    return Path(pyspark.__file__).parent / "bin" / name


def users_environment() -> dict[str, str]:
    """Of somebody who knows nothing of this repository, with Java and a Python for Spark."""
    ours = ("SPARK_HOME", "PYTHONPATH")
    environment = {key: value for key, value in os.environ.items() if key not in ours}
    return environment | java.environment() | {"PYSPARK_PYTHON": sys.executable}


def submit(
    master: str, package: Path, *line: object, out: int | IO[bytes] = subprocess.PIPE
) -> subprocess.Popen:
    """spark-submit with settings that are not ours, from the folder of the package. out: a file
    where nobody reads while it runs, because a pipe that is full stops the driver."""
    settings = {"spark.driver.host": DRIVER, "spark.driver.bindAddress": DRIVER}
    settings |= {"spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "Asia/Tokyo"}
    settings |= {"spark.executor.memory": "640m", "spark.ui.enabled": "false"}
    options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    command = [program("spark-submit"), "--master", master, "--driver-memory", "700m", *options]
    return subprocess.Popen(
        [*map(str, [*command, "--py-files", package, *line])],
        cwd=package.parent, env=users_environment(), text=True, start_new_session=True,
        stdout=out, stderr=subprocess.PIPE if out == subprocess.PIPE else subprocess.STDOUT,
    )  # fmt: skip


class Cluster:
    """with Cluster(folder, workers=2) as cluster: ... cluster.master is its address."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder, self._count, self._begun = folder, workers, 0
        self.workers: list[subprocess.Popen] = []
        self.master = ""

    def __enter__(self) -> Cluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self._master, log = self._start("master.Master", "master", "127.0.0.1", *options)
            self.master = self._wait_for(log, r"Starting Spark master at (spark://\S+)")
            for _ in range(self._count):
                self.add_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def add_worker(self, *, is_awaited: bool = True) -> None:
        """On the next address."""
        name, host = f"worker-{self._begun}", f"127.0.0.{2 + self._begun}"
        self._begun += 1
        options = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        options += ["--work-dir", self._folder / name]
        process, log = self._start("worker.Worker", name, host, *options, self.master)
        self.workers.append(process)
        if is_awaited:
            self._wait_for(log, r"Successfully registered with master")

    def kill_worker(self) -> None:
        """SIGKILL for one worker and its executors."""
        process = self.workers.pop(0)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def __exit__(self, *_: object) -> None:
        for process in [*self.workers, getattr(self, "_master", None)]:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def _start(
        self, kind: str, name: str, host: str, *options: object
    ) -> tuple[subprocess.Popen, Path]:
        log = self._folder / f"{name}.log"
        environment = {**users_environment(), "SPARK_LOCAL_IP": host, "SPARK_NO_DAEMONIZE": "1"}
        line = [str(program("spark-class")), f"org.apache.spark.deploy.{kind}", *map(str, options)]
        with log.open("wb") as out:
            process = subprocess.Popen(
                line,
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  before exec it only calls prctl
            )
        return process, log

    def _wait_for(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found[found.lastindex or 0]
            time.sleep(0.2)
        raise TimeoutError(
            f"{log}: no {pattern!r} within {START_S} s: {log.read_text(errors='replace')[-2000:]}"
        )

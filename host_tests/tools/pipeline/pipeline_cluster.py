"""A Spark standalone cluster from the PySpark package: a master and workers on loopback, each in a
process group of its own.
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

from outpost_tools.common import java

START_S = 120


def _die_with_parent() -> None:
    """A test run that is killed leaves no cluster behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


class Cluster:
    """with Cluster(folder, workers=2) as cluster: ... cluster.master is its address."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder, self._count = folder, workers
        self.workers: list[subprocess.Popen] = []
        self.master = ""

    def __enter__(self) -> Cluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self._master, log = self._start("master.Master", "master", *options)
            self.master = self._wait_for(log, r"Starting Spark master at (spark://\S+)")
            for number in range(self._count):
                self.add_worker(f"worker-{number}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def add_worker(self, name: str) -> None:
        options = [
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "1g",
            "--work-dir",
            self._folder / name,
        ]
        process, log = self._start("worker.Worker", name, *options, self.master)
        self.workers.append(process)
        self._wait_for(log, r"Successfully registered with master")

    def kill_worker(self) -> None:
        """SIGKILL for one worker and its executors."""
        process = self.workers.pop()
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

    def _start(self, kind: str, name: str, *options: object) -> tuple[subprocess.Popen, Path]:
        import pyspark

        log = self._folder / f"{name}.log"
        environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
        environment |= java.environment() | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_NO_DAEMONIZE": "1",
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        line = [str(program), f"org.apache.spark.deploy.{kind}", *map(str, options)]
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

"""The demo without a shared disk: `make demo STORE=s3`.

A real S3 server, a Spark cluster of a master and two workers that share nothing but the bucket, and
`outpost demo`: boards, a broker and a collector without a disk, power cuts and kills of all of
them. While the pipeline runs, a worker is killed with its executors, and another joins. The demo
compares the boards' journals with the tables, row for row.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import outpost_command
from object_store import ObjectServer
from spark_cluster import Cluster

_BEGUN = "Spark "  # the pipeline's line once its session is up


def main() -> int:
    """The demo's exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/demo-s3"))
    parser.add_argument("--seconds", default="30")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outpost-demo-")))
        server = stack.enter_context(ObjectServer(folder / "bucket"))
        os.environ.update(server.environment)  # the workers inherit it, as on machines of a cloud
        cluster = stack.enter_context(Cluster(folder / "cluster", workers=2))
        places = ["--store", server.bucket(), "--master", cluster.master]
        command = outpost_command.line("demo", "--out", args.out)
        process = subprocess.Popen(
            [*command, "--seconds", args.seconds, *places], stderr=subprocess.PIPE, text=True
        )
        for line in _shown(process):
            if "pipeline: " + _BEGUN in line:
                threading.Thread(target=_disturb, args=(cluster,), daemon=True).start()
        return process.wait()


def _shown(process: subprocess.Popen) -> Iterator[str]:
    for line in process.stderr:
        print(line, end="", file=sys.stderr, flush=True)
        yield line


def _disturb(cluster: Cluster) -> None:
    cluster.add_worker(is_awaited=False)
    cluster.kill_worker()
    print("demo: a worker of the cluster killed, another joins", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

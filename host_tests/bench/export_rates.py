"""`outpost export` by the size of the log: seconds from the command's start to its end, by the
clock and of CPU time, and peak memory.

    python host_tests/bench/export_rates.py [--messages 100000 1000000] [--format parquet]

The logs are of five boards, with 1 to 5 readings per message and 5 % of the messages twice. The
last lines are a log of a collector that seals every five seconds: 12 messages per segment.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "host_tests" / "bench"), str(REPOSITORY / "tools")]

from pipeline_load import write_log  # noqa: E402

_SMALL_SEGMENT = 12 * 220
# the command, then what it took
_CODE = (
    "import resource, sys; from outpost_tools import cli; status = cli.main();"
    "used = resource.getrusage(resource.RUSAGE_SELF);"
    "print(used.ru_utime + used.ru_stime, used.ru_maxrss >> 10); sys.exit(status)"
)


def measured(words: list[str], out: Path) -> tuple[float, float, int]:
    """words: of the command. Returns (seconds by the clock, of CPU time, MiB)."""
    line = [sys.executable, "-c", _CODE, *words, "--out", str(out)]
    begin = time.perf_counter()
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, cwd=REPOSITORY / "tools")
    seconds = time.perf_counter() - begin
    cpu, mib = done.stdout.split()
    return seconds, float(cpu), int(mib)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet"), default="csv")
    args = parser.parse_args()
    sizes = [(messages, 16 << 20) for messages in args.messages]
    sizes.append((min(args.messages), _SMALL_SEGMENT))
    for messages, segment_bytes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            log, out = Path(folder, "log"), Path(folder, f"out.{args.format}")
            rows = write_log(
                log,
                messages,
                devices=5,
                duplicates=0.05,
                segment_bytes=segment_bytes,
                commit_each=12,
            )
            segments = sum(1 for _ in log.rglob("*.seg"))
            seconds, cpu, mib = measured(["export", "--log", str(log)], out)
            print(
                f"{messages:>10,} messages, {rows:>10,} rows, {segments:>6,} segments: "
                f"{seconds:6.1f} s, {cpu:6.1f} s of CPU, {mib:5,} MiB, "
                f"{out.stat().st_size >> 20:5,} MiB written"
            )


if __name__ == "__main__":
    main()

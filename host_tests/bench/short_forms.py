"""Short forms of benches that have their own long target, so that one `make bench` fills the whole
table: sections of run_bench.py.

    power_cuts     the hunt of `make power-loss`, fewer steps of each load
    collector      `make bench-collector`, one collector with confirmation, fewer messages
    segments       `make bench-pipeline`: sealed segments to Arrow
    spark          the same: through Spark's source into its sink that keeps nothing

Rates of the last two are messages and rows per second on two processors, not ratios: compare them
only on one machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent

import pipeline_load  # noqa: E402 - the path must be set first
import pipeline_rates  # noqa: E402
import power_loss  # noqa: E402
import spread  # noqa: E402
from outpost_tools.errors import ToolError  # noqa: E402

CUT_STEPS, CUT_SEEDS = 10, (101, 102)
COLLECTOR_MESSAGES = 40_000
SEGMENT_MESSAGES = 80_000
# Many, because the start of a query takes some seconds, which then matter little.
SPARK_MESSAGES = 1_600_000
_SEGMENT_BYTES = 2 << 20
_LIMIT_S = 300


def shorten() -> None:
    """What is left shows that the sections run, and no more."""
    global CUT_STEPS, COLLECTOR_MESSAGES, SEGMENT_MESSAGES, SPARK_MESSAGES
    CUT_STEPS, COLLECTOR_MESSAGES, SEGMENT_MESSAGES, SPARK_MESSAGES = 1, 4000, 8000, 20_000


def _hunt(seed: int) -> power_loss.Tally | str:
    try:
        return power_loss.hunt(CUT_STEPS, seed)
    except power_loss.Violation as fault:
        return str(fault)


def power_cuts() -> dict:
    """Returns {cuts, second_cuts, duplicates, violations}: each program and erase cut five ways,
    one in four a second time.
    """
    with ProcessPoolExecutor(len(CUT_SEEDS)) as pool:
        found = list(pool.map(_hunt, CUT_SEEDS))
    good = [one for one in found if not isinstance(one, str)]
    row = {
        "cuts": sum(one.cuts for one in good), "second_cuts": sum(one.second_cuts for one in good),
        "duplicates": max((one.most_duplicates for one in good), default=0),
        "violations": [one for one in found if isinstance(one, str)],
    }  # fmt: skip
    verdict = "; ".join(row["violations"]) or "0 lost, 0 invented, 0 out of order"
    print(
        f"\nPower cuts, {len(power_loss.LOADS)} loads on {len(power_loss.GEOMETRIES)} geometries: ",
        end="",
    )
    print(
        f"{row['cuts']:,} cuts, {row['second_cuts']:,} with a second one: {verdict}; "
        f"at most {row['duplicates']} duplicates"
    )
    return row


def collector_block() -> dict:
    """Does one run of collector_rate.py. Raises ToolError."""
    command = [
        sys.executable,
        str(HERE / "collector_rate.py"),
        "--json",
        "--messages",
        str(COLLECTOR_MESSAGES),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if done.returncode:
        raise ToolError(f"collector: {(done.stdout + done.stderr).strip()[-400:]}")
    return json.loads(done.stdout)


def collector(blocks: list[dict]) -> dict:
    section = {
        name: spread.spread([one[name] for one in blocks])
        for name in ("rate", "rate_per_cpu_s", "broker_cpu_s_per_1000")
    }
    section |= {
        "sent": blocks[0]["sent"],
        "lost": sum(one["sent"] - one["stored"] for one in blocks),
        "commits": blocks[-1]["commits"],
    }
    print(
        f"\nCollector, fsync before PUBACK, {section['sent']:,} messages a block: "
        f"{text(section['rate'])} messages/s, ",
        end="",
    )
    print(
        f"{text(section['rate_per_cpu_s'])} per CPU second of its own; {section['lost']} lost; "
        f"{section['commits']}"
    )
    return section


def segments_block() -> dict:
    """Returns rows per second from sealed segments to Arrow batches, by the clock and per CPU
    second, with one process and with two.
    """
    with tempfile.TemporaryDirectory() as folder:
        rows = pipeline_load.write_log(Path(folder), SEGMENT_MESSAGES, segment_bytes=_SEGMENT_BYTES)
        paths = [str(path) for path in sorted(Path(folder).glob("*/*.seg"))]
        found = {
            str(count): pipeline_rates.rate(pipeline_rates.fast, paths, count) for count in (1, 2)
        }
    return {"rows": rows, "rates": found}


def segments(blocks: list[dict]) -> dict:
    section: dict = {"rows": blocks[0]["rows"]}
    for count in ("1", "2"):
        clock, cpu = zip(*(one["rates"][count] for one in blocks), strict=True)
        section[count] = {"rate": spread.spread(list(clock)), "per_cpu_s": spread.spread(list(cpu))}
        print(
            f"{'Segments to Arrow' if count == '1' else '':<20}{count} process(es): "
            f"{text(section[count]['rate'])} rows/s, ",
            end="",
        )
        print(f"{text(section[count]['per_cpu_s'])} per CPU second")
    return section


def spark() -> dict:
    """Returns rows per second through Spark on two threads, as the job reads; one figure of a warm
    session, so it has no spread.
    """
    with tempfile.TemporaryDirectory() as folder:
        rows = pipeline_load.write_log(Path(folder), SPARK_MESSAGES, segment_bytes=4 << 20)
        with pipeline_rates.spark_of() as spark:
            turns = [pipeline_rates.to_noop(spark, Path(folder), 4) for _ in ("cold", "warm")]
    rate = rows / turns[1][0]
    print(
        "\nSegments through Spark local[2] to the sink that keeps nothing: "
        f"{rate:,.0f} rows/s of {rows:,} rows"
    )
    return {"rows": rows, "rate": round(rate), "load": round(os.getloadavg()[0], 1)}


def text(one: dict[str, float]) -> str:
    return f"{one['median']:,.0f} ({one['low']:,.0f} .. {one['high']:,.0f})"

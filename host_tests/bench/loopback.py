#!/usr/bin/env python3
"""QoS 1 publishes/s over loopback to a real mosquitto: Outpost beside a raw socket loop of one
write and one read per message.

    .venv/bin/python host_tests/bench/loopback.py [--arch i386] [--messages 1500] [--rounds 3]
        [--blocks 7]

The firmware as boards run it (`outpost build`). A block is one process of the interpreter with its
own broker, with all kinds in turn in each of its rounds. Ratios with their spread over the blocks
(spread.py) say more than rates, because machines are noisy. Section `loopback` of run_bench.py.
Payload 64 bytes, topic 24. The raw loop keeps nothing and checks nothing. It waits in read(), which
on an idle machine costs it the time to wake up; "raw_polling" polls repeatedly instead, as a client
that never blocks must: this is the stricter limit.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent.parent
REPOSITORY = HOST_TESTS.parent

import spread  # noqa: E402 - the path must be set first
from outpost_tools.boards.files import firmware_build  # noqa: E402
from outpost_tools.errors import ToolError  # noqa: E402
from outpost_tools.loopback.broker import Broker  # noqa: E402
from outpost_tools.machine import interpreters  # noqa: E402

MPY_ARCHITECTURES = {"i386": "x86", "amd64": "x64", "armhf": "armv7emsp"}
LIMITS = ("raw", "raw_polling")


@functools.cache
def build(architecture: str) -> dict[str, bytes]:
    """Returns the firmware's files as boards get them; built once for all blocks."""
    return firmware_build.compile_all(
        firmware_build.sources(REPOSITORY / "firmware"), MPY_ARCHITECTURES[architecture]
    )


def measure(
    architecture: str, messages: int, rounds: int
) -> tuple[dict[str, list[float]], tuple[int, int]]:
    """Returns {kind: publishes/s of each round}, (writes, packets). Raises ToolError."""
    command = interpreters.find_micropython(architecture)
    if command is None:
        raise ToolError(f"no MicroPython for {architecture}: run `make setup`")
    with tempfile.TemporaryDirectory() as folder, Broker("mosquitto", Path(folder)) as broker:
        lib = Path(folder) / "lib"
        firmware_build.write(lib, build(architecture))
        path = os.pathsep.join(
            map(str, (lib, REPOSITORY / "boards/UNIX", REPOSITORY / "boards/BENCH"))
        )
        done = subprocess.run(
            [
                *command, str(HOST_TESTS / "bench" / "loopback_rates.py"),
                str(broker.port), str(messages), str(rounds),
            ],
            env=os.environ | {"MICROPYPATH": path}, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
    if done.returncode:
        raise ToolError((done.stdout + done.stderr).strip()[-400:])
    first, *lines = [line.split() for line in done.stdout.splitlines()]
    rates: dict[str, list[float]] = defaultdict(list)
    for kind, rate in lines:
        rates[kind].append(float(rate))
    return rates, (int(first[1]), int(first[2]))


def block(architecture: str = "i386", messages: int = 1500, rounds: int = 3) -> dict:
    """Runs one block. Raises ToolError."""
    rates, (writes, packets) = measure(architecture, messages, rounds)
    return {"rates": rates, "writes": writes, "packets": packets}


def loopback(blocks: list[dict]) -> dict:
    """Returns the section: {kind: its spread; `raw` and `raw_polling`: the spreads of its ratios to
    these}, and the writes per packet.
    """
    result: dict = {}
    for kind in blocks[0]["rates"]:
        rates = [one["rates"][kind] for one in blocks]
        result[kind] = spread.spread([statistics.median(each) for each in rates])
        for limit in LIMITS:
            limits = (one["rates"][limit] for one in blocks)
            result[kind][limit] = spread.spread(
                [spread.ratio(*pair) for pair in zip(rates, limits, strict=True)]
            )
    result["writes_a_packet"] = sum(one["writes"] for one in blocks) / sum(
        one["packets"] for one in blocks
    )
    show(result)
    return result


def show(section: dict) -> None:
    first = section["raw"]
    print(
        "\nQoS 1 publishes/s over loopback, the build for boards, "
        f"{section['writes_a_packet']:.2f} writes a packet; median of {first['blocks']} blocks, "
        f"and between what a second run's median lies in {first['holds']:.2%}:"
    )
    for kind, row in section.items():
        if isinstance(row, dict):
            ratios = (
                f"{row[at]['median']:>7.3f} ({row[at]['low']:.3f} .. {row[at]['high']:.3f}) of {at}"
                for at in LIMITS
            )
            print(f"{kind:<18}{row['median']:>9,.0f}" + "".join(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch", default="i386", help="default i386; amd64, armhf")
    parser.add_argument("--messages", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--blocks", type=int, default=7, help="an odd number; %(default)s, `make bench` takes 21"
    )
    args = parser.parse_args()
    try:
        loopback([block(args.arch, args.messages, args.rounds) for _ in range(args.blocks)])
    except ToolError as error:
        print(f"loopback: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

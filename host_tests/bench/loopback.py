#!/usr/bin/env python3
"""QoS 1 publishes/s over loopback to a real mosquitto: Outpost beside a raw socket loop of one write and one read a message.

    .venv/bin/python host_tests/bench/loopback.py [--arch i386] [--messages 2000] [--rounds 7]

The firmware as boards run it (`outpost build`). All in one process of the interpreter, interleaved, medians; a ratio says more
than a rate, since machines are noisy. Payload 64
bytes, topic 24. The raw loop keeps nothing and checks nothing. It waits in read(), which on an idle machine costs it the time to
wake up; "raw_polling" asks again and again instead, as a client that never blocks must: the stricter limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent.parent
REPOSITORY = HOST_TESTS.parent
sys.path[:0] = [str(REPOSITORY / "tools")]

from outpost_tools import interpreters  # noqa: E402 - the path must be set first
from outpost_tools.broker import Broker  # noqa: E402
from outpost_tools.errors import ToolError  # noqa: E402
from outpost_tools.firmware_build import output  # noqa: E402

MPY_ARCHITECTURES = {"i386": "x86", "amd64": "x64", "armhf": "armv7emsp"}


def measure(architecture: str, messages: int, rounds: int) -> tuple[dict[str, list[int]], tuple[int, int]]:
    """{kind: publishes/s of each round}, (writes, packets). Raises ToolError."""
    command = interpreters.find_micropython(architecture)
    if command is None:
        raise ToolError(f"no MicroPython for {architecture}: run `make setup`")
    with tempfile.TemporaryDirectory() as folder, Broker("mosquitto", Path(folder)) as broker:
        source = output.read(REPOSITORY / "firmware")
        compact = Path(folder) / "compact"
        output.write(compact, output.build(source, MPY_ARCHITECTURES[architecture], "compact"), source, "compact")
        path = os.pathsep.join(map(str, (compact, REPOSITORY / "boards/UNIX")))
        done = subprocess.run(
            [*command, str(HOST_TESTS / "support" / "loopback_rates.py"), str(broker.port), str(messages), str(rounds)],
            env=os.environ | {"MICROPYPATH": path}, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    if done.returncode:
        raise ToolError((done.stdout + done.stderr).strip()[-400:])
    first, *lines = [line.split() for line in done.stdout.splitlines()]
    rates: dict[str, list[int]] = defaultdict(list)
    for kind, rate in lines:
        rates[kind].append(int(rate))
    return rates, (int(first[1]), int(first[2]))


def ratios(rates: dict[str, list[int]], limit_kind: str) -> dict[str, float]:
    """Median over the rounds of the ratio to that raw loop in the same round."""
    raw = rates[limit_kind]
    return {
        kind: statistics.median(rate / limit for rate, limit in zip(values, raw, strict=True)) for kind, values in rates.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch", default="i386", help="default i386; amd64, armhf")
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    try:
        rates, (writes, packets) = measure(args.arch, args.messages, args.rounds)
    except ToolError as error:
        print(f"loopback: {error}", file=sys.stderr)
        return 2
    print(f"{args.arch}: {writes} writes for {packets} packets")
    polling = ratios(rates, "raw_polling")
    for kind, ratio in ratios(rates, "raw").items():
        rate = statistics.median(rates[kind])
        print(f"{kind:<18}{rate:>9.0f} publishes/s{ratio:>8.2f} of raw{polling[kind]:>8.2f} of raw_polling")
    return 0


if __name__ == "__main__":
    sys.exit(main())

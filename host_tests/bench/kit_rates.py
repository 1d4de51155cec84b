#!/usr/bin/env python3
"""Power cuts a second: `outpost test` beside a process for each cut, the same program, in turns in
one run.

    .venv/bin/python host_tests/bench/kit_rates.py [--turns 3]

The program: firmware/examples/publish.py, ten messages. One way cuts a process of the desktop board
(boards/UNIX, CPython and 32-bit MicroPython) in the n-th operation of its flash, and starts it
again until it has delivered to a real mosquitto; a program starts, connects and ends twice a cut.
The other way is the kit: every effect (flash, files, packets), in each way in which a cut may leave
it. Rates are of CPU seconds of this process and its children, then of the clock on the wall; the
ratio is what counts. Of a program that measures each minute, a process would take minutes a cut.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from outpost_tools.kit.bench import Bench
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine.interpreters import find_micropython

EXAMPLES = paths.FIRMWARE / "examples"
PROGRAM = "publish.py"
CUT_STATUS = 137  # of a process of boards/UNIX whose power was cut
MODES = ("nothing", "all", "first", "last", "random")
OPERATIONS = 8  # of the flash that are cut in a turn of the old way, each in one of MODES


def cpu_s() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        for used in [resource.getrusage(who)]
    )


def command(python: str) -> tuple[list[str], dict[str, str]]:
    if python == "c":
        return [sys.executable], {"PYTHONPATH": paths.joined(*paths.PRODUCT, paths.STUBS)}
    return find_micropython("i386"), {"MICROPYPATH": paths.joined(*paths.PRODUCT, ".frozen")}


def by_process(python: str, port: int) -> int:
    """Returns the number of cuts."""
    words, environment = command(python)
    cuts = 0
    for operation in range(1, OPERATIONS + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            settings = {"device_id": "kitchen", "broker_host": "127.0.0.1", "broker_port": port}
            (folder / "settings.json").write_text(json.dumps(settings | {"outbox_blocks": 4}))
            orders = {"cut_at_operation": operation, "cut_mode": MODES[operation % len(MODES)]}
            for expected in (CUT_STATUS, 0):
                (folder / "simulation.json").write_text(json.dumps(orders))
                done = subprocess.run(
                    [*words, str(EXAMPLES / PROGRAM)], cwd=folder, check=False,
                    env=os.environ | environment, capture_output=True, timeout=300,
                )  # fmt: skip
                assert done.returncode == expected, done.stderr
                orders = {}
        cuts += 1
    return cuts


def by_kit(python: str) -> int:
    """Returns the number of cuts, all with a good end."""
    return Bench(EXAMPLES, python=python).every_cut(PROGRAM, minutes=5).cuts


def rates(way, *arguments) -> tuple[float, float]:
    """Cuts a second, of CPU and of the clock on the wall."""
    began, began_s = cpu_s(), time.monotonic()
    cuts = way(*arguments)
    return cuts / (cpu_s() - began), cuts / (time.monotonic() - began_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder, Broker("mosquitto", Path(folder)) as broker:
        for python, name in (("c", "CPython"), ("m", "32-bit MicroPython")):
            pairs = [
                (rates(by_process, python, broker.port), rates(by_kit, python))
                for _ in range(turns)
            ]
            for at, clock in enumerate(("CPU", "wall")):
                ratios = sorted(new[at] / old[at] for old, new in pairs)
                old, new = (sorted(pair[way][at] for pair in pairs)[turns // 2] for way in (0, 1))
                print(
                    f"{name}, {clock}: {old:.1f} cuts/s by process, {new:.1f} by the kit: "
                    f"{ratios[turns // 2]:.0f} times ({ratios[0]:.0f} to {ratios[-1]:.0f})"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())

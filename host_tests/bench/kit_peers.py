#!/usr/bin/env python3
"""Outpost beside umqtt.simple, umqtt.robust and mqtt_as in one virtual world (boards/BENCH): the
minutes whose reading never came, over outages and over every power cut of a run.

    python host_tests/bench/kit_peers.py [--minutes 12] [--mqtt-as FOLDER]

Each program (boards/BENCH/example/garden.py, kit_programs/) takes a reading a minute and sends it
with QoS 1. The sensor's value is the number of the minute, so a minute of which nothing is at the
broker at the end is missing. What Outpost still holds in flash is not.

mqtt_as is no package that could be fetched: FOLDER is what its repository has, with the folder
mqtt_as in it. It alone runs under 32-bit MicroPython, which is far slower: CPython has no
memoryview of str, which mqtt_as takes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import fetch_peers
from outpost_tools.kit import trial
from outpost_tools.kit.bench import Bench
from outpost_tools.kit.outcome import World

HERE = Path(__file__).parent / "kit_programs"
PROGRAMS = {
    "Outpost": paths.BENCH_BOARD / "example" / "garden.py",
    "umqtt.simple, reset when anything fails": HERE / "with_umqtt_simple.py",
    "umqtt.robust": HERE / "with_umqtt_robust.py",
}
MQTT_AS = "mqtt_as, readings in a list"
PEERS = ("micropython-umqtt.simple", "micropython-umqtt.robust")
OUTAGES = {
    "no outage": (),
    "broker away, 3 min": (4, 7, "refuses"),
    "path silent, 3 min": (4, 7, "silent"),
    "no Wi-Fi, 3 min": (4, 7, "no_wifi"),
}


def missing(world: World, minutes: float) -> int:
    """Minutes, but the last, whose reading neither came nor is held."""
    there = {one.payload for one in world.broker.came} | {one.payload for one in world.pending()}
    return len({b"%d" % one for one in range(int(minutes) - 1)} - there)


def bench(folder: Path, program: Path, outage: tuple) -> Bench:
    made = Bench(folder, python="m" if program.stem == "with_mqtt_as" else "c")
    made.board = "ESP32_GENERIC"
    made.values["adc 34"] = lambda second: second // 60
    if outage:
        made.outage(*outage)
    return made


def row(folder: Path, program: Path, minutes: float) -> list[str]:
    """The cells of a program: minutes missing by outage, then the cuts, without an outage, after
    which one is missing."""
    found, lost = [], []
    for outage in OUTAGES.values():
        asked = bench(folder, program, outage)._asked(program.name, {"minutes": minutes})
        world, case = trial.run(asked)
        end = "" if world.why == "time" else f", ended: {case['error'].split(':')[0] or world.why}"
        found.append(f"{missing(world, minutes)}{end}")

    def count(world: World) -> None:
        lost.append(missing(world, minutes))

    asked = bench(folder, program, ())._asked(program.name, {"minutes": minutes}, count)
    cuts = trial.every_cut(asked).cuts
    return [*found, f"{sum(one > 0 for one in lost[1:])} of {cuts}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=12.0, help="of virtual time; default 12")
    parser.add_argument(
        "--mqtt-as", metavar="FOLDER", type=Path, help="with the folder mqtt_as in it"
    )
    options = parser.parse_args()
    programs = dict(PROGRAMS)
    if options.mqtt_as:
        programs[MQTT_AS] = HERE / "with_mqtt_as.py"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in programs.values():
            shutil.copy(program, folder)
        if options.mqtt_as:
            shutil.copytree(options.mqtt_as / "mqtt_as", folder / "mqtt_as")
        (folder / "umqtt").mkdir()
        for peer in map(fetch_peers.fetch, PEERS):
            if peer.reason:
                print(f"kit_peers: {peer.reason}", file=sys.stderr)
                return 1
            for source in peer.folder.glob("**/umqtt/*.py"):
                shutil.copy(source, folder / "umqtt")
        print("| program |", " | ".join([*OUTAGES, "power cuts"]), "|")
        print("|---|" + "---:|" * (len(OUTAGES) + 1))
        for title, program in programs.items():
            print("|", " | ".join([title, *row(folder, program, options.minutes)]), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())

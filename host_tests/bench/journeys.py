#!/usr/bin/env python3
"""The two journeys of a QoS 1 message through the library, counted in calls and in switches between
modules: publish -> wire, and PUBACK -> released.

    .venv/bin/python host_tests/bench/journeys.py            counts
    .venv/bin/python host_tests/bench/journeys.py --hops     each call too

On CPython, over the fakes: sys.setprofile sees every call of one of our functions. What is machine
code in MicroPython (copy, put_publish, puback_id) counts as one call, whatever it calls itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "host_tests")]

import paths  # noqa: E402 - the path must be set first

sys.path[:0] = paths.ALL

from bench_client import TOPIC, Bench, puback  # noqa: E402

OURS = str(REPOSITORY / "firmware")
MACHINE_CODE = ("portable.py", "bytecode.py")  # its replacement; the second name is that of 4dc0c3b
PAYLOAD = bytes(64)


def hops(function: Callable[[], object]) -> list[tuple[str, str]]:
    """Returns (module, function) of each call of ours that the call makes, in order."""
    found: list[tuple[str, str]] = []

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        file, caller = frame.f_code.co_filename, frame.f_back
        is_inside = caller and caller.f_code.co_filename.endswith(MACHINE_CODE)
        if event == "call" and file.startswith(OURS) and not is_inside:
            found.append((Path(file).stem, frame.f_code.co_name))

    sys.setprofile(on_event)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found


def switches(path: list[tuple[str, str]]) -> int:
    """Returns how often a call is in another module than the call before."""
    return sum(one[0] != other[0] for one, other in pairwise(path))


def journeys() -> dict[str, list[tuple[str, str]]]:
    bench = Bench().connect()
    bench.publish(b"warm").poll(2).say(puback(1))
    now_ms = bench.now_ms  # time stands still, so no tick comes
    client = bench.client
    client.poll(now_ms)
    client.poll(now_ms)
    found = {
        "publish -> stored": hops(lambda: client.publish(TOPIC, PAYLOAD)),
        "poll -> wire": hops(lambda: client.poll(now_ms)),
    }
    bench.stream.say(puback(2))
    path = hops(lambda: client.poll(now_ms))
    found["PUBACK -> freed"] = path[: [name for _, name in path].index("discard") + 1]
    assert client.is_drained()
    return found


def report(words: list[str] | None = None) -> dict[str, tuple[int, int]]:
    """Prints and returns {journey: (calls, switches)}."""
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--hops", action="store_true", help="print each call")
    options = parser.parse_args(words)
    counts = {}
    for name, path in journeys().items():
        counts[name] = len(path), switches(path)
        modules = len({module for module, _ in path})
        calls, changes = counts[name]
        print(f"{name:<20}{calls:>4} calls {changes:>3} switches between {modules} modules")
        if options.hops:
            print("\n".join(f"    {module}.{function}" for module, function in path))
    return counts


if __name__ == "__main__":
    report()

"""Counts machine instructions: what a publish costs, without noise. `instructions` of
run_bench.py.

32-bit MicroPython for x86, with the firmware's .mpy files as boards get them. Counted by single
steps (instruction_count.py), so a busy machine gives the same figures; the kernel's part is not
counted. The chip is RAM that copies; what the chip and its driver's Python take is counted
separately. The broker is real. Takes a minute or two on a quiet machine.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent.parent

from tqdm import tqdm  # noqa: E402

import growth  # noqa: E402 - the path must be set first
import instruction_count  # noqa: E402
import peers  # noqa: E402
import size_report  # noqa: E402
from outpost_tools.errors import ToolError  # noqa: E402

PEERS = ("raw", "simple", "robust")
SETS = ("ours", "copies", "growth", "windows")
CHIP = "flash publish, of this the simulated chip"


def instructions(offline: bool = False, sets: tuple[str, ...] = SETS) -> dict[str, int]:
    """Returns {what: instructions}. Raises ToolError."""
    reason = instruction_count.why_not()
    if reason:
        raise ToolError(f"instructions: {reason}")
    with peers.rig(offline) as (one, port):
        found = count(one, port, (*sets, *here(one)))
    show(found)
    return found


def here(one: peers.Rig) -> list[str]:
    return [name for name in PEERS if name == "raw" or one.has(name)]


def count(one: peers.Rig, port: int, words: tuple[str, ...]) -> dict[str, int]:
    """Runs instruction_ops.py under the counter."""
    boards = peers.REPOSITORY / "boards"
    places = {"b": boards / "UNIX", "v": boards / "BENCH"}
    path = ".:lib:" + size_report.linked(one.folder, places)
    command = [*one.command, "-X", "heapsize=16M", "-m", "instruction_ops", str(port), *words]
    try:
        with (
            contextlib.chdir(one.folder),
            tqdm(desc="instructions", unit=" stretches", leave=False, disable=None) as bar,
        ):
            found = instruction_count.count(
                command, os.environ | {"MICROPYPATH": path}, lambda name, count: bar.update()
            )
    except ChildProcessError as error:
        raise ToolError(f"instructions: {error}") from None
    del found["empty"]
    return _joined(found)


def _joined(found: dict[str, int]) -> dict[str, int]:
    """Joins the steps of the messages that measure only growth into one figure; of a peer's
    repetitions, takes the middle, least and most.
    """
    start = "client, payload "
    sizes = [
        name.removesuffix(" publish")
        for name in found
        if name.startswith(start) and name.endswith(" publish")
    ]
    wholes = {name: growth.whole(found, name) for name in sizes}
    for peer in PEERS:
        times = sorted(value for name, value in found.items() if name.startswith(f"{peer}, time "))
        if times:
            wholes |= {
                peer: times[len(times) // 2],
                f"{peer}, least": times[0],
                f"{peer}, most": times[-1],
            }
    return {
        name: value
        for name, value in found.items()
        if not name.startswith(start) and ", time " not in name
    } | wholes


def show(found: dict[str, int]) -> None:
    print("\nInstructions, 32-bit MicroPython for x86; 24 B of topic, 64 B of payload:")
    for name, value in found.items():
        print(f"{name:<44}{value:>12,}")
    if "RAM publish" in found:
        print("\nOne QoS 1 message with its PUBACK:")
        rows = {f"outpost, {kind}": growth.whole(found, kind) for kind in ("RAM", "flash")}
        rows["outpost, flash, but for the simulated chip"] = rows["outpost, flash"] - found[CHIP]
        rows |= {name: found[name] for name in PEERS if name in found}
        for name, value in rows.items():
            print(f"{name:<44}{value:>12,}{value / rows['outpost, flash']:>8.2f} of outpost, flash")
    if "RAM, payload 16" in found:
        show_growth(found)


def show_growth(found: dict[str, int]) -> None:
    print(
        f"\n{'Growth: a line through the counts':<48}"
        f"{'base':>10}{'a byte':>8}{'in copies':>10}{'worst':>8}"
    )
    lines = growth.lines(found)
    copy = next(iter(lines.values())).slope
    for name, one in lines.items():
        print(
            f"{name:<48}{one.base:>10,.0f}{one.slope:>8.1f}"
            f"{one.slope / copy:>10.2f}{one.worst:>8.1%}"
        )
    for one in growth.verdicts(found):
        print(f"{'' if one.holds else 'NOT AS IT SHOULD BE: '}{one.what}: {one.says}")

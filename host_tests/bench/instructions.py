"""Machine instructions, counted: what a publish costs where no noise is. Section `instructions` of run_bench.py.

32-bit MicroPython for x86, the firmware as .mpy with its own names (compact ones change a few per cent). Counted by single steps
(support/instruction_count.py), so the same on a busy machine; the kernel's part is left out. The chip is RAM that copies, its
driver's Python included (some 5,000 instructions a call); the broker is real. A minute or two on a quiet machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HOST_TESTS / "support")]

import peers  # noqa: E402 - the path must be set first
from tqdm import tqdm  # noqa: E402

import instruction_count  # noqa: E402
from outpost_tools.errors import ToolError  # noqa: E402
from outpost_tools.firmware_build import output  # noqa: E402

PEERS = ("raw", "simple", "robust")
SETS = ("ours", "parts", "mount", "growth", "windows")
STEPS = ("publish", "send", "PUBACK")


def instructions(offline: bool = False, sets: tuple[str, ...] = SETS) -> dict[str, int]:
    """{what: instructions}. Raises ToolError."""
    reason = instruction_count.why_not()
    if reason:
        raise ToolError(f"instructions: {reason}")
    with peers.rig(offline) as (one, port):
        names = [name for name in PEERS if name == "raw" or one.has(name)]
        found = count(one, port, (*sets, *names))
    show(found)
    return found


def count(one: peers.Rig, port: int, words: tuple[str, ...]) -> dict[str, int]:
    """Runs support/instruction_ops.py under the counter."""
    source = output.read(peers.REPOSITORY / "firmware")
    output.write(one.folder / "plain", output.build(source, "x86", "plain"), source, "plain")
    parts = [one.folder, one.folder / "plain", *(peers.REPOSITORY / part for part in ("boards/UNIX", "host_tests/support"))]
    command = [*one.command, "-X", "heapsize=16M", str(HOST_TESTS / "support" / "instruction_ops.py"), str(port), *words]
    try:
        with tqdm(desc="instructions", unit=" stretches", leave=False) as bar:
            environment = os.environ | {"MICROPYPATH": ":".join([*map(str, parts), ".frozen"])}
            found = instruction_count.count(command, environment, lambda name, count: bar.update())
    except ChildProcessError as error:
        raise ToolError(f"instructions: {error}") from None
    del found["empty"]
    return found


def total(found: dict[str, int], kind: str) -> int:
    """Of one QoS 1 message with its acknowledgement."""
    return sum(found[f"{kind} {step}"] for step in STEPS)


def slope(found: dict[str, int], first: str, second: str, size: int) -> float:
    """Instructions a byte between two measurements that differ by so many bytes."""
    return (found[second] - found[first]) / size


def show(found: dict[str, int]) -> None:
    print("\nInstructions, 32-bit MicroPython; 24 B of topic, 64 B of payload:")
    for name, value in found.items():
        print(f"{name:<44}{value:>12,}")
    if "RAM publish" in found:
        print("\nOne QoS 1 message with its PUBACK:")
        rows = {f"outpost, {kind}": total(found, kind) for kind in ("RAM", "flash")} | {n: found[n] for n in PEERS if n in found}
        for name, value in rows.items():
            print(f"{name:<44}{value:>12,}{value / rows['outpost, flash']:>8.2f} of outpost, flash")
    if "copy of 200 bytes" in found and "RAM, payload 16000" in found:
        print("\nInstructions a byte of payload, beside those of one copy and one CRC:")
        for name, value in slopes(found).items():
            print(f"{name:<44}{value:>12.1f}")


def slopes(found: dict[str, int]) -> dict[str, float]:
    return {
        "copy": slope(found, "copy of 100 bytes", "copy of 200 bytes", 100),
        "CRC": slope(found, "CRC of 100 bytes", "CRC of 200 bytes", 100),
        "RAM, 256 to 4,096 B (1 copy)": slope(found, "RAM, payload 256", "RAM, payload 4096", 3840),
        "RAM, 4,096 to 16,000 B": slope(found, "RAM, payload 4096", "RAM, payload 16000", 11904),
        "flash, 256 to 1,024 B (1 copy, 2 CRC, 3 of pages)": slope(found, "flash, payload 256", "flash, payload 1024", 768),
        "flash, 1,024 to 2,048 B": slope(found, "flash, payload 1024", "flash, payload 2048", 1024),
    }

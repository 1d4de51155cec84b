#!/usr/bin/env python3
"""Measures side by side, prints tables, writes build/bench.json: what `make bench` runs.

    .venv/bin/python host_tests/bench/run_bench.py [SECTION ...]      all, or those named

A section is a function that prints its table and returns what belongs under its name in the file; sections not run keep what the
file has of them. Sections: flash traffic and mount (here), `peers` and `peer_sizes` (peers.py), `instructions` (instructions.py).
`environment`: on what the last one ran, and when.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent.parent
REPOSITORY = HOST_TESTS.parent
OUTPUT = REPOSITORY / "build" / "bench.json"
sys.path[:0] = [str(REPOSITORY / "tools")]

import instructions  # noqa: E402 - the path must be set first
import peers  # noqa: E402

from outpost_tools import interpreters  # noqa: E402
from outpost_tools.errors import ToolError  # noqa: E402

_PATHS = ("firmware", "boards/UNIX", "host_tests/support")
_COLUMNS = {  # field: (heading, format)
    "store": ("store", "<34"),
    "erases": ("erases", ">8.4f"),
    "programs": ("programs", ">9.2f"),
    "bytes_programmed": ("B programmed", ">13.0f"),
    "worst_block": ("worst block", ">12"),
    "reads": ("reads", ">8.1f"),
    "bytes_read": ("B read", ">8.0f"),
    "heap_net": ("heap net B", ">11.0f"),
    "heap_gross": ("gross B", ">9.0f"),
}


def micropython(architecture: str, code: str) -> str:
    """What the code prints. Raises ToolError."""
    command = interpreters.find_micropython(architecture)
    if command is None:
        raise ToolError(f"no MicroPython for {architecture}: run `make setup`")
    paths = ":".join([*(str(REPOSITORY / path) for path in _PATHS), ".frozen"])
    done = subprocess.run(
        [*command, "-X", "heapsize=32M", "-c", code],
        env=os.environ | {"MICROPYPATH": paths}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise ToolError(f"{architecture}: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def outbox_vs_littlefs() -> list[dict]:
    """The outbox beside a user's own stores on littlefs, same chip, 32-bit MicroPython."""
    rows = [json.loads(line) for line in micropython("i386", "import littlefs_bench; littlefs_bench.main()").splitlines()]
    for unit_bytes, port in ((256, "rp2"), (32, "esp32")):
        print(f"\nA message of 24 + 64 bytes, acknowledged 8 later; program unit {unit_bytes} ({port}); per message, 32-bit:")
        print("".join(f"{heading:{form.split('.')[0]}}" for heading, form in _COLUMNS.values()))
        for row in rows:
            if row["unit_bytes"] == unit_bytes:
                print("".join(f"{row[name]:{form}}" for name, (_, form) in _COLUMNS.items()))
    print("\nworst block: erases of the most erased block over all 780 messages.")
    return rows


def mount() -> list[dict]:
    """What a deep-sleep board pays at each wake before it can append."""
    rows = [json.loads(line) for line in micropython("i386", "import mount_bench; mount_bench.main()").splitlines()]
    print("\nMount, 32-bit MicroPython on this machine; a read is 768 bytes; heap is given back:")
    print(f"{'blocks':>7}{'held':>7}{'reads':>7}{'reads to 1st message':>22}{'heap B':>8}{'us':>8}")
    for row in rows:
        print(
            f"{row['blocks']:>7}{row['held']:>7}{row['reads']:>7}{row['reads_to_first_message']:>22}"
            f"{row['heap']:>8}{row['microseconds']:>8}"
        )
    return rows


SECTIONS = {
    "peers": peers.peers,
    "peer_sizes": peers.peer_sizes,
    "outbox_vs_littlefs": outbox_vs_littlefs,
    "mount": mount,
    "instructions": instructions.instructions,
}


def environment() -> dict[str, str | int]:
    """On what this ran. The load says whether the machine was busy with something else."""
    found = {arch: interpreters.find_micropython(arch) for arch in ("i386", "armhf")}
    load = f"{os.getloadavg()[0]:.1f}"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count() or 0,
        "load before": load,
        "machine": platform.machine(),
        "Python": platform.python_version(),
    } | {arch: interpreters.describe(command) if command else "not here" for arch, command in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], metavar="SECTION", help=", ".join(SECTIONS))
    names = parser.parse_args().sections or list(SECTIONS)
    try:
        results = {"environment": environment()} | {name: SECTIONS[name]() for name in names}
        kept = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    except (ToolError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(kept | results, indent=1) + "\n")
    print(f"written to {OUTPUT.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

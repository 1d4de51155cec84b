#!/usr/bin/env python3
"""The ledger of a wake on the emulated RP2040: ms of each step from the import to the
acknowledgement, as files and frozen, without and with TLS: section `chip_wake` of run_bench.py.

    .venv/bin/python host_tests/bench/chip_wake.py [-k ROW] [--write] [--firmware CHECKOUT]

The network is the port's own lwIP and mbedTLS, over PPP to a real mosquitto on this machine: the
steps "radio" and "join" are those of PPP, and not of a Wi-Fi chip, which takes 0.8 s and 1 to 3 s.
The chip runs no faster than real time, so what the broker answers takes what it takes there.
--write: into the bench's page. --firmware: another checkout, as files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import make_certificates
import marked_table
from outpost_tools.boards.files import payload
from outpost_tools.boards.port import kinds
from outpost_tools.boards.selftest import wake_ledger
from outpost_tools.errors import ToolError
from rp2040 import core, image, littlefs
from rp2040.board import ON_CHIP, Board, flash_image
from rp2040.compiled import compile_one
from rp2040.ppp_line import PppLine
from rp2040.uart_link import Network
from tls_servers import tls_servers

PAGE = paths.HOST_TESTS / "bench" / "README.md"
BLOCKS, TLS_PORT = 64, 8883
FIRST_START_S, WAKE_S = 60, 60
_IS_PINNED = 400  # turns of the program's loop: it has stored and sent
_RESULT, _SCRATCH = "/ledger", 7  # a file; the register of the watchdog that says that it is there
# boot.py, since a frozen main.py goes before one in the filesystem. It has no console.
_FIRST_LINES = """
import ppp_wlan
lines = []

def print(*words):
    lines.append(" ".join([str(word) for word in words]))
"""
_LAST_LINES = """
import os
from machine import mem32
try:
    os.stat("/outbox/map")
    is_pinned = True
except OSError:
    is_pinned = False
if is_pinned:
    try:
        wake(30_000)
    except Exception as error:
        lines.append(repr(error))
    with open("/ledger", "w") as file:
        file.write("\\n".join(lines))
    mem32[0x40058028] = 1
"""
_SETTINGS = {
    "broker_host": "localhost",  # the name in the certificate
    "wifi_ssid": "Home",
    "interval_ms": 1000,
    "outbox_blocks": BLOCKS,
}
_TLS = {"tls": True, "broker_port": TLS_PORT, "ca_file": "/tls/ca.der"}
ROWS = {
    "files, plain": ("pico-ppp", {}),
    "files, TLS": ("pico-ppp", _TLS),
    "frozen, plain": ("pico-ppp-outpost", {}),
    "frozen, TLS": ("pico-ppp-outpost", _TLS),
}


def section(root: Path = paths.REPOSITORY, pattern: str = "") -> dict[str, dict[str, int]]:
    """Prints and returns {row: {step: ms}}; of another checkout, only the rows as files. Raises
    ToolError."""
    print(f"\nLedger of a wake, RP2040 (emulated), {BLOCKS} blocks, lwIP and mbedTLS over PPP:")
    found = {}
    with _servers() as (network, ca):
        for number, (title, (interpreter, more)) in enumerate(ROWS.items()):
            if pattern not in title or (title.startswith("frozen") and root != paths.REPOSITORY):
                continue
            settings = _SETTINGS | more | {"device_id": f"wake-{number}"}
            ledger = _wake(root, interpreter, settings, {"/tls/ca.der": ca}, network)
            print(f"  {title}: {ledger.text()}", flush=True)
            found[title] = ledger.ms
    return found


@contextmanager
def _servers() -> Iterator[tuple[Network, bytes]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = folder / "certificates"
        make_certificates.make_all(made)
        with tls_servers(folder, made) as (broker, port, _):
            ports = {1883: broker.port, TLS_PORT: port}
            yield Network(ports=ports), (made / "ca.der").read_bytes()


def _wake(
    root: Path, interpreter: str, settings: dict, files: dict[str, bytes], network: Network
) -> wake_ledger.Ledger:
    found = image.find(interpreter)
    if found is None:
        raise ToolError(f"no image {interpreter} in the cache; {image.HINT}")
    if not interpreter.endswith("outpost"):
        files |= payload.build(root, kinds.load(root, "RPI_PICO_W"), "armv6m")
    files["/boot.py"] = (_FIRST_LINES + wake_ledger.SCRIPT + _LAST_LINES).encode()
    stand_in = {"/lib/ppp_wlan.mpy": compile_one(ON_CHIP / "ppp_wlan.py", "ppp_wlan.py")}
    fresh = flash_image(image.load(found), files, settings, stand_in)
    first = Board(fresh, network, speed=1.0, link=PppLine)
    first.run_for(FIRST_START_S, lambda: first.feeds > _IS_PINNED)
    first.close()
    board = Board(first.image, network, speed=1.0, link=PppLine)
    scratch = board.chip.mcu.watchdog.scratch_data
    board.run_for(WAKE_S, lambda: scratch[_SCRATCH] == 1)
    board.close()
    said = littlefs.read(board.image).get(_RESULT, b"").decode()
    ledger = wake_ledger.parse(said.splitlines())
    if not ledger.is_whole:
        raise ToolError(f"the wake did not end:\n{said}{board.text[-1000:]}")
    return ledger


def table(rows: dict[str, dict[str, int]]) -> str:
    """Returns the ledgers in Markdown, a step a line."""
    steps = [step for step in wake_ledger.STEPS if any(step in row for row in rows.values())]
    lines = [f"| ms | {' | '.join(rows)} |", "|---|" + "---:|" * len(rows)]
    for step in steps:
        cells = (f"{row[step]:,}" if step in row else "–" for row in rows.values())
        lines.append(f"| {step} | {' | '.join(cells)} |")
    sums = (f"{sum(row.values()):,}" for row in rows.values())
    return "\n".join([*lines, f"| **together** | {' | '.join(sums)} |"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--firmware", type=Path, default=paths.REPOSITORY, metavar="CHECKOUT")
    parser.add_argument("-k", dest="pattern", default="", help="rows with this in their name")
    parser.add_argument("--write", action="store_true", help="into the bench's page")
    args = parser.parse_args()
    try:
        core.library()
        rows = section(args.firmware.resolve(), args.pattern)
        if args.write and rows.keys() == ROWS.keys():
            marked_table.write(PAGE, "wake", table(rows))
    except (ToolError, core.NoCompiler) as error:
        print(f"chip_wake: not measured: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

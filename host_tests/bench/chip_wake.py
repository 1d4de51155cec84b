#!/usr/bin/env python3
"""The ledger of a wake on the emulated RP2040: ms of each step from the import to the
acknowledgement, as files and frozen, without and with TLS: section `chip_wake` of run_bench.py.

    .venv/bin/python host_tests/bench/chip_wake.py [--firmware CHECKOUT]

The network is the port's own lwIP and mbedTLS, over PPP to a real mosquitto on this machine: the
steps "radio" and "join" are those of PPP, and not of a Wi-Fi chip, which takes 0.8 s and 1 to 3 s.
The chip runs no faster than real time, so what the broker answers takes what it takes there.
--firmware: another checkout, as files.
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
from outpost_tools.common.errors import ToolError
from outpost_tools.device import kinds, payload, wake_ledger
from rp2040 import core, image
from rp2040.board import ON_CHIP, Board, flash_image
from rp2040.compiled import compile_one
from rp2040.ppp_line import PppLine
from rp2040.uart_link import Network
from tls_servers import tls_servers

BLOCKS, TLS_PORT = 64, 8883
FIRST_START_S, WAKE_S = 60, 60
_IS_PINNED = 400  # turns of the program's loop: it has stored and sent
# Runs before main.py, which stays the program's own, in a file or frozen.
_LEDGER = """
import os
import ppp_wlan
try:
    os.stat("/outbox/map")
    is_pinned = True
except OSError:
    is_pinned = False
if is_pinned:
    wake(30_000)
    print("end of the ledger")
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


def section(root: Path = paths.REPOSITORY) -> dict[str, dict[str, int]]:
    """Prints and returns {row: {step: ms}}; of another checkout, only the rows as files. Raises
    ToolError."""
    print(f"\nLedger of a wake, RP2040 (emulated), {BLOCKS} blocks, lwIP and mbedTLS over PPP:")
    found = {}
    with _servers() as (network, ca):
        for number, (title, (interpreter, more)) in enumerate(ROWS.items()):
            if title.startswith("frozen") and root != paths.REPOSITORY:
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
    files["/boot.py"] = (wake_ledger.SCRIPT + _LEDGER).encode()
    if not interpreter.endswith("outpost"):
        files |= payload.build(root, kinds.load(root, "RPI_PICO_W"), "armv6m")
    stand_in = {"/lib/ppp_wlan.mpy": compile_one(ON_CHIP / "ppp_wlan.py", "ppp_wlan.py")}
    fresh = flash_image(image.load(found), files, settings, stand_in)
    first = Board(fresh, network, speed=1.0, link=PppLine)
    first.run_for(FIRST_START_S, lambda: first.feeds > _IS_PINNED)
    first.close()
    board = Board(first.image, network, speed=1.0, link=PppLine)
    board.run_for(WAKE_S, lambda: "end of the ledger" in board.text)
    board.close()
    ledger = wake_ledger.parse(board.text.splitlines())
    if not ledger.is_whole:
        raise ToolError(f"the wake did not end:\n{board.text[-1000:]}")
    return ledger


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--firmware", type=Path, default=paths.REPOSITORY, metavar="CHECKOUT")
    try:
        core.library()
        section(parser.parse_args().firmware.resolve())
    except (ToolError, core.NoCompiler) as error:
        print(f"chip_wake: not measured: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

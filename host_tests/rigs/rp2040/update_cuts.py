#!/usr/bin/env python3
"""Power cuts while `outpost update` replaces every module of a board: `make update-cuts`.

    .venv/bin/python host_tests/rigs/rp2040/update_cuts.py [--cuts N] [--seed N] [--plain]

The emulated chip has the heap and the filesystem of a stock Pico W (848 KB, 64 blocks of them the
outbox's), the port's own lwIP, and TLS to a real mosquitto unless --plain. Two of three updates
bring good firmware, the third one that raises at its import. The power goes one to ten times in
each, at flash operations chosen by a seeded random generator, from the first message to the last
file of update/. The next update begins with the flash as the last one left it.

At the end of each the board has every file of one firmware, as the exit status says, and nothing of
the update is left; it sends its readings again. Otherwise status 1, with the cuts of that update.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import paths

sys.path.extend(paths.ALL)

import make_certificates
from outpost_tools import cli
from outpost_tools.boards.files import needed, payload
from outpost_tools.boards.port import kinds
from outpost_tools.errors import ToolError
from outpost_tools.machine import source_tree
from rp2040 import core, image, littlefs
from rp2040.board import ON_CHIP, Board, flash_image
from rp2040.compiled import compile_one
from rp2040.flash import Cut, Operation, PowerCut
from rp2040.mqtt_peer import Violation
from rp2040.ppp_line import PppLine
from rp2040.uart_link import Network
from tls_servers import tls_servers
from updated_board import KEY, record_of

KIND, TLS_PORT = "RPI_PICO_W", 8883
CUTS, MOST_CUTS = 50, 10  # in all; in one update
CHIP_S, TIDY_S, RUN_S = 1200.0, 60, 90  # of the chip: at most
ANSWER_S, REAL_S = 900, 3600  # real: at most; a busy machine may be far slower than the chip
STACK_AT, STACK_BYTES = 0x40000, 8192  # of the interpreter, in the RAM
OPERATIONS = {True: 4100, False: 5100}  # of an update, by is_good, before one was seen
SETTINGS = {
    "device_id": "b1",
    "broker_host": "localhost",  # the name in the certificate
    "mode": "broker",
    "wifi_ssid": "Home",
    "wifi_password": "correct horse",
    "interval_ms": 5000,
    "commands": True,
    "update_key": KEY,
}
TLS = {"tls": True, "broker_port": TLS_PORT}
BAD = "raise RuntimeError('bad firmware')\n"


def say(text: str) -> None:
    print(f"updates: {text}", flush=True)


def payload_of(root: Path, settings: dict) -> dict[str, bytes]:
    full = needed.defaults() | settings
    return payload.build(root, kinds.load(root, KIND), "armv6m", full)


def checkout(folder: Path, number: int, *, is_bad: bool = False) -> Path:
    """Another version of the firmware: each of its files differs, by the numbers of its lines."""
    for room in ("firmware", "boards"):
        shutil.copytree(paths.REPOSITORY / room, folder / room)
        for path in (folder / room).rglob("*.py"):
            path.write_text("\n" * number + path.read_text())
    version = folder / "firmware/outpost/__init__.py"
    version.write_text(f'__version__ = "9.9.{number}"\n')
    if is_bad:
        path = folder / "firmware/station/station.py"
        path.write_text(path.read_text() + BAD)
    return folder


@dataclass(frozen=True)
class Firmware:
    root: Path
    files: dict[str, bytes]
    is_good: bool


class Sending(threading.Thread):
    """`outpost update`, while the chip runs. status: its exit status, when it has ended."""

    def __init__(self, port: int, toml: Path) -> None:
        super().__init__(daemon=True)
        self._words = ["update", "--broker", f"127.0.0.1:{port}", "--within", "10m"]
        self._words += ["--timeout", str(ANSWER_S), str(toml)]
        self.status: int | None = None

    def run(self) -> None:
        self.status = cli.main(self._words)


class Life:
    """A board that is updated again and again. broker_port: for the command. network: the
    board's."""

    def __init__(
        self, flash: bytes, old: dict[str, bytes], broker_port: int, network: Network, toml: Path
    ) -> None:
        self._network, self._broker_port, self._toml = network, broker_port, toml
        self.files = old
        self.board = self._started(flash)
        self._until_fed()
        self.cuts: Counter[str] = Counter()  # by the phase of the update
        self.operations = 0  # of the present update, over all its starts
        self._at: list[tuple[int, int | None]] = []  # the cuts to come: operation, bytes done
        self._rng = random.Random()

    def _started(self, flash: bytes) -> Board:
        return Board(flash, self._network, link=PppLine)

    def _until_fed(self) -> None:
        if not self.board.run_for(RUN_S, lambda: self.board.feeds > 20):
            raise Violation(f"main.py does not run:\n{self.board.text[-1500:]}")

    def update(self, firmware: Firmware, cuts: list[int], rng: random.Random) -> str:
        """Returns how it ended. cuts: after so many flash operations. Raises Violation."""
        self.operations, self._rng = 0, rng
        self._at = [(at, rng.choice((0, None, rng.randrange(256)))) for at in sorted(cuts)]
        self.board.chip.flash.on_operation = self._count
        with mock.patch.object(source_tree, "repository", lambda: firmware.root), _quiet() as said:
            sending = Sending(self._broker_port, self._toml)
            sending.start()
            self._run(CHIP_S, lambda: not sending.is_alive())
        if sending.status not in (0, 1):
            raise Violation(f"exit status {sending.status}: {said.getvalue()[-500:]}")
        for _ in range(TIDY_S):
            self._run(1, None)
            if not any(path.startswith("/update/") for path in littlefs.read(self.board.image)):
                break
        return self._checked(firmware, sending.status, said.getvalue())

    def _run(self, seconds: float, is_done) -> None:
        """As Board.run_for(); a power cut is followed by another start."""
        until = time.monotonic() + REAL_S
        while time.monotonic() < until:
            try:
                self.board.run_for(seconds, is_done)
                return
            except PowerCut:
                self.board.close()
                self._count_cut(self.board.image)
                self.board = self._started(self.board.image)
                self.board.chip.flash.on_operation = self._count
            except RuntimeError as error:  # the processor met what is no instruction
                raise Violation(f"{error}; {_state(self.board)}") from None

    def _count(self, operation: Operation) -> None:
        self.operations += 1
        if not self._at or self.operations < self._at[0][0]:
            return
        _, done = self._at.pop(0)
        if done is not None:
            done = min(done * operation.length // 256, operation.length - 1)
        self.board.chip.flash.cut = Cut(operation.number, done, self._rng.getrandbits(8))

    def _count_cut(self, flash: bytes) -> None:
        phase = littlefs.read(flash).get("/update/phase", b"arriving").split(b" ")[0].decode()
        self.cuts[phase] += 1

    def _checked(self, firmware: Firmware, status: int, said: str) -> str:
        wanted = firmware.files if status == 0 else self.files
        if status == 0 and not firmware.is_good:
            raise Violation("done, with bad firmware")
        found = littlefs.read(self.board.image)
        wrong = [path for path, data in wanted.items() if found.get(path) != data]
        left = [path for path in found if path.startswith("/update/")]
        if wrong or left:
            raise Violation(f"exit status {status}; wrong: {wrong[:5]}, left: {left[:5]}\n{said}")
        self.files = wanted
        connects = self.board.link.connects
        self.board.close()
        self.board = self._started(self.board.image)
        if not self.board.run_for(RUN_S, lambda: self.board.link.connects > 0):
            raise Violation(f"does not connect after {connects} before:\n{self.board.text[-1500:]}")
        self._until_fed()
        return "done: new" if status == 0 else "taken back: old"


def _state(board: Board) -> str:
    """Returns the registers, how much of the stack was ever used, and the end of what it said."""
    used = bytes(board.chip.mcu.sram)[STACK_AT : STACK_AT + STACK_BYTES].lstrip(b"\0")
    registers = " ".join(f"{value:08x}" for value in board.chip.core.state.r)
    return (
        f"registers {registers}; {len(used)} of {STACK_BYTES} bytes of the stack were used; "
        f"{len(board.chip.resets)} resets\n{board.text[-1500:]}"
    )


@contextlib.contextmanager
def _quiet() -> Iterator[io.StringIO]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield said


@contextlib.contextmanager
def lives(folder: Path, *, is_plain: bool) -> Iterator[tuple[Life, list[Firmware]]]:
    """A board as `outpost flash` leaves it, started; two good firmwares and a bad one. Raises
    ToolError."""
    certificates = folder / "certificates"
    make_certificates.make_all(certificates)
    settings = SETTINGS | ({} if is_plain else TLS)
    on_board = settings | ({} if is_plain else {"ca_file": "/tls/ca.der"})
    local = settings | ({} if is_plain else {"ca_file": str(certificates / "ca.pem")})
    toml = folder / "b1.toml"
    toml.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in local.items()))
    roots = [checkout(folder / f"v{number}", number, is_bad=number == 3) for number in (1, 2, 3)]
    every = [Firmware(root, payload_of(root, settings), root is not roots[2]) for root in roots]
    old = every[0].files
    added = {
        "/outpost/installed.json": json.dumps(record_of(KIND, old)).encode(),
        "/tls/ca.der": (certificates / "ca.der").read_bytes(),
        "/boot.py": b"import small_heap\n",
    }
    stand_ins = {
        f"/lib/{one}.mpy": compile_one(ON_CHIP / f"{one}.py", f"{one}.py")
        for one in ("ppp_wlan", "small_heap")
    }
    interpreter = image.find("pico-ppp")
    if interpreter is None:
        raise ToolError(f"no image pico-ppp in the cache; {image.HINT}")
    flash = flash_image(image.load(interpreter), old | added, on_board, stand_ins)
    with tls_servers(folder, certificates) as (broker, tls_port, _):
        network = Network(ports={1883: broker.port, TLS_PORT: tls_port})
        life = Life(flash, old, broker.port, network, toml)
        say(f"{len(old)} files of {sum(map(len, old.values())):,} bytes, each of them replaced")
        yield life, every
        life.board.close()


def run(cuts: int, seed: int, *, is_plain: bool) -> Counter[str]:
    """Prints a line for each update. Returns how they ended. Raises Violation or ToolError."""
    rng, ends, done, began = random.Random(seed), Counter(), 0, time.monotonic()
    lengths = dict(OPERATIONS)
    with (
        tempfile.TemporaryDirectory() as name,
        lives(Path(name), is_plain=is_plain) as (
            life,
            every,
        ),
    ):
        number = 0
        while done < cuts:
            number += 1
            firmware = next(one for one in every[::-1] if one.is_good == bool(number % 3))
            if firmware.files == life.files:
                firmware = every[0]
            count = min(rng.randint(1, MOST_CUTS), cuts - done)
            most = lengths[firmware.is_good]
            points = [rng.randint(1, most) for _ in range(count)]
            try:
                ended = life.update(firmware, points, rng)
            except Violation as fault:
                raise Violation(f"update {number}, cut at {points} of {most}: {fault}") from None
            lengths[firmware.is_good] = life.operations
            done = sum(life.cuts.values())
            ends[ended] += 1
            kind = "good" if firmware.is_good else "bad"
            say(
                f"{number}: {kind} firmware, cut at {points} of {life.operations} operations: "
                f"{ended}; {done} of {cuts} cuts, {time.monotonic() - began:.0f} s"
            )
        for phase, count in sorted(life.cuts.items()):
            say(f"  {count:4} in the phase {phase}")
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cuts", type=int, default=CUTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="without TLS")
    options = parser.parse_args()
    core.library()
    ends = run(options.cuts, options.seed, is_plain=options.plain)
    tally = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    say(f"{options.cuts} cuts in {ends.total()} updates: {tally}; nothing else")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ToolError, core.NoCompiler, Violation) as error:
        sys.exit(f"updates: {error}")

"""Runs `outpost flash` and mpremote, as users do, at the emulated board's USB port.

The chip's time then follows real time, because the tools wait in real seconds for the board.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpost_tools.loopback.broker import Broker
from rp2040 import image, littlefs
from rp2040.board import Board, stand_ins
from rp2040.installed import KIND, REPOSITORY

LIMIT_S = 600
SETTINGS = """\
device_id = "b1"
broker_host = "127.0.0.1"
broker_port = {port}
wifi_ssid = "Home"
wifi_password = "correct horse"
"""


@dataclass(frozen=True, slots=True)
class Done:
    """real_s and chip_s: how long it took."""

    status: int
    output: str
    real_s: float
    chip_s: float


class Port:
    """A board with stock MicroPython behind a pseudo-terminal. settings: lines of TOML. flash: its
    image; more: as Board has them."""

    def __init__(self, folder: Path, settings: str, flash: bytes, **more: Any) -> None:
        self.board = Board(flash, has_terminal=True, speed=1.0, **more)
        self.settings = folder / "board.toml"
        self.settings.write_text(settings)
        self.board.run_for(1)

    def run(self, *words: str) -> Done:
        """Run a program that talks to the port; the board runs until the program has ended."""
        began, chip_s = time.monotonic(), self.board.seconds
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=REPOSITORY,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

        def is_over() -> bool:
            return process.poll() is not None or time.monotonic() > began + LIMIT_S

        try:
            self.board.run_for(2 * LIMIT_S, is_over)
        finally:
            process.kill()
        output = process.communicate()[0]
        return Done(
            process.returncode, output, time.monotonic() - began, self.board.seconds - chip_s
        )

    def flash(self) -> Done:
        where = ("--board", KIND, "--port", self.board.terminal.path)
        words = (*where, "--settings", str(self.settings), "--timeout", "60")  # a busy machine
        return self.run("outpost_tools.cli", "flash", *words)

    def mpremote(self, *words: str) -> Done:
        return self.run("mpremote", "connect", self.board.terminal.path, *words)


def check(folder: Path, say: Callable[[str], None]) -> list[str]:
    """Check the first install, a repetition, and mpremote. Returns what was wrong."""
    faults = []
    with Broker("mosquitto", folder / "broker") as broker:
        flash = littlefs.with_files(image.load(), stand_ins())
        port = Port(folder, SETTINGS.format(port=broker.port), flash)
        for name, wanted in (("first install", " 0 unchanged"), ("repeat", "0 copied")):
            done = port.flash()
            say(f"outpost flash, {name}: {done.real_s:.0f} s, exit status {done.status}")
            if done.status or wanted not in done.output:
                faults.append(f"outpost flash, {name}: status {done.status}\n{done.output}")
        listed = port.mpremote("fs", "ls", ":")
        say(f"mpremote fs ls: {listed.real_s:.1f} s, exit status {listed.status}")
        if listed.status or "main.py" not in listed.output:
            faults.append(f"mpremote fs ls: status {listed.status}\n{listed.output}")
        reset = port.mpremote("reset")
        if reset.status or not port.board.run_for(30, lambda: port.board.feeds > 100):
            faults.append(
                f"the program does not run after mpremote reset: status {reset.status}\n"
                f"{reset.output}"
            )
        port.board.close()
    return faults

"""One simulated board: its folder, its process, its link; booted again after each power cut."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outpost_tools.machine import children
from outpost_tools.trying.simulate.journal import JournalTail
from outpost_tools.trying.simulate.orders import Orders
from outpost_tools.trying.simulate.proxy import Proxy

POWER_CUT_STATUS = 137
ASLEEP_STATUS = 75  # boards/UNIX/board.py: the board sleeps, and wakes as from a reset
CA_FILE = "ca.der"
_LOG = "board.log"
_LEFTOVERS = (
    "flash.img", "journal.txt", "counters.json", "counters.new", "commands.bin", "trial.json", _LOG,
)  # fmt: skip


class Board:
    """run() lasts until the board has drained (see `stop_file`) or failed; `failure` says why."""

    def __init__(
        self,
        directory: Path,
        settings: dict[str, Any],
        *,
        command: list[str],
        env: dict[str, str],
        proxy: Proxy,
        orders: Orders,
        stop_file: Path,
        report: Callable[[str, str], None],
        ca: str = "",
    ) -> None:
        """ca: the broker's certificate authority (PEM), for the settings' `ca_file`."""
        self.device = settings["device_id"]
        self.directory = directory
        self.proxy = proxy
        self.orders = orders
        self.power_cuts = self.boots = 0
        self.drained = False
        self.failure = ""
        self._settings = settings
        self._ca = ca
        self._command = command
        self._env = env
        self._stop_file = stop_file
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._tail = JournalTail(directory / "journal.txt")

    @property
    def published(self) -> int:
        """Messages for which publish() has returned OK so far."""
        return self._tail.update()

    def prepare(self) -> None:
        """Make the board blank: the flash of an earlier run would still hold its messages."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in _LEFTOVERS:
            (self.directory / name).unlink(missing_ok=True)
        if self._ca:
            (self.directory / CA_FILE).write_bytes(ssl.PEM_cert_to_DER_cert(self._ca))

    async def run(self) -> None:
        """Boot, and boot again after each power cut. Cancel it to end the board at once."""
        self._write("settings.json", {**self._settings, "broker_port": self.proxy.port})
        try:
            while (status := await self._one_boot()) in (POWER_CUT_STATUS, ASLEEP_STATUS):
                if status == ASLEEP_STATUS:
                    continue
                self.power_cuts += 1
                self._report("power cut", self.device)
                await asyncio.sleep(self.orders.off_s())
        finally:
            self.proxy.meter.finish(time.monotonic())
            await self._kill()

    async def _one_boot(self) -> int:
        """The exit status of the board from one boot to its end."""
        self._write("simulation.json", self._all_orders())
        with (self.directory / _LOG).open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self.directory,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=children.die_with_parent,
            )
        self.boots += 1
        self._report("boot", self.device)
        status = await self._process.wait()
        self.drained = status == 0
        if status not in (0, POWER_CUT_STATUS, ASLEEP_STATUS):
            self.failure = (
                f"{self.device} ended with status {status}: {children.tail(self.directory / _LOG)}"
            )
        return status

    def _all_orders(self) -> dict[str, Any]:
        always = {"image": "flash.img", "page_bytes": 256, "stop_file": str(self._stop_file)}
        return always | self.orders.next_boot()

    async def _kill(self) -> None:
        """Returns when the process has exited, which takes some time on a busy machine."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def _write(self, name: str, content: dict[str, Any]) -> None:
        path = self.directory / name
        path.touch(mode=0o600)  # it may hold a password
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")

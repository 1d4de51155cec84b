"""Starts the processes and jobs of the plan, watches them, reports what happens, and ends them in
order.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException

from outpost_tools.servers.alerts.conditions import LOW_BYTES
from outpost_tools.servers.home.jobs import Jobs
from outpost_tools.servers.home.plan import Plan, Wish
from outpost_tools.servers.home.process import Process
from outpost_tools.terminal.ending import Ending
from outpost_tools.terminal.notices import Folded
from outpost_tools.text.visible import visible

_TURN_S = 0.2
_LOOK_S = 5.0  # between two queries of the collector's health
# The environment may name a proxy, which would not reach our own loopback address.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def say(text: str) -> None:
    """Prints a line with the time, because the tools' own lines have none."""
    print(f"{time.strftime('%H:%M:%S')} {visible(text)}", file=sys.stderr, flush=True)


class Supervisor:
    """run() returns after SIGTERM or SIGINT."""

    def __init__(self, wish: Wish, plan: Plan) -> None:
        self._wish, self._plan = wish, plan
        self._processes = [Process(name, line, say) for name, line in plan.commands.items()]
        self._jobs = Jobs(plan.jobs, wish.state.logs, say)
        self._ending = Ending()
        self._folded, self._lost = Folded(say), Folded(say)
        self._is_well = False
        self._is_low = False
        self._looked_at = 0.0

    def run(self) -> int:
        """Returns 0 after SIGTERM or SIGINT."""
        self._ending.on_signals()
        for line in self._plan.told:
            say(line)
        try:
            for process in self._processes:
                process.start()
            while not self._ending.wait(_TURN_S):
                self._turn()
        finally:
            self._end()
        return 0

    def _turn(self) -> None:
        for process in self._processes:
            process.turn()
        self._jobs.turn()
        if time.monotonic() - self._looked_at >= (_LOOK_S if self._is_well else 1.0):
            self._look()
            self._looked_at = time.monotonic()

    def _look(self) -> None:
        """Reports once when all is well, and otherwise the problem; the same problem is repeated
        after growing pauses."""
        trouble = self._trouble()
        if trouble:
            self._is_well = False
            self._folded.tell(f"waiting: {trouble}")
        elif not self._is_well:
            self._is_well = True
            say(f"ready{self._folded.over()}: the collector is connected and stores what comes")
        self._look_at_disk()

    def _trouble(self) -> str:
        """The problem that the collector's health check reports; "" if all is well."""
        address = f"http://127.0.0.1:{self._wish.metrics_port}/healthz"
        try:
            with _DIRECT.open(address, timeout=5):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode("utf-8", "replace").strip()
        except (OSError, HTTPException):  # HTTPException: another program listens there
            return "the collector does not answer yet"

    def _look_at_disk(self) -> None:
        try:
            free = shutil.disk_usage(self._wish.state.path).free
        except OSError as error:  # the folder was deleted: the processes report more
            self._lost.tell(f"{self._wish.state.path}: {error.strerror}")
            return
        if free < LOW_BYTES and not self._is_low:
            log = str(self._wish.state.log)
            say(
                f"the disk has {free >> 20} MiB left; when it is full, nothing is confirmed and "
                "the boards keep their readings. "
                f"`outpost pipeline prune --log {shlex.quote(log)}` deletes what is in the tables"
            )
        self._is_low = free < LOW_BYTES

    def _end(self) -> None:
        """Ends the jobs first and the broker last, because the collector publishes its last
        confirmations through it."""
        say("ending; boards keep what is not confirmed")
        self._jobs.stop()
        for process in reversed(self._processes):
            process.stop()
        say("ended")

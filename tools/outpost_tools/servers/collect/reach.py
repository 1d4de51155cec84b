"""How far the tables have read our log, for --confirm-tables: looked up in a thread, every few
seconds, because a bucket may hang and the collector's loop may not.

The last table of a round says it (readings/pipeline/plan.py), together with the identity of the log
that was read (outpost_tools.log.identity). With another identity, its numbers are not about our
segments: a new log may have fewer, or by now as many, that no table has.

A table that was deleted and recreated begins at version 0 again, and may have our version number,
too. So the newest commit that we know is read again first; only if it has not changed, the table is
continued from there.
"""

from __future__ import annotations

import sys
import threading
from typing import NamedTuple

from deltalake.exceptions import TableNotFoundError

from outpost_tools.log import identity
from outpost_tools.readings.pipeline import delta, delta_log, plan
from outpost_tools.servers.collect.admission import NOTHING, AfterTables, Extent
from outpost_tools.servers.collect.log import Log
from outpost_tools.store.base import Store
from outpost_tools.terminal.notices import Folded

EVERY_S = 3.0
_LAST = "streams"  # of the tables of a round


class Found(NamedTuple):
    """extent: what the tables have of our log; None: what they had is not known now. trouble: why
    nothing more will be confirmed for now."""

    extent: Extent | None
    trouble: str | None = None


class Reach:
    """log: one with an identity, whose keys wait for tables. found: of the last look."""

    def __init__(self, tables: Store, log: Log) -> None:
        assert log.identity is not None and isinstance(log.admission, AfterTables)
        self._tables, self._collector, self._log = tables, log.collector, log
        self._identity, self._admission = log.identity, log.admission
        self.found = self._admitted = Found(None, "not looked up yet")
        self._is_copy = False  # the log is an older copy of the one that the tables have read
        self._table: delta.Table | None = None
        self._commit = b""  # the newest that we know
        self._told = Folded(self._say)
        self._ending = threading.Event()

    @property
    def remark(self) -> str | None:
        """For /healthz."""
        waiting = self._admission.waiting_segments
        said = f"{waiting} segments wait for {self._tables}" if waiting else None
        trouble = self.found.trouble
        return "; ".join(one for one in (said, trouble) if one) or None

    def start(self) -> None:
        threading.Thread(target=self._run, name="reach", daemon=True).start()

    def close(self) -> None:
        """Does not wait for a look that hangs."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.is_set():
            self.look()
            self._ending.wait(EVERY_S)

    def admit(self) -> set[str]:
        """In the loop's thread: what the last look has found, to the log's keys. Returns the
        devices that may be confirmed."""
        found = self.found
        if found is self._admitted or found.extent is None:
            return set()
        self._admitted = found
        self._is_copy = self._is_copy or found.extent.last > self._log.readable_through
        return self._admission.reach(NOTHING if self._is_copy else found.extent)

    def look(self) -> None:
        """Sets `found`. Raises nothing: Delta's and the store's errors have no common class."""
        try:
            found = self._extent(self._newest())
        except TableNotFoundError:
            self._table = None
            found = Found(NOTHING, f"{self._tables} has no tables yet; does the pipeline run?")
        except Exception as error:
            found = Found(None, f"cannot read {self._tables}: {error}")
        self.found = found
        if found.trouble is not None:
            self._told.tell(f"{found.trouble}; nothing new is confirmed meanwhile")
        elif waited := self._told.over():
            self._say(f"confirming again{waited}")

    def _newest(self) -> delta.Table:
        """Raises TableNotFoundError, ToolError, OSError."""
        known = self._table
        if known is not None and self._commit and self._commit_of(known) == self._commit:
            table = delta_log.renewed(known)
        else:
            table = delta.open_table(self._tables / _LAST)
        self._table, self._commit = table, self._commit_of(table)
        return table

    @staticmethod
    def _commit_of(table: delta.Table) -> bytes:
        """Empty if its log has it no longer."""
        try:
            return table.log.get(f"{table.number:020}.json")
        except FileNotFoundError:
            return b""

    def _extent(self, table: delta.Table) -> Found:
        taken, known = plan.taken(table, self._collector), plan.identity(table, self._collector)
        if self._is_copy and known == self._identity.number:
            self._identity = identity.renew(self._log.folder)  # for the next start
        if known == self._identity.number:
            return Found(Extent(max(plan.first(table, self._collector), 0), taken))
        if known < 0 and taken < self._identity.since:  # no round since our log has its identity
            return Found(NOTHING)
        return Found(NOTHING, other_log(self._tables, self._collector, taken))

    def _say(self, text: str) -> None:
        print(f"{self._collector}: --confirm-tables: {text}", file=sys.stderr, flush=True)


def other_log(tables: object, collector: str, taken: int) -> str:
    """What to do about tables that have read another log."""
    return (
        f"{tables} has segments up to {taken} of another log of {collector} (also after --new-log, "
        "or if this log is an older copy): give the tables of this log, or recreate them"
    )

"""`outpost pipeline run`: what is there, once or again and again until a signal. Retries after
transient failures (retries.py), with a new session when Spark's JVM has died."""

from __future__ import annotations

import argparse
import logging
import socketserver
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline import consumed, delta, engines, job, quarantine, retries
from outpost_tools.readings.pipeline.engines import Engine
from outpost_tools.readings.pipeline.logs import Log
from outpost_tools.readings.pipeline.waiting import Waiting
from outpost_tools.readings.sources import option
from outpost_tools.store.at import at
from outpost_tools.store.base import Store
from outpost_tools.terminal.ending import Ending

Say = Callable[[str], None]
_SMALL_BYTES = 64 << 20  # a log of some minutes' work at most
_TOLD_AGAIN = 3  # this many lines about trouble are repeated at the end
_RENEW_EACH = 3  # failures in a row: starting a session takes a busy machine half a minute


def run(args: argparse.Namespace) -> int:
    """0, or 1 when the engine failed permanently, segments were damaged or are not read, messages
    conflict, or times contradict arrivals. Raises ToolError when the input is unsuitable."""
    if args.engine == "spark" or at(args.log).is_local:  # before anything is started or made
        job.check_places(Log.at(args.log), at(args.tables))
    log_file = _log_file(at(args.tables))
    # Python's side of Spark logs every lost connection, and its servers print them.
    logging.basicConfig(filename=log_file, level=logging.WARNING)
    socketserver.BaseServer.handle_error = _log_lost_connection
    ending = Ending()
    say = _progress(time.monotonic())
    work = _OnSpark(args, log_file, ending, say) if args.engine == "spark" else _InPool(log_file)
    rounds = _Rounds(args, work, ending, say)
    try:
        troubles = rounds.run()
    except ToolError:
        raise
    except Exception as error:  # Spark's own messages are many and long: all are in the log
        print(f"outpost pipeline: failed: {retries.cause(error)}{work.details}", file=sys.stderr)
        logging.getLogger(__name__).error("failed", exc_info=True)
        return 1
    finally:
        work.close()
    say(rounds.summary)
    return int(troubles > 0)


def _log_file(tables_dir: Store) -> Path:
    """Beside the tables, if they are on this machine."""
    folder = Path(tables_dir.absolute) if tables_dir.is_local else Path(tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "spark.log"


class _OnSpark:
    """The engine on a session that is started when it is needed, and again when it has died."""

    engine_name = "Spark's JVM"

    def __init__(self, args: argparse.Namespace, log_file: Path, ending: Ending, say: Say) -> None:
        self._args, self._log_file, self._ending, self._say = args, log_file, ending, say
        self.details = f"; details: {log_file}"
        self._session: Any = None

    def engine(self) -> Engine:
        from outpost_tools.readings.pipeline.spark import Spark

        if self._session is None:
            self._session = self._started()
        return Spark(self._session)

    def activity(self) -> Callable[[], str] | None:
        """What it is doing now."""
        from outpost_tools.readings.pipeline import session

        spark = self._session
        return lambda: session.activity(spark)

    @property
    def is_dead(self) -> bool:
        from outpost_tools.readings.pipeline import session

        return self._session is not None and not session.is_alive(self._session)

    def close(self) -> None:
        from outpost_tools.readings.pipeline import session

        if self._session is not None:
            session.stop(self._session)
            self._session = None

    def _started(self) -> Any:
        from outpost_tools.readings.pipeline import session

        args = self._args
        if args.continuous:
            self._ending.on_signals()  # from here on a signal means "finish what is running"
        self._say("starting Spark, which takes 10 to 30 s")
        with Waiting(self._say) as waiting:
            spark = session.start(
                args.master,
                self._log_file,
                shuffle_partitions=args.shuffle_partitions,
                conf=args.conf,
                is_short=not args.continuous and _is_small(Log.at(args.log)),
                say=self._say,
                wait=waiting.set,
            )
        self._say(f"Spark {spark.version} is up on {spark.sparkContext.master}")
        if args.continuous:  # again: Spark has set its own handler of Ctrl-C, which cancels work
            self._ending.on_signals()
        return spark


class _InPool:
    """The engine without Spark."""

    engine_name = "the pool of processes"

    def __init__(self, log_file: Path) -> None:
        self.details = f"; details: {log_file}"
        self._pool: engines.Local | None = None

    @property
    def is_dead(self) -> bool:
        return self._pool is not None and self._pool.is_broken

    def engine(self) -> Engine:
        if self._pool is None:
            self._pool = engines.Local()
        return self._pool

    def activity(self) -> Callable[[], str] | None:
        return None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class _Rounds:
    """Calls of job.run()."""

    def __init__(
        self, args: argparse.Namespace, work: _OnSpark | _InPool, ending: Ending, say: Say
    ) -> None:
        self._args, self._work, self._ending, self._say = args, work, ending, say
        self._log, self._opened = Log.at(args.log), delta.Opened(args.tables)
        self._delays_s = retries.CONTINUOUS_S if args.continuous else retries.SINGLE_S
        self._sources = option.text_of(args)
        self.summary = ""  # after run()
        self._failures = self._late = 0

    def run(self) -> int:
        """Returns the number of troubles: damaged pieces, conflicts, logs with unread segments."""
        troubles = Troubles(self._log, self._opened)
        if self._args.continuous:
            self._ending.on_signals()
        while True:
            if not self._is_done():
                continue
            troubles.tell(self._say)
            if not self._args.continuous or self._ending.wait(self._args.interval):
                self.summary = troubles.summary
                return troubles.count

    def _is_done(self) -> bool:
        """Do what is there; False when it has to be repeated. Raises permanent failures."""
        try:
            self._do()
        except ToolError:
            raise
        except Exception as error:
            self._opened.forget()
            self._wait_after(error)
            return False
        self._failures = self._late = 0
        return True

    def _do(self) -> None:
        args, engine = self._args, self._work.engine()
        with Waiting(self._say, self._work.activity()) as waiting:
            job.run(
                engine,
                self._log,
                self._opened,
                window_s=args.window,
                sources=self._sources,
                is_all=not args.continuous,
                progress=waiting.say,
            )
        if args.delete_consumed:
            self._say(consumed.pruned(self._log))

    def _wait_after(self, error: Exception) -> None:
        """Wait for the next try. Raises the error when it is permanent, or came too often."""
        is_dead = self._work.is_dead
        if not is_dead and retries.is_late_worker(error) and self._late < retries.LATE_TRIES:
            self._late += 1
            self._say("a Python worker took more than Spark's 10 s to start; trying again")
            return
        if not (is_dead or retries.is_transient(error)) or self._failures == len(self._delays_s):
            raise error
        delay_s = self._delays_s[self._failures]
        self._failures += 1
        what = f"{self._work.engine_name} has died" if is_dead else retries.cause(error)
        self._say(
            f"failed: {what}; again in {delay_s:.0f} s (retry {self._failures} of "
            f"{len(self._delays_s)}){self._work.details}"
        )
        if is_dead or self._failures % _RENEW_EACH == 0:  # the session itself may be broken
            self._work.close()
        if self._ending.wait(delay_s):
            raise error


class Troubles:
    """What went to quarantine since the start for other reasons than a message's form; and segments
    that are in the log and not read."""

    def __init__(self, log: Log | delta.Place, opened: delta.Opened) -> None:
        """opened: the tables as the rounds know them."""
        self._log, self._opened = Log.at(log), opened
        self._version = -1
        self._counts = (0, 0, 0)
        self._unread: list[str] = []
        self._told: deque[str] = deque(maxlen=_TOLD_AGAIN)
        self._before = self._known = self._found()

    def _found(self) -> tuple[int, int, int]:
        table = self._opened.find("quarantine")
        if table is not None and table.version() != self._version:
            found = quarantine.reasons(self._opened)
            refused = quarantine.by_arrival(found)
            self._counts = quarantine.damage(found), found[quarantine.CONFLICT], refused
            self._version = table.version()
        return self._counts

    @property
    def count(self) -> int:
        new = (max(now - old, 0) for now, old in zip(self._known, self._before, strict=True))
        return sum(new) + len(self._unread)

    def tell(self, say: Say) -> None:
        """Report what is new since the last call."""
        for line in self._news():
            self._told.append(line)
            say(line)

    @property
    def summary(self) -> str:
        """The run's last line, which `outpost run` shows."""
        return "done, but: " + "; ".join(self._told) if self.count else "done"

    def _news(self) -> Iterator[str]:
        found = self._found()
        damaged, conflicts, by_arrival = (
            new - old for new, old in zip(found, self._known, strict=True)
        )
        self._known = found
        unread = consumed.unread_lines(self._log, self._opened)
        yield from (line for line in unread if line not in self._unread)
        self._unread = unread
        if damaged > 0:
            yield f"{damaged} damaged pieces of segments; their bytes are in quarantine"
        if conflicts > 0:
            yield (
                f"{conflicts} messages have the number of another one and different contents: two "
                "boards with one identity, or a restored flash; the later ones are in quarantine"
            )
        if by_arrival > 0:
            yield (
                f"{by_arrival} messages were refused because their times are far from their "
                "arrival: the clock of a board is wrong, or that of the collector's machine was; "
                "in the second case, `outpost pipeline replay --reason time` frees them"
            )


def _is_small(log: Log) -> bool:
    size = 0
    for name in log.collectors():
        size += sum(one.size for one in log.sealed(name))
        if size > _SMALL_BYTES:
            return False
    return True


def _log_lost_connection(server: socketserver.BaseServer, request: object, address: object) -> None:
    """Logs what would be a traceback on stderr: when the JVM dies, its connections end too."""
    logging.getLogger(__name__).warning("%s: connection lost", type(server).__name__, exc_info=True)


def _progress(begin: float) -> Say:
    def say(text: str) -> None:
        elapsed_s = time.monotonic() - begin
        print(f"[{elapsed_s:5.1f} s] pipeline: {text}", file=sys.stderr, flush=True)

    return say

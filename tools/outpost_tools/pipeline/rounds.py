"""`outpost pipeline run`: one round, or one after the other until a signal. Retries after transient
failures (retries.py), with a new session when the JVM has died."""

from __future__ import annotations

import argparse
import logging
import socketserver
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from outpost_tools.common.ending import Ending
from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import consumed, job, lock, quarantine, retries, session
from outpost_tools.pipeline.waiting import Waiting

Say = Callable[[str], None]
_SMALL_BYTES = 64 << 20  # a log of some minutes' work at most
_TOLD_AGAIN = 3  # this many lines about trouble are repeated at the end
_RENEW_EACH = 3  # failures in a row: starting a session takes a busy machine half a minute


def run(args: argparse.Namespace) -> int:
    """0, or 1 when Spark failed permanently, segments were damaged or are not read, messages
    conflict, or times contradict arrivals. Raises ToolError when the input is unsuitable."""
    job.check_directories(args.log, args.tables)
    args.tables.mkdir(parents=True, exist_ok=True)
    # Python's side of Spark logs every lost connection, and its servers print them.
    logging.basicConfig(filename=args.tables / lock.FILE, level=logging.WARNING)
    socketserver.BaseServer.handle_error = _log_lost_connection
    ending = Ending()
    say = _progress(time.monotonic())
    rounds = _Rounds(args, ending, say)
    try:
        troubles = rounds.run()
    except ToolError:
        raise
    except Exception as error:  # Spark's own messages are many and long: all are in the log
        print(
            f"outpost pipeline: failed: {retries.cause(error)}; details: {rounds.log_file}",
            file=sys.stderr,
        )
        return 1
    finally:
        rounds.close()
    say(rounds.summary)
    return int(troubles > 0)


class _Rounds:
    """The session and its rounds."""

    def __init__(self, args: argparse.Namespace, ending: Ending, say: Say) -> None:
        self._args, self._ending, self._say = args, ending, say
        self.log_file: Path = args.tables / lock.FILE
        self._delays_s = retries.CONTINUOUS_S if args.continuous else retries.SINGLE_S
        self.summary = ""  # after run()
        self._spark: SparkSession | None = None
        self._failures = self._late = 0

    def run(self) -> int:
        """Returns the number of troubles: damaged pieces, conflicts, logs with unread segments."""
        troubles = Troubles(self._args.log, self._args.tables)
        while True:
            if not self._is_done():
                continue
            troubles.tell(self._say)
            if not self._args.continuous or self._ending.wait(self._args.interval):
                self.summary = troubles.summary
                return troubles.count

    def close(self) -> None:
        if self._spark is not None:
            session.stop(self._spark)
            self._spark = None

    def _is_done(self) -> bool:
        """Run a round; False when it has to be repeated. Raises permanent failures."""
        try:
            self._round()
        except ToolError:
            raise
        except Exception as error:
            self._wait_after(error)
            return False
        self._failures = self._late = 0
        return True

    def _round(self) -> None:
        args = self._args
        if self._spark is None:
            self._spark = self._started()
        spark = self._spark
        with Waiting(self._say, lambda: session.activity(spark)) as waiting:
            job.run(
                spark,
                args.log,
                args.tables,
                window_s=args.window,
                is_all=not args.continuous,
                progress=waiting.say,
            )
        if args.delete_consumed:
            self._say(consumed.pruned(args.log))

    def _started(self) -> SparkSession:
        args = self._args
        if args.continuous:
            self._ending.on_signals()  # from here on a signal means "finish what is running"
        self._say("starting Spark, which takes 10 to 30 s")
        with Waiting(self._say) as waiting:
            spark = session.start(
                args.master,
                self.log_file,
                shuffle_partitions=args.shuffle_partitions,
                conf=args.conf,
                is_short=not args.continuous and _is_small(args.log),
                say=self._say,
                wait=waiting.set,
            )
        self._say(f"Spark {spark.version} is up on {spark.sparkContext.master}")
        if args.continuous:  # again: Spark has set its own handler of Ctrl-C, which cancels work
            self._ending.on_signals()
        return spark

    def _wait_after(self, error: Exception) -> None:
        """Wait for the next try. Raises the error when it is permanent, or came too often."""
        is_dead = self._spark is not None and not session.is_alive(self._spark)
        if not is_dead and retries.is_late_worker(error) and self._late < retries.LATE_TRIES:
            self._late += 1
            self._say("a Python worker took more than Spark's 10 s to start; trying again")
            return
        if not (is_dead or retries.is_transient(error)) or self._failures == len(self._delays_s):
            raise error
        delay_s = self._delays_s[self._failures]
        self._failures += 1
        what = "Spark's JVM has died" if is_dead else retries.cause(error)
        self._say(
            f"failed: {what}; again in {delay_s:.0f} s (retry {self._failures} of "
            f"{len(self._delays_s)}); details: {self.log_file}"
        )
        if is_dead or self._failures % _RENEW_EACH == 0:  # the session itself may be broken
            self.close()
        if self._ending.wait(delay_s):
            raise error


class Troubles:
    """What went to quarantine since the start for other reasons than a message's form; and segments
    that are in the log and not read."""

    def __init__(self, log: Path, tables_dir: Path) -> None:
        self._log, self._tables_dir = log, tables_dir
        self._unread: list[str] = []
        self._told: deque[str] = deque(maxlen=_TOLD_AGAIN)
        self._before = self._known = self._found()

    def _found(self) -> tuple[int, int, int]:
        counts = (quarantine.damage, quarantine.conflicts, quarantine.by_arrival)
        damaged, conflicts, by_arrival = (count(self._tables_dir) for count in counts)
        return damaged, conflicts, by_arrival

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
        unread = consumed.unread_lines(self._log, self._tables_dir)
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


def _is_small(log: Path) -> bool:
    size = 0
    for path in log.glob("*/segment-*.seg"):
        size += path.stat().st_size
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

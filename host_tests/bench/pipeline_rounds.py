"""What a round costs depending on what is already there: 5,000 new readings beside 100,000, a
million, ...

    python host_tests/bench/pipeline_rounds.py [--rows 100000 1000000] [--days 1 400] [--rounds 7]
    python host_tests/bench/pipeline_rounds.py --wakes 2000 8000 [--rounds 32]

For each size, tables are filled with that many readings of 1,000 boards over that many days, and
compacted as a timer would do. Then rounds follow in one Spark session, each with the next 5,000
readings of all boards. Three rounds warm up, because the JVM still compiles what it has just
loaded. Prints the median of the others, with the lowest and the highest: CPU seconds of driver, JVM
and Python workers together for silver and for gold, the peak memory of all of them, and how many
files of readings gold opened (a file that is opened twice counts twice).

late     the round's readings are one board's, in the middle of the existing ones
hostile  as `next`; one board also sends 60 messages with 1,860 readings of 1,855 days, the same
         days in each round; 20 rounds warm up, after which the board has files on most of its days
after    as `next`, after these rounds

--wakes: boards that sleep. 200 boards have sent that many messages each, every one in a boot of its
own; first the smallest number in one boot each. In each round every board sends one more. Prints
the mean of the rounds, with the lowest and the highest: seconds, CPU seconds, bytes written for
each message (what the process passes to the kernel: all tables with their logs), and files of
tables that were there before and were opened. In one process, without Spark.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(REPOSITORY / "host_tests"))
import paths  # noqa: E402

sys.path.extend(paths.ALL)

import psutil  # noqa: E402

import opened_files  # noqa: E402
import patient_job  # noqa: E402
import process_tree  # noqa: E402
import serial_engine  # noqa: E402
from outpost_tools.log import segments  # noqa: E402
from outpost_tools.readings.pipeline import gold, job, session, upkeep  # noqa: E402

BOARDS, READINGS, NEW = 1000, 5, 5000
WARM = {"next": 3, "late": 1, "hostile": 20, "after": 1}
HOSTILE, SPREAD = 60, 31  # messages, readings in each: a day apart
BEGIN_S, DAY_S = 1_763_694_000, 86_400
NAMES = ("load", "memory", "temperature", "humidity", "battery")
SLEEPERS, SLEEP_S = 200, 600
WARM_WAKES = 2
Middle = Callable[[tuple[float, ...]], float]


def payload(board: str, stream: str, seq: int, time_s: int) -> bytes:
    head = f'{{"bn":"{board}/","ver":1,"sid":"{stream}","seq":{seq},"held":{max(0, seq - 9)}'
    head += f',"boot":1,"bt":{time_s}'
    body = [f'"n":"{name}","v":{seq % 97}.{place}}}' for place, name in enumerate(NAMES)]
    return f"[{head},{',{'.join(body)}]".encode()


class Fleet:
    """Boards that send in turn, and the collector that seals what they sent."""

    def __init__(self, log: Path, messages: int, days: int, *, sent: int = 0) -> None:
        self._writer = segments.SegmentWriter(log / "collector-1")
        self._step_s = days * DAY_S * 0.7 / max(1, messages / BOARDS)
        self._sent = sent
        self._hostile_s = 0

    def send(self, messages: int) -> None:
        for _ in range(messages):
            turn, board = divmod(self._sent, BOARDS)
            self._frame(f"board-{board}", f"{board:08x}", turn, self._time_s(turn))
            self._sent += 1
        self._writer.seal()

    def send_late(self, number: int, messages: int) -> None:
        """Send the outbox of a board that was away, in the middle of the existing readings."""
        middle_s = self._time_s(self._sent // BOARDS // 2)
        for seq in range(messages):
            self._frame(f"late-{number}", f"{number:08x}", seq, middle_s + seq)
        self._writer.seal()

    def send_hostile(self, number: int) -> None:
        """Send one board's readings of almost all days that an arrival allows (labels.py)."""
        self._hostile_s = self._hostile_s or self._time_s(self._sent // BOARDS) - 1824 * DAY_S
        for place in range(HOSTILE):
            seq, time_s = number * HOSTILE + place, self._hostile_s + place * 2_670_000
            head = f'"bn":"hostile/","ver":1,"sid":"ffffffff","seq":{seq},"held":{seq},"boot":1'
            days = [f'"n":"load","t":{day * DAY_S},"v":{day}' for day in range(SPREAD)]
            body = "},{".join([f'{head},"bt":{time_s},{days[0]}', *days[1:]])
            self._append("hostile", f"[{{{body}}}]".encode())

    def _time_s(self, turn: int) -> int:
        return BEGIN_S + round(turn * self._step_s)

    def _frame(self, board: str, stream: str, seq: int, time_s: int) -> None:
        self._append(board, payload(board, stream, seq, time_s))

    def _append(self, board: str, data: bytes) -> None:
        now_ms = (self._time_s(self._sent // BOARDS) + 1) * 1000
        frame = segments.encode_frame(now_ms, f"outpost/{board}/data".encode(), data)
        self._writer.append(frame)


def cpu_s() -> float:
    """Returns the CPU seconds of this process and all its descendants, including those that have
    ended."""
    return sum(process_tree.roles(os.getpid()).values())


class Peak(threading.Thread):
    """The peak memory of this process and its descendants, in MiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()
        self.mib = 0

    def run(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(0.3):
            size = process_tree.pss_bytes([me, *me.children(recursive=True)])
            self.mib = max(self.mib, size >> 20)

    def stop(self) -> int:
        self._ended.set()
        self.join()
        return self.mib


class Round(NamedTuple):
    """CPU seconds, the peak of the memory in MiB, files of silver that gold opened."""

    silver: float
    gold: float
    both: float
    mib: int
    opened: int


def run_round(spark, log: Path, tables_dir: Path, *, is_all: bool = False) -> Round:
    from outpost_tools.readings.pipeline.spark import Spark

    marks, write = [cpu_s()], gold.write
    opened = opened_files.Opened(tables_dir / "readings")

    def measured(*arguments, **named) -> int:
        marks.append(cpu_s())
        with opened_files.Opened(tables_dir / "readings") as found:
            left = write(*arguments, **named)
        opened.files.update(found.files)
        return left

    gold.write = measured
    peak = Peak()
    peak.start()
    try:
        patient_job.run(Spark(spark), log, tables_dir, is_all=is_all)
    finally:
        gold.write = write
    end_s = cpu_s()
    mib, count = peak.stop(), sum(opened.files.values())
    return Round(marks[1] - marks[0], end_s - marks[1], end_s - marks[0], mib, count)


def fill(folder: Path, rows: int, days: int) -> None:
    Fleet(folder / "log", rows // READINGS, days).send(rows // READINGS)
    spark = session.start("local[2]", folder / "tables" / "spark.log")
    first = run_round(spark, folder / "log", folder / "tables", is_all=True)
    upkeep.compact(folder / "tables")
    session.stop(spark)
    print(f"{rows:,} readings, {days} days, at once: silver {first.silver:.1f} CPU s, gold "
          f"{first.gold:.1f}", flush=True)  # fmt: skip


def measure(folder: Path, rows: int, days: int, rounds: int) -> None:
    log, tables_dir = folder / "log", folder / "tables"
    fleet = Fleet(log, rows // READINGS, days, sent=rows // READINGS)
    print(f"{rows:,} readings, {days} days, {NEW:,} more a round", flush=True)
    spark = session.start("local[2]", tables_dir / "spark.log")
    try:
        for kind, warm in WARM.items():
            found = []
            for number in range(warm + rounds):
                send(fleet, kind, number)
                found.append(run_round(spark, log, tables_dir))
            silver, golden, both, mib, opened = map(_spread, zip(*found[warm:], strict=True))
            print(f"{kind:>8}: CPU s of silver {silver}, of gold {golden}, of both {both}; "
                  f"peak MiB {mib}; files opened {opened}; load {os.getloadavg()[0]:.1f}",
                  flush=True)  # fmt: skip
    finally:
        spark.stop()


def send(fleet: Fleet, kind: str, number: int) -> None:
    if kind == "hostile":
        fleet.send_hostile(number)
    if kind == "late":
        fleet.send_late(number, NEW // READINGS)
    else:
        fleet.send(NEW // READINGS)


def _spread(values: tuple[float, ...], middle: Middle = statistics.median) -> str:
    digits = 2 if isinstance(values[0], float) else 0
    ends = (middle(values), min(values), max(values))
    center, low, high = (f"{value:,.{digits}f}" for value in ends)
    return f"{center} ({low} to {high})"


class Sleepers:
    """Boards that send a message each time they wake; all in one boot if not `is_woken`."""

    def __init__(
        self, log: Path, *, is_woken: bool, boards: int = SLEEPERS, sleep_s: int = SLEEP_S
    ) -> None:
        self._writer = segments.SegmentWriter(log / "collector-1")
        self._is_woken, self._turn = is_woken, 0
        self._boards, self._sleep_s = boards, sleep_s

    def wake(self, times: int) -> None:
        for _ in range(times):
            time_s = BEGIN_S + self._turn * self._sleep_s
            boot = self._turn + 1 if self._is_woken else 1
            for board in range(self._boards):
                name = f"board-{board}"
                head = f'{{"bn":"{name}/","ver":1,"sid":"{board:08x}","seq":{self._turn}'
                head += f',"held":{self._turn},"boot":{boot},"bt":{time_s}'
                data = f'[{head},"n":"battery","v":3.{self._turn % 97}}}]'.encode()
                topic = f"outpost/{name}/data".encode()
                delay_ms = 500 + zlib.crc32(b"%d %d" % (self._turn, board)) % 3000
                self._writer.append(segments.encode_frame(time_s * 1000 + delay_ms, topic, data))
            self._turn += 1
        self._writer.seal()


class Wake(NamedTuple):
    """Seconds, CPU seconds, bytes written for each message, files opened."""

    seconds: float
    cpu_s: float
    bytes: int
    opened: int


def wake_round(log: Path, tables_dir: Path) -> Wake:
    me, begin_s = psutil.Process(), time.monotonic()
    before = (time.process_time(), me.io_counters().write_chars)
    with opened_files.Opened(tables_dir) as opened:
        job.run(serial_engine.Serial(), log, tables_dir)
    spent_s, written = time.process_time() - before[0], me.io_counters().write_chars - before[1]
    seconds, files = time.monotonic() - begin_s, sum(opened.files.values())
    return Wake(seconds, spent_s, round(written / SLEEPERS), files)


def measure_wakes(folder: Path, wakes: int, rounds: int, is_woken: int) -> None:
    log, tables_dir = folder / "log", folder / "tables"
    fleet = Sleepers(log, is_woken=bool(is_woken))
    fleet.wake(wakes)
    job.run(serial_engine.Serial(), log, tables_dir, is_all=True)
    upkeep.compact(tables_dir, kept_h=0)
    found = []
    for _ in range(WARM_WAKES + rounds):
        fleet.wake(1)
        found.append(wake_round(log, tables_dir))
    parts = zip(*found[WARM_WAKES:], strict=True)
    seconds, cpu, written, opened = (_spread(part, statistics.fmean) for part in parts)
    what = f"{wakes:,} boots" if is_woken else f"{wakes:,} messages in one boot"
    print(f"{SLEEPERS} boards, {what} each: s {seconds}; CPU s {cpu}; bytes a message {written}; "
          f"files opened {opened}; load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip


def run_wakes(sizes: list[int], rounds: int) -> None:
    for wakes, is_woken in ((min(sizes), 0), *((size, 1) for size in sizes)):
        with tempfile.TemporaryDirectory() as temporary:
            _run("wakes", Path(temporary), wakes, rounds, is_woken)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--days", type=int, nargs="+", default=[1], help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="measured ones (%(default)s)")
    parser.add_argument("--wakes", type=int, nargs="+", help="boots of each sleeping board")
    args = parser.parse_args()
    if args.wakes:
        run_wakes(args.wakes, args.rounds)
        return
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as temporary:
        for rows in args.rows:
            for days in args.days:
                folder = Path(temporary) / f"{rows}-{days}"
                _run("fill", folder, rows, days)
                _run("measure", folder, rows, days, args.rounds)
                shutil.rmtree(folder)


def _run(what: str, folder: Path, *sizes: int) -> None:
    """Run in a separate process with its own Spark."""
    line = [sys.executable, __file__, f"--{what}", str(folder), *map(str, sizes)]
    subprocess.run(line, check=True)


if __name__ == "__main__":
    parts = {"--fill": fill, "--measure": measure, "--wakes": measure_wakes}
    if sys.argv[1:2] and sys.argv[1] in parts and not sys.argv[2].isdigit():
        parts[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
    else:
        main()

"""Tables as the version made them that kept its place in Spark's checkpoint, with their log, for
test_takeover.py: host_tests/tools/readings/pipeline/old_tables.tar.xz.

    git archive 578959aa tools | tar x -C OLD
    PYTHONPATH=OLD/tools python host_tests/tools/readings/pipeline/old_tables.py OUT.tar.xz

The log and what is done with it are those of `first_part()` and so on, which the test repeats with
this version.
"""

from __future__ import annotations

import datetime
import json
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

try:
    from outpost_tools.log import segments
except ImportError:  # that version
    from outpost_tools.common import segments

START_MS, DAY_MS = 1_763_694_000_000, 86_400_000
T0 = START_MS / 1000
FIRST_DAY = datetime.date(2025, 11, 20)
VERSIONS = (1, 2)


def message(seq: int, boot: int, *, device: str = "board-5", version: int = 1, value=None, **more):
    """more: `up`, seconds since boot; `bt`, since 1970."""
    head = {"bn": f"{device}/", "sid": "00000005", "seq": seq, "boot": boot, "held": 0}
    head |= {"ver": version, **more, "n": "load", "v": seq if value is None else value}
    return json.dumps([head]).encode()


def put(log: Path, *contents: bytes, device="board-5", collector="collector-1", day=3) -> None:
    writer = segments.SegmentWriter(log / collector)
    topic = f"outpost/{device}/data".encode()
    for content in contents:
        writer.append(segments.encode_frame(START_MS + day * DAY_MS, topic, content))
    writer.seal()


def first_part(log: Path) -> None:
    """Of the second collector, older segments had been deleted before."""
    put(log, *(message(n, 1, up=n) for n in range(6)), message(8, 1, up=8, bt=T0 + 8), b"x")
    put(log, *(message(n, 1, bt=T0 + n, device="board-6", version=2) for n in range(5)),
        device="board-6")  # fmt: skip
    for _ in range(3):
        put(log, b"deleted", collector="collector-2")
    for path in segments.sealed_segments(log / "collector-2")[:2]:
        path.unlink()
    put(log, message(0, 1, bt=T0 - 4 * 86_400, device="board-7"), message(1, 1, bt=T0,
        device="board-7"), device="board-7", collector="collector-2")  # fmt: skip


def second_part(log: Path) -> None:
    """A clock that moves what came before, and conflicts."""
    put(log, message(7, 1, up=7, bt=T0 - 86_400), message(3, 1, up=3, value=7.5), b"y",
        message(9, 2, bt=T0 + 20), message(2, 1, up=2), day=4)  # fmt: skip


def third_part(log: Path) -> None:
    """For the version that takes over: repeats, conflicts with what the other took in and with
    what it refused, new numbers."""
    put(log, message(3, 1, up=3, value=7.5), message(4, 1, up=4, value=1.5), message(1, 1, up=1),
        message(9, 2, bt=T0 + 20), message(10, 2, bt=T0 + 30), day=5)  # fmt: skip
    put(log, message(0, 1, bt=T0 - 4 * 86_400, device="board-7"), message(2, 1, bt=T0 + 2,
        device="board-7"), device="board-7", collector="collector-2", day=5)  # fmt: skip
    put(log, message(3, 1, bt=T0 + 3, device="board-6"), device="board-6", day=6)


def use(log: Path, place: Path, run: Callable[..., object]) -> None:
    """Two rounds, a day of deletion, and a replay whose frames wait for the next run."""
    from outpost_tools.readings.pipeline import quarantine, upkeep

    first_part(log)
    run(log, place)
    second_part(log)
    run(log, place)
    upkeep.delete_before(place, FIRST_DAY)
    quarantine.replay(place, "unknown version", versions=VERSIONS)


def main() -> None:
    from outpost_tools.readings.pipeline import job, session

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session.start("local[2]", folder / "spark.log")
        use(folder / "log", folder / "tables", lambda *places: job.run(spark, *places))
        spark.stop()
        with tarfile.open(sys.argv[1], "w:xz") as archive:
            for part in ("log", "tables"):
                archive.add(folder / part, part, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without what tells of the machine, or is no part of the tables."""
    if member.name.endswith((".crc", ".log", ".lock")) or "/.readers" in member.name:
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()

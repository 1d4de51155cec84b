# cpython-only: Arrow and Delta Lake
"""Closed boots: what rounds fold, archive and look up is what one round with everything makes."""

import contextlib
import json
import os
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outpost_tools.common import segments

try:
    from outpost_tools.pipeline import (
        boot_files,
        closing,
        job,
        schemas,
        tables,
    )
    from serial_engine import Serial
except ImportError as problem:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip(f"missing: the pipeline's packages: {problem}", allow_module_level=True)

BEGIN_S = 1_763_683_200  # 2025-11-21
NEAR = 2
PUBLIC = ("devices", "boots", "latency", "gaps", "windows")
# (device, stream, boot, number, second or None, uptime or None, metric, value)
MESSAGE = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(["0000000a", "0000000b"]),
    st.integers(1, 9),
    st.integers(0, 40),
    st.none() | st.integers(0, 40),
    st.none() | st.integers(0, 9),
    st.sampled_from(["load", "battery", "mended", "aside", "reset_cause"]),
    st.sampled_from([0, 1, 2, 0.5]),
)
ROUNDS = st.lists(st.lists(MESSAGE, min_size=1, max_size=8), min_size=1, max_size=6)


class Wakes:
    """A log, and tables that rounds of it make. received_s grows with each message."""

    def __init__(self, folder: Path) -> None:
        self.log, self.place, self._sent = folder / "log", folder / "tables", 0

    def put(self, messages: list[tuple]) -> None:
        """A segment of them."""
        writer = segments.SegmentWriter(self.log / "collector-1")
        for message in messages:
            self._sent += 1
            received_ms = (BEGIN_S + 100) * 1000 + self._sent
            topic = f"outpost/{message[0]}/data".encode()
            writer.append(segments.encode_frame(received_ms, topic, payload(*message)))
        writer.seal()

    def round(self, place: Path | None = None, *, is_all: bool = False) -> None:
        job.run(Serial(), self.log, place or self.place, is_all=is_all)


def payload(device, stream, boot, seq, second, up, name, value) -> bytes:
    head = {"bn": f"{device}/", "sid": stream, "seq": seq, "boot": boot, "held": 0, "ver": 1}
    head |= {} if second is None else {"bt": BEGIN_S + second}
    head |= {} if up is None else {"up": up}
    return json.dumps([head | {"n": name, "v": value}]).encode()


@contextlib.contextmanager
def limits(kept: int, most: int, files: int = 1):
    values = ((closing, "KEPT", kept), (closing, "MOST", most), (closing, "NEAR", NEAR))
    values += ((boot_files, "MOST_FILES", files), (boot_files, "_SPAN", 2))
    values += ((boot_files, "_MERGED_MOST", 9),)
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in values:
            patch.setattr(module, name, value)
        yield


SMALL, ALL_OPEN = (3, 4), (1 << 20, 1 << 20)


def rows_of(place: Path, name: str) -> list[str]:
    return sorted(map(str, tables.read_table(place, name).to_pylist()))


def assert_are_as_of_one_round(wakes: Wakes) -> None:
    """In which no boot is closed; and as plain Python makes them of silver."""
    whole = wakes.place.parent / "whole"
    with limits(*ALL_OPEN):
        wakes.round(whole, is_all=True)
    for name in ("readings", *PUBLIC):
        hidden = schemas.ORIGIN if name == "readings" else []
        assert name and rows_of(wakes.place, name) == rows_of(whole, name), (name, hidden)
    assert_boots_are_right(wakes.place)
    shutil.rmtree(whole)


def assert_boots_are_right(place: Path) -> None:
    found = tables.read_table(place, "boots").to_pylist()
    of_boot = defaultdict(list)
    for row in tables.read_table(place, "readings").to_pylist():
        of_boot[row["device"], row["stream"], row["boot"]].append(row)
    assert len(found) == len(of_boot)
    times = {key: [row["time"] for row in rows if row["time"]] for key, rows in of_boot.items()}
    for boot in found:
        key = (boot["device"], boot["stream"], boot["boot"])
        rows, mine = of_boot[key], times[key]
        numbers = [row["seq"] for row in rows]
        said = (boot["readings"], boot["first_seq"], boot["last_seq"], boot["without_time"])
        assert said == (len(rows), min(numbers), max(numbers), len(rows) - len(mine))
        assert (boot["first_time"], boot["last_time"]) == (
            min(mine, default=None), max(mine, default=None),
        )  # fmt: skip
        assert (boot["not_before"], boot["not_after"]) == bounds(key, rows, times)
    check_devices(place, of_boot)


def bounds(key: tuple, rows: list[dict], times: dict) -> tuple:
    if all(row["time"] for row in rows):
        return None, None
    lower, higher = (
        [
            time
            for step in range(1, NEAR + 1)
            for time in times.get((*key[:2], key[2] + sign * step), [])
        ]
        for sign in (-1, 1)
    )
    arrival = min(row["received"] for row in rows)
    return max(lower, default=None), min([*higher, arrival])


def check_devices(place: Path, of_boot: dict) -> None:
    for row in tables.read_table(place, "devices").to_pylist():
        mine = {key: rows for key, rows in of_boot.items() if key[0] == row["device"]}
        every = [one for rows in mine.values() for one in rows]
        assert (row["boots"], row["readings"]) == (len(mine), len(every))
        assert row["last_boot"] == max(every, key=lambda one: one["received"])["boot"]
        told = [
            max((one["seq"], one["value"]) for one in counts)[1]
            for rows in mine.values()
            if (
                counts := [one for one in rows if one["name"] == "mended" and one["value"] % 1 == 0]
            )
        ]
        assert row["mended"] == (sum(told) if told else None)


@settings(max_examples=int(os.environ.get("CLOSING_EXAMPLES", "10")), deadline=None)
@given(ROUNDS)
def test_rounds_that_close_boots_make_what_one_round_makes(tmp_path_factory, rounds):
    folder = tmp_path_factory.mktemp("closing")
    wakes = Wakes(folder)
    with limits(*SMALL):
        for messages in rounds:
            wakes.put(messages)
            wakes.round()
        wakes.round(is_all=True)
    assert_are_as_of_one_round(wakes)
    shutil.rmtree(folder)

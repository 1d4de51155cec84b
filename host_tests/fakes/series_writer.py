"""Writes a series message (`firmware/SERIES_FORMAT.md`) on a desktop: the reference for a board's
encoding, and payloads for tests of readers. Also returns rows like those of real sensors.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

DAY_MS = 86_400_000
CLIMATE = (("temperature", "Cel", -2), ("humidity", "%RH", -2), ("pressure", "Pa", 0))
START_MS = 1_763_694_000_123

Row = tuple[int, Sequence["int | None"]]  # time in ms since the start, values


def payload(
    rows: Sequence[Row],
    columns: Sequence[tuple[str, str, int]] = CLIMATE,
    *,
    device: str = "board-1",
    stream: str = "3fa9c1d2",
    seq: int = 1234,
    held: int = 1200,
    boot: int = 3,
    start_ms: int = START_MS,
    clock_set: bool = True,
    uptime_ms: int | None = None,
    step_ms: int = 1,
    room: int = 0,
    time_parameter: int = 0,
    parameters: Sequence[int] | None = None,
) -> bytes:
    """rows: times are rounded down to steps. start_ms: since 1970, or since boot if clock_set is
    False; uptime_ms: the time since boot, in addition."""
    parameters = parameters or [3] * len(columns)
    body = b"".join(
        bytes((exponent & 0xFF, parameter | len(unit) << 4, len(name))) + (name + unit).encode()
        for (name, unit, exponent), parameter in zip(columns, parameters, strict=True)
    )
    fixed = bytes.fromhex(stream) + seq.to_bytes(4, "little") + held.to_bytes(4, "little")
    fixed += boot.to_bytes(2, "little") + room.to_bytes(2, "little") + _time(start_ms)
    fixed += step_ms.to_bytes(2, "little") + bytes((time_parameter, len(columns), len(device)))
    fixed += device.encode() + body + (b"" if uptime_ms is None else _time(uptime_ms))
    flags = clock_set + 2 * (uptime_ms is not None)
    bits = "".join(entries(rows, len(columns), step_ms, time_parameter, parameters))
    bits += "0" * (-len(bits) % 8)
    packed = int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""
    return bytes((0xF5, 1, 4 + len(fixed), flags)) + fixed + packed


def _time(ms: int) -> bytes:
    return (ms // DAY_MS).to_bytes(2, "little") + (ms % DAY_MS).to_bytes(4, "little")


def entries(
    rows: Sequence[Row], count: int, step_ms: int, time_parameter: int, parameters: Sequence[int]
) -> Iterator[str]:
    """Yields the bits of each sample, as text."""
    last, time, step = [0] * count, 0, 0
    for index, (time_ms, values) in enumerate(rows):
        now = time_ms // step_ms
        change = now - time - step
        largest = max(abs(v - old) for v, old in zip(values, last, strict=True) if v is not None)
        if not index or abs(change) >= 1 << 28 or largest >= 1 << 28:
            yield _golomb(1, time_parameter) + "1" + _restart(now, values)
            last, step = [value or 0 for value in values], 0
        else:
            yield _mask(values, time_parameter) + _changes(
                change, values, last, time_parameter, parameters
            )
            last = [
                old if value is None else value for value, old in zip(values, last, strict=True)
            ]
            step += change
        time = now


def _golomb(number: int, parameter: int) -> str:
    """Exp-Golomb of order `parameter`."""
    bits = f"{number + (1 << parameter):b}"
    return "0" * (len(bits) - 1 - parameter) + bits


def _zigzag(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _present(values: Sequence[int | None]) -> str:
    return "".join("01"[value is not None] for value in values)


def _mask(values: Sequence[int | None], parameter: int) -> str:
    return _golomb(1, parameter) + "0" + _present(values) if None in values else ""


def _restart(now: int, values: Sequence[int | None]) -> str:
    bits = _present(values)
    for number in (now, *(value for value in values if value is not None)):
        bits += f"{_zigzag(number).bit_length():05b}"
        bits += f"{_zigzag(number):b}" if number else ""
    return bits


def _changes(
    change: int,
    values: Sequence[int | None],
    last: Sequence[int],
    time_parameter: int,
    parameters: Sequence[int],
) -> str:
    bits = _golomb(_zigzag(change) + 1 if change else 0, time_parameter)
    for value, old, parameter in zip(values, last, parameters, strict=True):
        if value is not None:
            bits += _golomb(_zigzag(value - old), parameter)
    return bits


def climate(count: int, seed: int = 1, interval_ms: int = 10_000) -> list[Row]:
    """Returns temperature, humidity and pressure of a room, with the noise of a BME280 at its
    finest resolution, one row per interval."""
    noise = random.Random(seed)
    rows = []
    for i in range(count):
        day = math.sin(i * interval_ms / DAY_MS * 2 * math.pi)
        values = (2150 + 300 * day, 4500 - 900 * day, 101_325 + 40 * math.sin(i / 3000))
        spread = (0.7, 4.0, 1.5)
        row = [round(noise.gauss(value, s)) for value, s in zip(values, spread, strict=True)]
        rows.append((i * interval_ms, row))
    return rows

"""What a table of pipeline_load's messages must hold: number of rows and a checksum, computed only
from the formulas of the load.

The checksum is a sum of one hash per row, so it does not depend on order, and a missing, doubled or
wrong row changes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pipeline_load import SENSORS, START_S, VALUES, readings_of, traffic

COLUMNS = ["device", "stream", "seq", "record", "name", "unit", "value", "time"]
_SENSORS = [f"{name} {unit or ''}" for name, unit in SENSORS]
_WRONG = 1 << 40  # for a device or sensor that was never sent


@dataclass(frozen=True)
class Content:
    rows: int
    checksum: int

    def __add__(self, other: Content) -> Content:
        return Content(self.rows + other.rows, (self.checksum + other.checksum) % 2**64)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The final step of the SplitMix64 generator: each bit of the input affects every bit of the
    result."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _content(*columns: np.ndarray) -> Content:
    hashes = np.full(len(columns[0]), 1, np.uint64)
    for column in columns:
        hashes = _mixed(hashes + column.astype(np.uint64))
    return Content(len(hashes), int(hashes.sum(dtype=np.uint64)))


def expected(messages: int, **options) -> Content:
    """Returns the content for what write_log(…, messages, **options) wrote."""
    highest: dict[int, int] = {}
    for _, device, seq, again in traffic(messages, **options):
        if not again:
            highest[device] = seq
    return sum((_of_device(device, last + 1) for device, last in highest.items()), Content(0, 0))


def _of_device(device: int, messages: int) -> Content:
    counts = readings_of(device, np.arange(messages))
    seq = np.repeat(np.arange(messages), counts)
    record = np.arange(len(seq)) - np.repeat(np.cumsum(counts) - counts, counts)
    value = (seq * 7919 + record * 104_729) % VALUES
    time_ms = START_S * 1000 + seq // 2 * 1000 + seq % 2 * 500
    return _content(
        np.full(len(seq), device), seq, record, (seq + record) % len(SENSORS), value, time_ms
    )


def found(files: list[Path]) -> Content:
    """Returns the content of Parquet files with COLUMNS; raises pyarrow's errors if they cannot be
    read."""
    total = Content(0, 0)
    for batch in _batches(files):
        seq, record = (batch[name].to_numpy(zero_copy_only=False) for name in ("seq", "record"))
        value = np.rint(batch["value"].to_numpy(zero_copy_only=False) * 100)
        time_ms = (
            batch["time"]
            .cast(pa.timestamp("us", "UTC"))
            .cast(pa.int64())
            .to_numpy(zero_copy_only=False)
            / 1000
        )
        total += _content(_devices(batch), seq, record, _sensors(batch), value, time_ms)
    return total


def _batches(files: list[Path]) -> Iterator[pa.RecordBatch]:
    if files:
        data = pyarrow.dataset.dataset([str(path) for path in files], format="parquet")
        for batch in data.to_batches(columns=COLUMNS, batch_size=1 << 18):
            yield batch.cast(pa.schema(map(_short, batch.schema)))


def _short(field: pa.Field) -> pa.Field:
    """Texts as Arrow has them by default; polars writes others."""
    return field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field


def _devices(batch: pa.RecordBatch) -> np.ndarray:
    names = pc.binary_join_element_wise(batch["device"], batch["stream"], "/").dictionary_encode()
    return _looked_up(names, lambda name: _device(*name.split("/")))


def _device(device: str, stream: str) -> int:
    number = device.removeprefix("board-")
    return int(number) if number.isdigit() and stream == f"{int(number):08x}" else _WRONG


def _sensors(batch: pa.RecordBatch) -> np.ndarray:
    names = pc.binary_join_element_wise(
        batch["name"], pc.fill_null(batch["unit"], ""), " "
    ).dictionary_encode()
    return _looked_up(names, lambda name: _SENSORS.index(name) if name in _SENSORS else _WRONG)


def _looked_up(names: pa.DictionaryArray, number) -> np.ndarray:
    numbers = np.array(
        [_WRONG if name is None else number(name) for name in names.dictionary.to_pylist()],
        np.int64,
    )
    return numbers[names.indices.to_numpy(zero_copy_only=False)]

"""How large the state of deduplication is, and whether a replay of any age is recognised.

    python host_tests/bench/pipeline_state.py [--messages 10000000] [--devices 1000] [--gaps 0.001]

Drives the pipeline's own function (transforms.mark_streams) with Arrow batches of `--batch`
messages, out of order, and measures the state as the Parquet file that a run would write. The
messages of the first batch come again at the end, as from a board's 30-day-old outbox: every
message that was there must be recognised, and every missing one taken in.
"""

from __future__ import annotations

import argparse
import io
import resource
import time
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]

import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet  # noqa: E402

from outpost_tools.readings.pipeline import fingerprints, schemas, transforms  # noqa: E402

START_US = 1_763_694_000_000_000
DAY_US = 86_400_000_000


def batch(device: np.ndarray, seq: np.ndarray, number: int, received_us: int) -> pa.Table:
    """Returns one reading per message."""
    rows = len(device)
    columns = {
        "device": pc.binary_join_element_wise("board-", pa.array(device).cast(pa.string()), ""),
        "stream": pc.utf8_lpad(pa.array(device).cast(pa.string()), 8, "0"),
        "seq": pa.array(seq),
        "record": pa.array(np.zeros(rows), pa.int32()),
        "boot": pa.array(np.ones(rows), pa.int32()),
        "held": pa.array(np.zeros(rows, dtype=np.int64)),
        "name": pa.repeat("load", rows),
        "value": pa.array(seq.astype(np.float64)),
        "time": pa.array(START_US + seq * 1_000_000),
        "received": pa.array(np.full(rows, received_us)),
        "collector": pa.repeat("c", rows),
        "segment": pa.array(np.full(rows, number)),
        "offset": pa.array(np.arange(rows) * 200),
    }
    arrays = [
        columns[f.name].cast(f.type) if f.name in columns else pa.nulls(rows, f.type)
        for f in schemas.READING
    ]
    return pa.table(arrays, schema=schemas.READING)


class Taken:
    """The state and the fingerprints, across batches."""

    def __init__(self) -> None:
        self.state = schemas.STREAM.empty_table()
        self._known = np.zeros(0, np.uint64)

    def take(self, rows: pa.Table) -> int:
        """Returns how many messages were new. A repeat must be a duplicate, not a conflict."""
        known = fingerprints.Known([self._known])
        marked = transforms.mark_streams(rows, self.state, known)
        assert not marked.conflicts.num_rows
        self.state = marked.state
        merged = np.concatenate([self._known, np.sort(marked.fingerprints)])
        self._known = np.sort(merged, kind="stable")
        return marked.readings.num_rows


def size_bytes(state: pa.Table) -> int:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(state, sink, compression="snappy")
    return sink.tell()


def run(
    messages: int, devices: int, gaps: float, batch_rows: int, chance: np.random.Generator
) -> None:
    tables, taken, begin, first = Taken(), 0, time.process_time(), None
    for number, start in enumerate(range(0, messages, batch_rows)):
        index = np.arange(start, min(start + batch_rows, messages))
        chance.shuffle(index)
        there = chance.random(len(index)) >= gaps
        rows = batch(
            index[there] % devices, index[there] // devices, number, START_US + number * DAY_US
        )
        new = tables.take(rows)
        taken += new
        first = first or (index, new)
    seconds = time.process_time() - begin
    state = tables.state
    ranges = pc.sum(pc.list_value_length(state["ranges"])).as_py() // 2
    old = first[0]
    late = tables.take(batch(old % devices, old // devices, 10**6, START_US + 30 * DAY_US))
    assert late == len(old) - first[1], "the replay gave something else than what was missing"
    begin_replay = time.process_time()
    assert not tables.take(batch(old % devices, old // devices, 10**6 + 1, START_US + 31 * DAY_US))
    replayed_s = time.process_time() - begin_replay
    print(
        f"{messages:>11,} messages  {gaps:>7.2%} gaps  {taken:>11,} taken in"
        f"  {ranges:>8,} ranges  {size_bytes(state):>10,} B state"
        f"  {messages / seconds:>9,.0f} messages/CPU s"
        f"  old outbox: {late:,} of {len(old):,} were missing, taken in"
        f", again {len(old) / replayed_s:,.0f} messages/CPU s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--gaps", type=float, default=0.001)
    parser.add_argument("--batch", type=int, default=500_000)
    args = parser.parse_args()
    for messages, gaps in (
        (args.messages // 10, args.gaps),
        (args.messages, 0.0),
        (args.messages, args.gaps),
        (args.messages, 10 * args.gaps),
    ):
        run(messages, args.devices, gaps, args.batch, np.random.default_rng(1))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main()

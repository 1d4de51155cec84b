"""A log of series for the pipeline's benches; pipeline_load.py makes one of single messages."""

from __future__ import annotations

from pathlib import Path

import series_writer
from outpost_tools.log import segments


def write_log(
    directory: Path, messages: int, *, samples: int = 60, segment_bytes: int = 16 << 20
) -> int:
    """Write a log of series: samples of three values, a room's climate, 100 boards in turn. Returns
    the number of rows."""
    rows, step_ms = series_writer.climate(samples), 10_000 * samples
    boards = [f"board-{number}" for number in range(100)]
    first = [series_writer.payload(rows, device=board, held=0) for board in boards]
    writer = segments.SegmentWriter(directory / "collector-1", max_bytes=segment_bytes)
    for count in range(messages):
        board, seq = count % len(boards), count // len(boards)
        data = bytearray(first[board])
        day, ms = divmod(series_writer.START_MS + seq * step_ms, series_writer.DAY_MS)
        data[8:12] = seq.to_bytes(4, "little")
        data[20:26] = day.to_bytes(2, "little") + ms.to_bytes(4, "little")
        received_ms = series_writer.START_MS + (seq + 1) * step_ms
        topic = f"outpost/{boards[board]}/data".encode()
        writer.append(segments.encode_frame(received_ms, topic, bytes(data)))
        if count % 1000 == 999:
            writer.commit()
    writer.commit()
    writer.seal()
    return messages * samples * len(series_writer.CLIMATE)

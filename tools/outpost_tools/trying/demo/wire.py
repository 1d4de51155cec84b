"""How often each message arrived over the wire, from the collector's own segments."""

from __future__ import annotations

from collections import Counter

from outpost_tools.log import segments
from outpost_tools.servers.collect.log import frame_key
from outpost_tools.store.base import Store


def redelivered(log: Store) -> Counter[str]:
    """Copies beyond the first, by device, over all collectors in `log`.

    Raises ValueError for a foreign file.
    """
    copies: Counter[tuple[str, str, int]] = Counter()
    for directory in segments.collector_folders(log):
        for path in segments.sealed_segments(directory):
            keys = map(frame_key, segments.read_segment(path))
            copies.update((key.device, key.stream, key.seq) for key in keys if key is not None)
    again: Counter[str] = Counter()
    for (device, _, _), count in copies.items():
        again[device] += count - 1
    return again

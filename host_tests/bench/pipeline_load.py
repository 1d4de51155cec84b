"""Loads for the pipeline's benches and long tests: real SenML of 1 to 5 readings, generated
fast."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from outpost_tools.log import segments

START_S = 1_763_694_000
SENSORS = [
    ("load", None),
    ("memory", "KiB"),
    ("uptime", "s"),
    ("temperature", "Cel"),
    ("humidity", "%RH"),
]
VALUES = 1_000_000  # hundredths
_DEVICES = 1000


def payload(
    device: str, stream: str, seq: int, *, held: int = 0, boot: int = 1, readings: int = 3
) -> bytes:
    """Returns a payload as the firmware writes it: no spaces, values with decimals. The arguments
    determine its content.
    """
    head = f'{{"bn":"{device}/","ver":1,"sid":"{stream}","seq":{seq},"held":{held},"boot":{boot}'
    head += f',"bt":{START_S + seq // 2}.{seq % 2 * 5}'
    body = []
    for index in range(readings):
        name, unit = SENSORS[(seq + index) % len(SENSORS)]
        unit = f',"u":"{unit}"' if unit else ""
        value = (seq * 7919 + index * 104_729) % VALUES
        body.append(f'"n":"{name}"{unit},"v":{value // 100}.{value % 100:02d}}}')
    return f"[{head},{',{'.join(body)}]".encode()


def readings_of(device, seq):
    """Returns how many readings a message has; also for arrays."""
    return 1 + (device * 31 + seq * 17) % 5


def traffic(
    messages: int, *, devices: int = _DEVICES, seed: int = 1, duplicates: float = 0.0
) -> Iterator[tuple[int, int, int, bool]]:
    """Yields (milliseconds since 1970, device, seq, whether it came before): each device's messages
    in order, devices mixed.

    Of the `messages`, the share `duplicates` comes again at any later moment, as after a lost
    acknowledgement or in a replay.
    """
    chance, following = random.Random(seed), [0] * devices
    for count in range(messages):
        device = chance.randrange(devices)
        again = following[device] > 0 and chance.random() < duplicates
        seq = chance.randrange(following[device]) if again else following[device]
        following[device] += not again
        yield (START_S + count // 1000) * 1000, device, seq, again


def message(device: int, seq: int) -> tuple[str, bytes]:
    """Returns (device's name, payload) as on the wire."""
    name = f"board-{device}"
    held, readings = max(0, seq - 50), readings_of(device, seq)
    return name, payload(name, f"{device:08x}", seq, held=held, readings=readings)


def write_log(
    directory: Path,
    messages: int,
    *,
    devices: int = _DEVICES,
    seed: int = 1,
    segment_bytes: int = 16 << 20,
    duplicates: float = 0.0,
    json_lines: Path | None = None,
    commit_each: int = 1000,
    last: int = 0,
) -> int:
    """Write a collector's sealed segments, and on request the same messages as JSON lines. Returns
    the number of distinct rows. commit_each: messages per commit; a full segment is sealed then.
    last: that many messages at the end begin a new file.
    """
    writer, rows = segments.SegmentWriter(directory / "collector-1", max_bytes=segment_bytes), 0
    lines = _Lines(json_lines, segment_bytes) if json_lines else None
    sent = traffic(messages, devices=devices, seed=seed, duplicates=duplicates)
    for count, (received_ms, device, seq, again) in enumerate(sent):
        if last and count == messages - last:
            writer.commit()
            writer.seal()
            if lines:
                lines.close()
        name, data = message(device, seq)
        topic = f"outpost/{name}/data"
        writer.append(segments.encode_frame(received_ms, topic.encode(), data))
        if lines:
            lines.append(received_ms, topic, data)
        rows += 0 if again else readings_of(device, seq)
        if count % commit_each == commit_each - 1:
            writer.commit()
    writer.commit()
    writer.seal()
    if lines:
        lines.close()
    return rows


class _Lines:
    """Files of one JSON object per line, as a subscriber would write them: {"received": ms,
    "topic": ..., "payload": [...]}.
    """

    def __init__(self, folder: Path, file_bytes: int) -> None:
        folder.mkdir(parents=True)
        self._folder, self._file_bytes, self._number, self._file = folder, file_bytes, 0, None

    def append(self, received_ms: int, topic: str, data: bytes) -> None:
        if self._file is None or self._file.tell() >= self._file_bytes:
            self.close()
            self._file = (self._folder / f"messages-{self._number:06d}.json").open("wb")
            self._number += 1
        self._file.write(
            b'{"received":%d,"topic":%s,"payload":%s}\n'
            % (received_ms, json.dumps(topic).encode(), data)
        )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

"""Loads for the pipeline's benches and long tests: real SenML of 1 to 5 readings, made fast."""

from __future__ import annotations

import random
from pathlib import Path

from outpost_tools import segments

START_S = 1_763_694_000
_SENSORS = [("load", None), ("memory", "KiB"), ("uptime", "s"), ("temperature", "Cel"), ("humidity", "%RH")]


def payload(device: str, stream: str, seq: int, *, held: int = 0, boot: int = 1, readings: int = 3) -> bytes:
    """As the firmware writes it: no spaces, values with decimals. What is in it follows from its arguments."""
    head = f'{{"bn":"{device}/","ver":1,"sid":"{stream}","seq":{seq},"held":{held},"boot":{boot}'
    head += f',"bt":{START_S + seq // 2}.{seq % 2 * 5}'
    body = []
    for index in range(readings):
        name, unit = _SENSORS[(seq + index) % len(_SENSORS)]
        unit = f',"u":"{unit}"' if unit else ""
        value = (seq * 7919 + index * 104_729) % 1_000_000
        body.append(f'"n":"{name}"{unit},"v":{value // 100}.{value % 100:02d}}}')
    return f"[{head},{',{'.join(body)}]".encode()


def readings_of(device: int, seq: int) -> int:
    return 1 + (device * 31 + seq * 17) % 5


def write_log(directory: Path, messages: int, *, devices: int = 1000, seed: int = 1, segment_bytes: int = 16 << 20) -> int:
    """A collector's sealed segments: each device's messages in order, devices mixed. The number of rows."""
    writer = segments.SegmentWriter(directory / "collector-1", max_bytes=segment_bytes)
    chance, following, rows = random.Random(seed), [0] * devices, 0
    for count in range(messages):
        device = chance.randrange(devices)
        seq = following[device]
        following[device] += 1
        readings = readings_of(device, seq)
        name = f"board-{device}"
        data = payload(name, f"{device:08x}", seq, held=max(0, seq - 50), readings=readings)
        writer.append(segments.encode_frame((START_S + count // 1000) * 1000, f"outpost/{name}/data".encode(), data))
        rows += readings
        if count % 1000 == 999:
            writer.commit()
    writer.commit()
    writer.seal()
    return rows

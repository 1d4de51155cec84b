"""The start of runs on the emulated board: the payload of `outpost flash`, and a first start."""

from __future__ import annotations

import functools
import json
import random
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.boards.files import payload
from outpost_tools.boards.port import kinds
from outpost_tools.errors import ToolError
from rp2040 import image
from rp2040.board import Board, flash_image, stand_ins
from rp2040.memory_link import MemoryLink
from rp2040.mqtt_peer import Collector

REPOSITORY = Path(__file__).resolve().parents[3]
KIND = "RPI_PICO_W"
FIRST_START_S = 60


@dataclass(frozen=True)
class Installed:
    """fresh: the flash as `outpost flash` leaves it. started: after the first start, with pinned
    blocks."""

    files: dict[str, bytes]
    fresh: bytes
    started: bytes
    first_start_s: float


@functools.cache
def firmware_files() -> dict[str, bytes]:
    """Returns path -> bytes, exactly as copied to a Pico W."""
    return payload.build(REPOSITORY, kinds.load(REPOSITORY, KIND), "armv6m")


def install(interval_ms: int, blocks: int, interpreter: str = "pico") -> Installed:
    """interpreter: of tools/rp2_image.py; `pico-outpost` contains the firmware, and gets none of
    its files.

    Raises ToolError if the board does not deliver its first message.
    """
    settings = {
        "device_id": "b1",
        "broker_host": "broker.example",
        "wifi_ssid": "Home",
        "interval_ms": interval_ms,
        "outbox_blocks": blocks,
    }
    files = {} if interpreter == "pico-outpost" else firmware_files()
    fresh = flash_image(image.load(image.find(interpreter)), files, settings)
    collector = Collector(random.Random(1))
    board = Board(fresh, link=MemoryLink.to(collector))
    if not board.run_for(FIRST_START_S, lambda: bool(collector.messages)):
        raise ToolError(
            f"nothing arrived in {FIRST_START_S} s of the chip's time:\n{board.text[-2000:]}"
        )
    board.close()
    all_files = {**files, **stand_ins(), "/settings.json": json.dumps(settings).encode()}
    return Installed(all_files, fresh, board.image, board.seconds)

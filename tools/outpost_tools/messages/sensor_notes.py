"""What a board reports about its sensors: NAME.fault and NAME.faults. They come from
firmware/station/sensor_notices.py.
"""

from __future__ import annotations

from outpost_tools.machine.firmware import sensor_faults
from outpost_tools.messages.board_words import FAULT, OF_SENSORS


def is_note(name: str) -> bool:
    return name.endswith(OF_SENSORS)


def words(name: str, value: float) -> str | None:
    """For example "soil: no answer". None: this is not a fault of a sensor, or the sensor works."""
    if not name.endswith(FAULT) or value not in range(1, len(sensor_faults())):
        return None
    return f"{name.removesuffix(FAULT)}: {sensor_faults()[int(value)]}"

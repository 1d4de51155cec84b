"""PMS5003, PMS7003, PMSA003: particles in the air, by Plantower, on a UART. Not tried on hardware.

Micrograms of particles up to 1, 2.5 and 10 um in a cubic metre of air ("under atmospheric
environment"; data manual V2.3 of 2016, appendices I and II). The driver uses the passive mode, in
which the sensor sends a frame on request, so both tx and rx must be connected. A reading takes at
most 0.8 s. None for the first 30 s, until the fan's air flow is stable. The fan keeps running while
the board sleeps.

No reading: twelve zeros, six concentrations and six counts, are a laser or a fan that does not run:
no room is without a particle of 0.3 um. Until the fan's air flow is stable, None. A wrong
checksum is asked for again. Below zero: nothing; 16 bits without a sign.
"""

import time

from micropython import const

from support.sensor_uart import Asked, uart

KEYS = {"uart": (0, 2, 1), "tx": (0, 48, None), "rx": (0, 48, None)}
# the data manual promises 500, and a range of 1,000 or more
READINGS = (
    ("pm1", "ug/m3", 0, 0, 10_000),
    ("pm25", "ug/m3", 0, 0, 10_000),
    ("pm10", "ug/m3", 0, 0, 10_000),
)
SETTLE_MS = 30_100

_BAUD = const(9600)
_PMS5003_BYTES = const(32)
_HEAD = b"\x42\x4d\x00\x1c"  # two start characters, and that 28 bytes follow
_PASSIVE = b"\x42\x4d\xe1\x00\x00\x01\x70"
_READ = b"\x42\x4d\xe2\x00\x00\x01\x71"
_WARM_UP_MS = const(30_000)
_PMS5003_MS = const(800)


class Driver:
    _values: "list[int | None]"  # None before the first measurement

    def __init__(self, options):
        line = uart(options, _BAUD)
        self._asked = Asked(line, _READ, _HEAD, _PMS5003_BYTES, is_good, _PMS5003_MS)
        self._values = [None, None, None]
        line.write(_PASSIVE)
        self._started_ms = time.ticks_ms()

    def read(self):
        values, frame = self._values, self._asked.frame
        if values[0] is None and not self._is_warm():
            return values
        self._asked.fetch()
        if not has_measured(frame):
            values[0] = values[1] = values[2] = None
            raise OSError("twelve zeros: the fan or the laser does not run")
        values[0] = frame[10] << 8 | frame[11]
        values[1] = frame[12] << 8 | frame[13]
        values[2] = frame[14] << 8 | frame[15]
        return values

    def _is_warm(self):
        return time.ticks_diff(time.ticks_ms(), self._started_ms) >= _WARM_UP_MS


def has_measured(frame):
    """Whether one of its concentrations and counts, bytes 4 to 27, is not 0."""
    index = 4
    while index < 28:
        if frame[index]:
            return True
        index += 1
    return False


def is_good(frame):
    """Whether its last two bytes are the sum of the others."""
    index, total = 0, 0
    while index < _PMS5003_BYTES - 2:
        total += frame[index]
        index += 1
    return total == frame[index] << 8 | frame[index + 1]

"""MH-Z19B, MH-Z19C: CO2, by Winsen, on a UART. Not tried on hardware.

Needs 5 V, and both tx and rx. A reading takes at most 0.3 s. self_calibration assumes fresh air
(400 ppm) at some time of each day: switch it off in a greenhouse. "unchanged" leaves it as it is in
the sensor, which is delivered with it on.

No reading: 0 ppm is no CO2 that air has; a frame with a wrong checksum is asked for again. After
power-on the sensor warms up for 3 minutes, the MH-Z19C for one; until then its values are wrong,
and nothing marks them (manual of the MH-Z19B, V1.0). Below zero: nothing; 16 bits without a sign.
"""

from micropython import const

from support.sensor_uart import Asked, uart

KEYS = {
    "uart": (0, 2, 1),
    "tx": (0, 48, None),
    "rx": (0, 48, None),
    "self_calibration": ("unchanged", "on", "off"),
}
READINGS = (("co2", "ppm", 0, 1, 10_000),)

_BAUD = const(9600)
_MHZ19_BYTES = const(9)
_HEAD = b"\xff\x86"
_READ = b"\xff\x01\x86\x00\x00\x00\x00\x00\x79"
_SELF_CALIBRATION = {
    "on": b"\xff\x01\x79\xa0\x00\x00\x00\x00\xe6",
    "off": b"\xff\x01\x79\x00\x00\x00\x00\x00\x86",
}
_MHZ19_MS = const(300)


class Driver:
    def __init__(self, options):
        line = uart(options, _BAUD)
        self._asked = Asked(line, _READ, _HEAD, _MHZ19_BYTES, is_good, _MHZ19_MS)
        command = _SELF_CALIBRATION.get(options["self_calibration"])
        if command:
            line.write(command)

    def read(self):
        self._asked.fetch()
        ppm = self._asked.frame[2] << 8 | self._asked.frame[3]
        if not ppm:
            raise ValueError("0 ppm: the sensor has not measured")
        return ppm


def is_good(frame):
    """Whether the sum of all bytes but the first is 0 in 8 bits."""
    index, total = 1, 0
    while index < _MHZ19_BYTES:
        total += frame[index]
        index += 1
    return not total & 0xFF

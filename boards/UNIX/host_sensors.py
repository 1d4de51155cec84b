"""Sensors of the host: load, memory, uptime, and temperature if the host has one.

They are files of /proc and /sys, read without allocation. Driver files work as on a board.
"""


class HostFile:
    """A number from a small file.

    words: how many blank-separated words precede it. places: decimals kept.
    """

    def __init__(self, name, unit, path, words, places, exponent):
        self.name, self.unit, self.exponent = name, unit, exponent
        self._words, self._places = words, places
        self._file = open(path, "rb")
        self._buf = bytearray(256)

    def read(self):
        """The number times 10 ** places; None if it is missing or too large for 30 bits."""
        self._file.seek(0)
        length = self._file.readinto(self._buf)
        return self._number(self._skip_words(length or 0), length or 0)

    def _skip_words(self, length):
        at = 0
        for _ in range(self._words):
            while at < length and self._buf[at] > 32:
                at += 1
            while at < length and self._buf[at] <= 32:
                at += 1
        return at

    def _number(self, at, length):
        value, places = None, -1
        while at < length and places < self._places:
            byte = self._buf[at]
            if byte == 0x2E:
                places = 0
            elif 0x30 <= byte <= 0x39:
                value = (value or 0) * 10 + byte - 0x30
                places += places >= 0
            else:
                break
            if value is not None and value > 100_000_000:
                return None
            at += 1
        return self._scaled(value, max(places, 0))

    def _scaled(self, value, places):
        while value is not None and places < self._places:
            value *= 10
            places += 1
        return value


# name, unit (SenML, RFC 8428 and 8798), path, words before, decimals kept, exponent
_KNOWN = {
    "load": (b"load", b"", "/proc/loadavg", 0, 2, -2),
    "memory": (b"memory", b"KiB", "/proc/meminfo", 7, 0, 0),
    "uptime": (b"uptime", b"s", "/proc/uptime", 0, 2, -2),
    "temperature": (b"temperature", b"Cel", "/sys/class/thermal/thermal_zone0/temp", 0, 0, -3),
}


def choose(names):
    """The sensors with these names; all that the host has if names is None.

    Raises ValueError for an unknown name.
    """
    chosen = []
    for name in names or sorted(_KNOWN):
        if isinstance(name, dict):
            from support.sensor_file import SensorFile

            chosen.append(SensorFile(name))
            continue
        if name not in _KNOWN:
            raise ValueError(
                "sensors: unknown sensor '" + str(name) + "'; known: " + ", ".join(sorted(_KNOWN))
            )
        try:
            chosen.append(HostFile(*_KNOWN[name]))
        except OSError:
            if names:
                raise ValueError("sensors: this host has no sensor '" + name + "'")
    return chosen

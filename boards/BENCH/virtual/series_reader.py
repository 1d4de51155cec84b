"""Reads the message of a series, written only from the format page (firmware/SERIES_FORMAT.md) and
without a line of the firmware. Runs under both Pythons.
"""

DAY_MS = 86_400_000
MAGIC = 0xF5


def read(payload):
    """Returns a message as a dict; AssertionError if it is not one."""
    assert payload[0] == MAGIC and payload[1] == 1, payload[:2]
    found = {"stream": "".join(["%02x" % byte for byte in payload[4:8]])}
    found["seq"], found["held"] = _number(payload, 8, 4), _number(payload, 12, 4)
    found["boot"], found["clock_set"] = _number(payload, 16, 2), payload[3] & 1 > 0
    start_ms = _time(payload, 20)
    device_end = 31 + payload[30]
    found["device"] = payload[31:device_end].decode()
    found["columns"], ks, at = _columns(payload, device_end)
    found["uptime_ms"] = None if found["clock_set"] else start_ms
    if payload[3] & 2:
        found["uptime_ms"] = _time(payload, at)
        at += 6
    assert at == payload[2], "header length"
    bits = "".join([("0000000" + bin(byte)[2:])[-8:] for byte in payload[at:]])
    samples = _Samples(bits, [payload[28]] + ks).read()
    step_ms = _number(payload, 26, 2)
    found["samples"] = [(start_ms + time * step_ms, values) for time, values in samples]
    return found


def _number(payload, at, count):
    return sum([payload[at + i] << 8 * i for i in range(count)])


def _time(payload, at):
    return _number(payload, at, 2) * DAY_MS + _number(payload, at + 2, 4)


def _columns(payload, at):
    columns, ks = [], []
    for _ in range(payload[29]):
        exponent = payload[at] - (payload[at] > 127) * 256
        name = at + 3 + payload[at + 2]
        end = name + (payload[at + 1] >> 4)
        columns.append((payload[at + 3 : name].decode(), payload[name:end].decode(), exponent))
        ks.append(payload[at + 1] & 15)
        at = end
    return columns, ks, at


class _Samples:
    """The bits of the samples, and the state that each continues from."""

    def __init__(self, bits, ks):
        self.bits, self.ks, self.at = bits, ks, 0
        self.count = len(ks) - 1
        self.time = self.step = 0
        self.last = [0] * self.count

    def take(self, size):
        self.at += size
        assert self.at <= len(self.bits), "cut short"
        return int("0" + self.bits[self.at - size : self.at], 2)

    def code(self, k):
        zeros = 0
        while not self.take(1):
            zeros += 1
        return (1 << zeros + k | self.take(zeros + k)) - (1 << k)

    def whole(self):
        return _signed(self.take(self.take(5)))

    def read(self):
        found = []
        while "1" in self.bits[self.at :] or len(self.bits) - self.at > 7:
            found.append(self.sample())
        return found

    def sample(self):
        there = [True] * self.count
        number = self.code(self.ks[0])
        if number == 1:
            restart = self.take(1)
            there = [self.take(1) > 0 for _ in range(self.count)]
            if restart:
                return self.restart(there)
            number = self.code(self.ks[0])
        self.step += _signed(number - 1 if number else 0)
        self.time += self.step
        for i in range(self.count):
            self.last[i] += _signed(self.code(self.ks[i + 1])) if there[i] else 0
        return self.row(there)

    def restart(self, there):
        self.time, self.step = self.whole(), 0
        self.last = [self.whole() if one else 0 for one in there]
        return self.row(there)

    def row(self, there):
        return self.time, tuple([self.last[i] if there[i] else None for i in range(self.count)])


def _signed(number):
    return -(number + 1 >> 1) if number & 1 else number >> 1

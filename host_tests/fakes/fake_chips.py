"""Chips and sensors for the wiring of fake_bus.py that take time and refuse commands as their data
sheets say: SCD4x, INA219, INA226, BH1750, HX711, and sensors on a UART.

They do not allocate once they are constructed, because the tests measure what the drivers allocate.
"""

import errno
import gc

import micropython

from support.sensor_bus import crc8

_UART_BUFFER_BYTES = 256  # MicroPython's default


class _Waking:
    """The part of a board that the wait before a measurement in deep sleep needs."""

    def __init__(self, wiring):
        self._wiring = wiring

    def ticks_ms(self):
        return self._wiring.now_ms

    def feed_watchdog(self):
        pass

    def idle(self, client):
        self._wiring.now_ms += 10


def readings_of_a_wake(channels, wiring):
    """Returns the readings of a board that wakes, lets its sensors settle, and measures."""
    from station import deep_sleep

    deep_sleep._settle(channels, _Waking(wiring), None)
    return [one.read() for one in channels]


def gross(call):
    """Returns the bytes that the call allocates, garbage included. MicroPython only."""
    gc.collect()
    before = micropython.mem_total()
    call()
    return micropython.mem_total() - before


def with_checksums(*words):
    """Returns the words in Sensirion's form: a checksum after each word."""
    found = b""
    for word in words:
        pair = bytes((word >> 8, word & 255))
        found += pair + bytes((crc8(pair, 0, 2),))
    return found


class Scd4x:
    """words: the measurement that it returns. period_ms: 0 while it is idle. settings: {command:
    value} that it was given. is_stuck: it accepts every command but no longer measures."""

    STOP, READY, READ = 0x3F86, 0xE4B8, 0xEC05
    PERIODS_MS = {0x21B1: 5000, 0x21AC: 30_000}  # by the command that starts
    WHILE_MEASURING = (STOP, READY, READ)
    is_stuck = False

    def __init__(self, wiring, *words):
        self._wiring = wiring
        self.period_ms = self._since_ms = self._busy_ms = 0
        self.settings, self._command = {}, 0
        self._yes, self._no = with_checksums(0x8006), with_checksums(0x8000)
        self.measure(*words)

    def measure(self, *words):
        self.data = with_checksums(*words)

    def write(self, data):
        command = data[0] << 8 | data[1]
        if self._wiring.now_ms < self._busy_ms:
            raise OSError(errno.EIO)
        if self.period_ms and command not in self.WHILE_MEASURING:
            raise OSError(errno.EIO)
        self._command = command
        if command == self.STOP:
            self.period_ms, self._busy_ms = 0, self._wiring.now_ms + 500
        elif command in self.PERIODS_MS:
            self.period_ms = self.PERIODS_MS[command]
            self._since_ms = self._wiring.now_ms
        elif len(data) == 5:
            if crc8(data, 2, 2) != data[4]:
                raise OSError(errno.EIO)
            self.settings[command] = data[2] << 8 | data[3]

    def _has_measured(self):
        elapsed_ms = self._wiring.now_ms - self._since_ms
        return self.period_ms and elapsed_ms >= self.period_ms and not self.is_stuck

    def answer(self, count):
        if self._command == self.READY:
            return self._yes if self._has_measured() else self._no
        if self._command != self.READ or not self._has_measured():
            raise OSError(errno.EIO)
        self._since_ms = self._wiring.now_ms
        return self.data


class Ina:
    """INA219 or INA226: words of 16 bits. flag: (register, bit) that a conversion is ready; cleared
    when it is read and when a conversion begins. takes_ms: duration of a conversion."""

    is_stuck = False

    def __init__(self, wiring, flag, takes_ms, **words):
        self._wiring, self._takes_ms = wiring, takes_ms
        self._flag, self._bit = flag
        self._due_ms = -1
        self.buffers = {number: bytearray(2) for number in (0, 1, 2, 3, 4, 5, 6, 7, 0xFE, 0xFF)}
        for name, word in words.items():
            self.put(int(name[1:], 16), word)

    def put(self, register, word):
        self.buffers[register][0], self.buffers[register][1] = word >> 8, word & 255

    def set(self, register, data):
        self.put(register, data[0] << 8 | data[1])
        if register == 0:
            self._due_ms = self._wiring.now_ms + self._takes_ms

    def get(self, register, count):
        buffer = self.buffers[register]
        if register == self._flag:
            buffer[1] &= 0xFF ^ self._bit
            if 0 <= self._due_ms <= self._wiring.now_ms and not self.is_stuck:
                buffer[1] |= self._bit
                self._due_ms = -1
        return buffer


def ina219(wiring, **words):
    return Ina(wiring, (2, 2), 75, **words)


def ina226(wiring, **words):
    return Ina(wiring, (6, 8), 38, r06=0, rFE=0x5449, rFF=0x2260, **words)


class Bh1750:
    """lux10: the light, in tenths of a lux. It counts 1.2 per lux with its standard time."""

    def __init__(self, wiring, lux10):
        self._wiring, self.lux10 = wiring, lux10
        self._time, self._is_on, self._due_ms = 69, False, -1
        self._data = bytearray(2)

    def write(self, data):
        code = data[0]
        if code == 1:
            self._is_on = True
        elif code >> 3 == 0b01000:
            self._time = self._time & 31 | (code & 7) << 5
        elif code >> 5 == 0b011:
            self._time = self._time & 0xE0 | code & 31
        elif code == 0x20 and self._is_on and 31 <= self._time <= 254:
            self._due_ms = self._wiring.now_ms + 180 * self._time // 69
        else:
            raise OSError(errno.EIO)

    def answer(self, count):
        if 0 <= self._due_ms <= self._wiring.now_ms:
            counts = min(self.lux10 * 12 * self._time // 69 // 100, 0xFFFF)
            self._data[0], self._data[1] = counts >> 8, counts & 255
            self._due_ms, self._is_on = -1, False
        return self._data


class Hx711:
    """On the pins dout and sck. raw: the result of conversions with a gain of 128. An interrupt
    comes whenever it may, and lasts longer than the clock may be high."""

    GAINS = {25: 128, 26: 32, 27: 64}
    is_grounded = is_stuck = False

    def __init__(self, wiring, dout, sck, raw):
        self._wiring, self.raw = wiring, raw
        wiring.lines[dout], wiring.lines[sck] = self._data, self._clock
        self._level = self._word = 0
        self._reset()

    def _reset(self):
        self._pulses, self.gain = 0, 128
        self._began_ms = self._wiring.now_ms
        self._settled_ms = self._began_ms + 400

    def _data(self, level):
        if self.is_grounded:
            return 0
        if 1 <= self._pulses <= 24:
            return self._word >> 24 - self._pulses & 1
        if self.is_stuck or self._wiring.now_ms - self._began_ms < 100:
            return 1
        if self._pulses:
            self._begin(self.GAINS[self._pulses])
        return 0

    def _begin(self, gain):
        if gain != self.gain:
            self.gain, self._settled_ms = gain, self._began_ms + 400
        self._pulses = 0

    def _clock(self, level):
        if level and not self._level:
            if self._wiring.may_interrupt:
                self._reset()
            else:
                self._rise()
        self._level = level

    def _rise(self):
        self._pulses += 1
        self._began_ms = self._wiring.now_ms
        if self._pulses == 1:
            is_good = self._wiring.now_ms >= self._settled_ms
            self._word = self.raw * self.gain // 128 & 0xFFFFFF if is_good else 0x123456


class Serial:
    """A sensor on a UART that answers `replies` to the commands it knows, 10 ms later, one byte per
    millisecond. before: bytes that arrived unrequested and wait in the port's buffer. commands:
    those that it received."""

    delay_ms = 10

    def __init__(self, wiring, replies, before=b""):
        self._wiring, self.replies, self.commands = wiring, replies, []
        self._data, self._at, self._due_ms = b"", 0, 0
        self.come(before)

    def come(self, data):
        """Bytes arrive now, unrequested; bytes without room are lost, as in the port."""
        self._data = (self._data[self._at :] + data)[:_UART_BUFFER_BYTES]
        self._at, self._due_ms = 0, self._wiring.now_ms - len(self._data)

    def write(self, data):
        if data not in self.commands:
            self.commands.append(bytes(data))
        reply = self.replies.get(data)
        if reply:
            if self._at < len(self._data):
                reply = self._data[self._at :] + reply
            self._data, self._at = reply, 0
            self._due_ms = self._wiring.now_ms + self.delay_ms

    def any(self):
        arrived = max(self._wiring.now_ms - self._due_ms, 0)
        return max(min(arrived, len(self._data)) - self._at, 0)

    def byte(self):
        self._at += 1
        return self._data[self._at - 1]

"""A bus and pins as fakes of `machine`, with chips that answer as their data sheets say.

The fakes have no public name that the port's classes lack (test_fakes.py). Tests add chips to
`Wiring` and remove them.
"""

import errno
import sys


class Wiring:
    """What is connected. chips: {address: chip}; levels, millivolts: {pin: value}; serial: {rx pin:
    sensor}.

    handlers: {pin: callable that its driver registered for an edge}; lines: {pin: callable that
    gets the level that the board drives, or None, and returns what the board reads};
    may_interrupt: interrupts are not switched off; buses: how many were constructed. adc: the
    port's class; RP2's by default.
    """

    def __init__(self, adc=None):
        self.adc = adc or FakeWiredAdc
        self.chips, self.levels, self.millivolts, self.handlers = {}, {}, {}, {}
        self.serial, self.lines = {}, {}
        self.may_interrupt = True
        self.buses = 0
        self.now_ms = 0

    def chip(self, address):
        if address not in self.chips:
            raise OSError(errno.EIO)
        return self.chips[address]

    def edge(self, pin):
        self.handlers[pin](None)


class FakeI2C:
    def __init__(self, wiring):
        self._wiring = wiring

    def scan(self):
        return sorted(self._wiring.chips)

    def writeto(self, address, data):
        self._wiring.chip(address).write(data)
        return len(data)

    def readfrom(self, address, count):
        return bytes(self._wiring.chip(address).answer(count))

    def readfrom_into(self, address, buf):
        copy(buf, self._wiring.chip(address).answer(len(buf)))

    def writeto_mem(self, address, register, data):
        self._wiring.chip(address).set(register, data)

    def readfrom_mem(self, address, register, count):
        return bytes(self._wiring.chip(address).get(register, count))

    def readfrom_mem_into(self, address, register, buf):
        copy(buf, self._wiring.chip(address).get(register, len(buf)))


class FakeUart:
    """Has a timeout of 0, the port's default. What it sends reaches the sensor at once."""

    def __init__(self, sensor):
        self._sensor = sensor

    def any(self):
        return self._sensor.any() if self._sensor else 0

    def readinto(self, buf, nbytes=None):
        """As on the port: None if nothing has arrived."""
        count = min(self.any(), len(buf) if nbytes is None else nbytes)
        at = 0
        while at < count:
            buf[at] = self._sensor.byte()
            at += 1
        return count or None

    def write(self, buf):
        if self._sensor:
            self._sensor.write(buf)
        return len(buf)


def copy(target, source):
    at = len(target)
    while at:
        at -= 1
        target[at] = source[at]


class FakeWiredPin:
    IN, PULL_UP, PULL_DOWN, OUT, IRQ_FALLING, IRQ_RISING = 0, 1, 2, 3, 4, 8
    _wiring = None

    def __init__(self, number, mode=-1, pull=-1, value=None):
        self._number, self._pull = number, pull
        if mode == self.OUT:
            self.value(value)

    def value(self, level=None):
        line = self._wiring.lines.get(self._number)
        if line:
            return line(level)
        idle = 1 if self._pull == self.PULL_UP else 0
        return self._wiring.levels.get(self._number, idle)

    def irq(self, handler, trigger):
        self._wiring.handlers[self._number] = handler


class FakeWiredAdc:
    """RP2's ADC: 3.3 V read as 65,535."""

    _wiring = None

    def __init__(self, pin):
        self._pin = pin

    def read_u16(self):
        return self._wiring.millivolts.get(self._pin._number, 0) * 65_535 // 3300


class FakeWiredAdcEsp32(FakeWiredAdc):
    """ESP32's ADC, whose range ends at 0.95 V unless a wider one is set."""

    ATTN_11DB = 3
    _most_mv = 950

    def atten(self, value):
        self._most_mv = 3100 if value == self.ATTN_11DB else 950

    def read_uv(self):
        return min(self._wiring.millivolts.get(self._pin._number, 0), self._most_mv) * 1000


class FakeWiredMachine:
    """`machine` as a driver imports it."""

    def __init__(self, wiring):
        self._wiring = wiring
        self.Pin, self.ADC = FakeWiredPin, wiring.adc
        FakeWiredPin._wiring = FakeWiredAdc._wiring = wiring

    def I2C(self, number, scl, sda, freq):  # noqa: N802 - the port's name
        self._wiring.buses += 1
        return FakeI2C(self._wiring)

    def SoftI2C(self, scl, sda, freq):  # noqa: N802
        return self.I2C(-1, scl, sda, freq)

    def disable_irq(self):
        was, self._wiring.may_interrupt = self._wiring.may_interrupt, False
        return was

    def enable_irq(self, state):
        self._wiring.may_interrupt = state

    def UART(self, number, baudrate, tx, rx):  # noqa: N802
        self._wiring.buses += 1
        assert baudrate == 9600
        return FakeUart(self._wiring.serial.get(rx._number))


class FakeDriverTime:
    """`time`, as far as drivers use it."""

    def __init__(self, wiring):
        self._wiring = wiring

    def ticks_ms(self):
        return self._wiring.now_ms

    def ticks_diff(self, a, b):
        return (a - b + 0x20000000 & 0x3FFFFFFF) - 0x20000000  # as on 32 bits

    def sleep_ms(self, ms):
        self._wiring.now_ms += ms


class Registers:
    """A chip with registers. values: {number: byte}; all others are 0."""

    def __init__(self, values):
        self.values = bytearray(256)
        for number, value in values.items():
            self.values[number] = value
        self.view = memoryview(self.values)

    def get(self, register, count):
        return self.view[register : register + count]

    def set(self, register, data):
        at = 0
        while at < len(data):
            self.values[register + at] = data[at]
            at += 1


# The example of the BMP280's data sheet (3.12): 25.08 degrees, 100,653.27 Pa
WORDS = (27504, 26435, -1000, 36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000)
RAW = (415148, 519888, 29000)
HUMIDITY = (75, 362, 0, 324, 50, 30)  # of a chip on a desk: H1 to H6


def bme280():
    return Bosch(0x60, WORDS, RAW, HUMIDITY)


class Bosch(Registers):
    """BME280 or BMP280. calibration: 12 words, then those of the humidity, in the data sheet's
    order. measured: raw pressure, temperature, humidity."""

    def __init__(self, chip_id, words, measured, humidity=None):
        values = {0xD0: chip_id}
        for index, one in enumerate(words):
            values[0x88 + 2 * index], values[0x89 + 2 * index] = one & 255, one >> 8 & 255
        if humidity:
            h1, h2, h3, h4, h5, h6 = humidity
            more = (h2 & 255, h2 >> 8 & 255, h3, h4 >> 4 & 255,
                    (h5 & 15) << 4 | h4 & 15, h5 >> 4 & 255, h6 & 255)  # fmt: skip
            values[0xA1] = h1
            for index, one in enumerate(more):
                values[0xE1 + index] = one
        Registers.__init__(self, values)
        self.measure(measured)

    def measure(self, measured):
        pressure, temperature, humidity = measured
        self.set(0xF7, bytes((pressure >> 12, pressure >> 4 & 255, (pressure & 15) << 4)))
        self.set(0xFA, bytes((temperature >> 12, temperature >> 4 & 255, (temperature & 15) << 4)))
        self.set(0xFD, bytes((humidity >> 8, humidity & 255)))

    def reads(self):
        """Do the register reads of one reading, to measure what the fake itself allocates."""
        self.get(0xF3, 1)
        self.get(0xF7, 8)


class Commanded:
    """A chip that answers its command with the same bytes each time, such as SHT3x, SHT4x or AHT20.
    commands: the different ones that it received."""

    def __init__(self, data):
        self.data, self.commands = data, []

    def write(self, data):
        if data not in self.commands:
            self.commands.append(bytes(data))

    def answer(self, count):
        return self.data


class Installed:
    """`with Installed(wiring)`: drivers find the fakes. modules: further fakes, by name."""

    def __init__(self, wiring, **modules):
        modules["machine"] = FakeWiredMachine(wiring)
        self._modules, self._kept = modules, {}
        self._time = FakeDriverTime(wiring)
        self.ticks_ms = self._time.ticks_ms

    def __enter__(self):
        from support import sensor_bus, sensor_uart

        sensor_bus._open.clear()
        sensor_uart._open.clear()
        self._kept_time, sensor_uart.time = sensor_uart.time, self._time
        for name, module in self._modules.items():
            self._kept[name] = sys.modules.get(name)
            sys.modules[name] = module
        return self

    def __exit__(self, *error):
        from support import sensor_uart

        sensor_uart.time = self._kept_time
        for name, module in self._kept.items():
            sys.modules.pop(name)
            if module:
                sys.modules[name] = module

    def sensor(self, **given):
        """Returns a SensorFile whose driver uses the fakes' clock."""
        from support.sensor_file import SensorFile

        found = SensorFile(given)
        if hasattr(found, "_module") and hasattr(found._module, "time"):
            found._module.time = self._time
        return found

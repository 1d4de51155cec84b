"""What drivers of chips on a bus share: the I2C bus itself, the checksum of Sensirion's kind, exact
scaling within 30 bits, and how to decode a DS18B20's scratch pad.

Two sensors on the same pins share the bus. Allocation: only i2c(), at construction.
"""

# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
# The unix port has no pins.

from micropython import const

_SOFT = const(-1)
_FREQUENCY = const(100_000)  # works with every chip, also over long wires
_open = {}


def i2c(options):
    """The bus for a driver's options `i2c`, `scl`, `sda`. -1: in software, on any two pins."""
    key = options["i2c"], options["scl"], options["sda"]
    if key not in _open:
        import machine

        number, scl, sda = key[0], machine.Pin(key[1]), machine.Pin(key[2])
        if number == _SOFT:
            _open[key] = machine.SoftI2C(scl=scl, sda=sda, freq=_FREQUENCY)
        else:
            _open[key] = machine.I2C(number, scl=scl, sda=sda, freq=_FREQUENCY)
    return _open[key]


def crc8(buf, at, count):
    """The CRC of count bytes from `at`: x^8 + x^5 + x^4 + 1, initial value 0xFF."""
    crc = 0xFF
    while count:
        crc ^= buf[at]
        bit = 8
        while bit:
            crc = (crc << 1 ^ 0x31) & 0xFF if crc & 0x80 else crc << 1
            bit -= 1
        at += 1
        count -= 1
    return crc


def word(buf, at):
    """Two bytes, high byte first, followed by their checksum. Raises ValueError."""
    if crc8(buf, at, 2) != buf[at + 2]:
        raise ValueError("wrong checksum in the chip's answer")
    return buf[at] << 8 | buf[at + 1]


def scaled(value, times, over):
    """value * times / over, rounded towards 0, where the product may need more than 30 bits.

    By long multiplication, so 2 * over + times, value and the result must be below 2^29.
    """
    left, bit = abs(value), 1
    whole = rest = 0
    while bit <= left:
        bit <<= 1
    while bit > 1:
        bit >>= 1
        rest = 2 * rest + (times if left & bit else 0)
        whole = 2 * whole + rest // over
        rest %= over
    return -whole if value < 0 else whole


def celsius(rom, scratch):
    """Ten-thousandths of a degree from a DS18B20, or from a DS18S20 or DS1820 (family 10h), which
    counts half degrees. Raises OSError."""
    if not scratch[4]:  # has ones in every such chip; nine zeros have a valid checksum
        raise OSError("its wire is at ground")
    raw = scratch[1] << 8 | scratch[0]
    value = (raw - 0x10000 if raw & 0x8000 else raw) * (5000 if rom[0] == 0x10 else 625)
    # The value at power-on. After a measurement, byte 6 is 10h less the lowest bits: 10h at 85.
    if value == 850_000 and scratch[6] == 0x0C:
        raise OSError("it lost power during the measurement")
    return value

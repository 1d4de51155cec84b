"""I2C, SPI and UART of the module `machine`: what is wired to a board, as the scenario says.

    "i2c 0x76"  hexadecimal text: what the chip answers; or its registers: {"0xF3": "00"}, each with
                one byte or the bytes from there on. What the program writes to a register stays
    "spi 1"     what a transfer reads, repeated
    "uart 9"    9: the receiving pin, or the number of the controller. Text: the answer to each
                write; {"hex": text, "every_ms": 1000}: it comes by itself, from the first read on

**The law.** A byte takes its time on the wire; what has not arrived yet is not there.

Must not know which chip answers.
"""

from virtual.machine import bind, number_of
from virtual.world import CALL_US

EIO, ENODEV = 5, 19
_FIRST_ADDRESS, _LAST_ADDRESS = 0x08, 0x77
_UART_BYTES = 256  # that a receiver keeps: the ports' default


def _bytes(value):
    return bytes.fromhex(value) if isinstance(value, str) else bytes(value or b"")


def _number(text):
    return int(text, 16) if isinstance(text, str) else text


# --- I2C ---


class _I2c:
    _missing = EIO  # RP2: ports/rp2/machine_i2c.c. Others: ENODEV

    def __init__(self, id=-1, scl=None, sda=None, freq=400_000, timeout=50_000):
        self._port.world.pass_us(CALL_US)
        self._freq = freq

    def init(self, scl=None, sda=None, freq=400_000):
        self._freq = freq

    def scan(self):
        names = self._port.world.scenario["values"]
        found = [_number(name[4:]) for name in names if name.startswith("i2c ")]
        self._take(2 * (_LAST_ADDRESS + 1 - _FIRST_ADDRESS))
        return [one for one in sorted(found) if self._value(one) is not None]

    # --- One chip ---

    def _take(self, count):
        """Nine bits a byte; a start and a stop."""
        self._port.world.pass_us(CALL_US + (9 * count + 2) * 1_000_000 // self._freq)

    def _value(self, address):
        """None: nothing answers."""
        return self._port.world.value("i2c 0x%02x" % address, None)

    def _chip(self, address, count):
        """[pointer, {register: byte that was written}], and the value. Raises OSError."""
        value = self._value(address)
        self._take(1 + count if value is not None else 1)
        if value is None:
            raise OSError(self._missing)
        return self._port.chips.setdefault(address, [0, {}]), value

    def _get(self, address, count, register=None):
        chip, value = self._chip(address, count + 2 * (register is not None))
        if not isinstance(value, dict):
            data = _bytes(value)
            return (data + b"\xff" * count)[:count]
        if register is not None:
            chip[0] = register
        start, known = chip[0], _registers(value)
        known.update(chip[1])
        chip[0] += count
        return bytes([known.get(start + at, 0) for at in range(count)])

    def _set(self, address, data, register=None):
        """Without a register, the first byte names it."""
        chip, value = self._chip(address, len(data) + (register is not None))
        if register is None:
            register = data[0] if data else chip[0]
            data = data[1:]
        chip[0] = register
        if isinstance(value, dict):
            for at, one in enumerate(data):
                chip[1][register + at] = one

    # --- As the port has them ---

    def writeto(self, addr, buf, stop=True):
        data = bytes(buf)
        self._set(addr, data)
        return len(data)

    def writevto(self, addr, vector, stop=True):
        return self.writeto(addr, b"".join([bytes(one) for one in vector]))

    def readfrom(self, addr, nbytes, stop=True):
        return self._get(addr, nbytes)

    def readfrom_into(self, addr, buf, stop=True):
        buf[:] = self._get(addr, len(buf))

    def readfrom_mem(self, addr, memaddr, nbytes, *, addrsize=8):
        return self._get(addr, nbytes, memaddr)

    def readfrom_mem_into(self, addr, memaddr, buf, *, addrsize=8):
        buf[:] = self._get(addr, len(buf), memaddr)

    def writeto_mem(self, addr, memaddr, buf, *, addrsize=8):
        self._set(addr, bytes(buf), memaddr)


def _registers(value):
    found = {}
    for name in value:
        first = _number(name)
        for at, one in enumerate(_bytes(value[name])):
            found[first + at] = one
    return found


class I2cEsp32(_I2c):
    """ports/esp32/machine_i2c.c"""

    _missing = ENODEV


class _SoftI2c(_I2c):
    """extmod/machine_i2c.c"""

    _missing = ENODEV

    def __init__(self, scl, sda, freq=400_000, timeout=50_000):
        _I2c.__init__(self, -1, scl, sda, freq, timeout)


# --- SPI ---


class _Spi:
    MSB, LSB = 0, 1

    def __init__(self, id=-1, baudrate=1_000_000, **pins):
        self._port.world.pass_us(CALL_US)
        self._name, self._baudrate = "spi " + str(id), baudrate

    def init(self, baudrate=None, **options):
        self._baudrate = baudrate or self._baudrate

    def deinit(self):
        self._port.world.pass_us(CALL_US)

    def _transfer(self, count):
        world = self._port.world
        data = _bytes(world.value(self._name, ""))
        world.pass_us(count * 8 * 1_000_000 // self._baudrate)
        return ((data or b"\xff") * (count // (len(data) or 1) + 1))[:count]

    def read(self, nbytes, write=0):
        return self._transfer(nbytes)

    def readinto(self, buf, write=0):
        buf[:] = self._transfer(len(buf))

    def write(self, buf):
        self._transfer(len(buf))

    def write_readinto(self, write_buf, read_buf):
        read_buf[:] = self._transfer(len(read_buf))


class HardSpi(_Spi):
    CONTROLLER = 0


class _SoftSpi(_Spi):
    def __init__(self, baudrate=500_000, **pins):
        _Spi.__init__(self, -1, baudrate, **pins)


# --- UART ---


class _Uart:
    def __init__(self, id, baudrate=9600, bits=8, parity=None, stop=1, *, tx=None, rx=None,
                 timeout=0, timeout_char=0, rxbuf=_UART_BYTES, txbuf=0, invert=0, flow=0,
                 rts=None, cts=None):  # fmt: skip
        self._id, self._rx = id, rx
        self._coming = []  # [us of its first byte, bytes]
        self._free_us = 0  # until then the sender is busy
        self._next_us = None  # when what comes by itself comes next
        self._timeout_us, self._most = 0, rxbuf
        self.init(baudrate, timeout=timeout)

    def init(self, baudrate=9600, bits=8, parity=None, stop=1, *, timeout=None, rx=None, **more):
        self._port.world.pass_us(CALL_US)
        self._byte_us = 10_000_000 // baudrate  # a start bit, eight, a stop bit
        if timeout is not None:
            self._timeout_us = timeout * 1000

    def deinit(self):
        self._port.world.pass_us(CALL_US)
        self._coming = []

    def _value(self):
        world = self._port.world
        if self._rx is not None:
            found = world.value("uart " + str(number_of(self._rx)), None)
            if found is not None:
                return found
        return world.value("uart " + str(self._id), None)

    def _come(self, data):
        """The sensor sends; one thing after the other."""
        start_us = max(self._port.world.now_us, self._free_us)
        self._coming.append([start_us, data])
        self._free_us = start_us + len(data) * self._byte_us

    def _look(self):
        """Returns how many bytes of the first piece have arrived."""
        value, now_us = self._value(), self._port.world.now_us
        if isinstance(value, dict):
            if self._next_us is None:
                self._next_us = now_us
            while self._next_us <= now_us:
                self._coming.append([self._next_us, _bytes(value["hex"])])
                self._next_us += int(value["every_ms"]) * 1000
        self._drop(now_us)

    def _arrived(self, piece, now_us):
        return max(0, min(len(piece[1]), (now_us - piece[0]) // self._byte_us))

    def _drop(self, now_us):
        """What does not fit into the receiver's buffer is lost."""
        room = self._most
        for piece in self._coming:
            count = self._arrived(piece, now_us)
            if count > room:
                piece[1] = piece[1][:room] + piece[1][count:]
                piece[0] += (count - room) * self._byte_us
            room -= min(count, room)
        self._coming = [piece for piece in self._coming if piece[1]]

    def any(self):
        self._look()
        now_us = self._port.world.now_us
        return sum([self._arrived(piece, now_us) for piece in self._coming])

    def _take(self, most):
        """Up to that many bytes that have arrived."""
        found, now_us = b"", self._port.world.now_us
        while self._coming and len(found) < most:
            piece = self._coming[0]
            count = min(self._arrived(piece, now_us), most - len(found))
            if not count:
                break
            found += piece[1][:count]
            piece[0] += count * self._byte_us
            piece[1] = piece[1][count:]
            if not piece[1]:
                self._coming.pop(0)
        return found

    def _wait(self, wanted):
        """Until that many are there, or nothing came for the time limit."""
        clock, before = self._port.clock, [self.any()]
        while before[0] < wanted and self._timeout_us:
            until_us = clock.world.now_us + self._timeout_us
            if not clock.wait(lambda: self.any() > before[0], until_us):
                break
            before[0] = self.any()

    def read(self, nbytes=None):
        """None if nothing has arrived."""
        self._wait(self._most if nbytes is None else nbytes)
        return self._take(self._most if nbytes is None else nbytes) or None

    def readinto(self, buf, nbytes=None):
        most = len(buf) if nbytes is None else min(nbytes, len(buf))
        self._wait(most)
        data = self._take(most)
        buf[: len(data)] = data
        return len(data) or None

    def readline(self):
        line = b""
        while not line.endswith(b"\n"):
            self._wait(1)
            one = self._take(1)
            if not one:
                break
            line += one
        return line or None

    def write(self, buf):
        """The port's buffer takes it; a text of the scenario is the answer to it."""
        value, data = self._value(), buf.encode() if isinstance(buf, str) else bytes(buf)
        self._port.world.pass_us(len(data) * self._byte_us)
        if isinstance(value, str):
            self._come(_bytes(value))
        return len(data)

    def txdone(self):
        self._port.world.pass_us(CALL_US)
        return True

    def flush(self):
        self._port.world.pass_us(CALL_US)

    def sendbreak(self):
        self._port.world.pass_us(13 * self._byte_us // 10)


def add(machine, port):
    """To the module `machine`."""
    kinds = {
        "I2C": _I2c if port.is_rp2 else I2cEsp32, "SoftI2C": _SoftI2c, "SPI": HardSpi,
        "SoftSPI": _SoftSpi, "UART": _Uart,
    }  # fmt: skip
    for name in kinds:
        setattr(machine, name, bind(name, kinds[name], port))

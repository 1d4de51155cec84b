"""The modules `os`, `random`, `ntptime`, `esp32`, `rp2`, and on CPython `micropython` and `gc`.

**The law.** Files are World.files; nothing is random but World.noise; flash is World.chip through
flash.py. What an RP2 pins lies in a real littlefs over that chip: paths below /outbox go there.

Must not know pins and sockets.
"""

import os as real_os
from collections import namedtuple

from virtual.chip import Noise
from virtual.flash import Flash
from virtual.machine import bind
from virtual.world import CALL_US

OUTBOX = "/outbox"  # where an RP2's littlefs is mounted
_NVS = "(nvs)/"  # names of files that hold the ESP32's key-value store
_BLOCK_BYTES, _FILE_BLOCKS = 4096, 212  # a Pico W's filesystem: boards/RPI_PICO_W/board.json
_TICK_BITS = 16


_Names = namedtuple("_Names", ("sysname", "nodename", "release", "version", "machine"))


class _Os:
    """The module `os`."""

    sep = "/"

    def __init__(self, port):
        self._port, self._files = port, port.world.files

    def _place(self, path):
        """The filesystem that has this path."""
        return real_os if is_pinned(self._port, path) else self._files

    def stat(self, path):
        return self._place(path).stat(path)

    def remove(self, path):
        return self._place(path).remove(path)

    unlink = remove

    def rename(self, old_path, new_path):
        return self._place(old_path).rename(old_path, new_path)

    def mkdir(self, path):
        return self._place(path).mkdir(path)

    def rmdir(self, path):
        return self._place(path).rmdir(path)

    def listdir(self, path=""):
        return [one for one in self._place(path).listdir(path) if one != _NVS[:-1]]

    def ilistdir(self, path=""):
        """(name, type, inode, size)"""
        if is_pinned(self._port, path):
            return real_os.ilistdir(path)
        start = str(path).strip("/")
        start = start + "/" if start else ""
        facts = [(one, self._files.stat(start + one)) for one in self.listdir(path)]
        return iter([(one, stat[0], 0, stat[6]) for one, stat in facts])

    def getcwd(self):
        return "/"

    def sync(self):
        self._port.world.pass_us(CALL_US)

    def statvfs(self, path):
        self._port.world.pass_us(CALL_US)
        sizes = [len(self._files.content[name]) for name in self._files.content]
        used = sum([-(-size // _BLOCK_BYTES) for size in sizes])
        free = max(0, _FILE_BLOCKS - used)
        return (_BLOCK_BYTES, _BLOCK_BYTES, _FILE_BLOCKS, free, free, 0, 0, 0, 0, 255)

    def urandom(self, n):
        self._port.world.pass_us(CALL_US)
        return self._port.world.random_bytes(n)

    def uname(self):
        name = self._port.platform
        return _Names(name, name, "1.25.0", "v1.25.0", self._port.title)


def is_pinned(port, path):
    return port.is_pinning and (str(path) + "/").startswith(OUTBOX + "/")


class _Random:
    """The module `random`: the world's noise, until the program sets a seed."""

    def __init__(self, port):
        self._world, self._noise = port.world, port.world.noise

    def seed(self, n=None):
        self._noise = self._world.noise if n is None else Noise(hash_of(n))

    def getrandbits(self, n):
        self._world.pass_us(CALL_US)
        return self._bits(n)

    def _bits(self, n):
        found, left = 0, n
        while left > 0:
            count = min(left, _TICK_BITS)
            found = found << count | self._noise.below(1 << count)
            left -= count
        return found

    def _below(self, limit):
        if limit <= 0:
            raise ValueError
        return self._bits(45) % limit

    def randrange(self, start, stop=None, step=1):
        self._world.pass_us(CALL_US)
        if stop is None:
            start, stop = 0, start
        return start + step * self._below((stop - start + step - (1 if step > 0 else -1)) // step)

    def randint(self, a, b):
        return self.randrange(a, b + 1)

    def choice(self, sequence):
        if not sequence:
            raise IndexError
        return sequence[self.randrange(len(sequence))]

    def random(self):
        self._world.pass_us(CALL_US)
        return self._bits(30) / (1 << 30)

    def uniform(self, a, b):
        return a + (b - a) * self.random()


def hash_of(seed):
    return seed & 0xFFFF_FFFF if isinstance(seed, int) else sum(bytes(str(seed), "utf-8"))


class _Ntptime:
    """The module `ntptime`: host and timeout are the program's to set."""

    def __init__(self, port):
        self.host, self.timeout = "pool.ntp.org", 1
        self._port = port

    def time(self):
        """Seconds since the port's time 0. Waits for the answer."""
        socket = self._port.socket
        address = socket.getaddrinfo(self.host, 123)[0][-1]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.settimeout(self.timeout)
            udp.sendto(b"\x1b" + bytes(47), address)
            answer = udp.recv(48)
        finally:
            udp.close()
        return int.from_bytes(answer[40:44], "big") - 2_208_988_800 - self._port.first_s

    def settime(self):
        self._port.clock.set_chip_us((self.time() + self._port.first_s) * 1_000_000)


# --- Of one port ---


class _OverFlash:
    """What the ports call a block device. Its class sets _flash."""

    def readblocks(self, block, buf, offset=0):
        return self._flash.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        return self._flash.writeblocks(block, buf, offset)

    def ioctl(self, op, arg):
        return self._flash.ioctl(op, arg)


class _Partition(_OverFlash):
    """`outbox` is the one that there is."""

    BOOT, RUNNING, TYPE_APP, TYPE_DATA = 0, 1, 0, 1
    _label = "outbox"

    def __init__(self, id, block_size=4096):
        if id != self._label:
            raise OSError(2)
        self._flash = Flash(self._port.world)

    @classmethod
    def find(cls, type=0, subtype=255, label=None, block_size=4096):
        is_it = type == cls.TYPE_DATA and label in (None, cls._label)
        return [cls(cls._label)] if is_it else []

    def info(self):
        """(type, subtype, address, size, label, encrypted)"""
        self._port.world.pass_us(CALL_US)
        size = self._port.world.chip.blocks * _BLOCK_BYTES
        return (self.TYPE_DATA, 2, 0x200000, size, self._label, False)


class _Nvs:
    """Key and value in flash; commit() makes them last."""

    def __init__(self, namespace):
        files = self._port.world.files
        self._name, self._files = _NVS + namespace, files
        self._kept = {}
        for line in files.content.get(self._name, b"").decode().split("\n"):
            if line:
                key, value = line.split("=")
                self._kept[key] = bytes.fromhex(value)

    def _get(self, key):
        self._port.world.pass_us(CALL_US)
        if key not in self._kept:
            raise OSError(-0x1102, "ESP_ERR_NVS_NOT_FOUND")
        return self._kept[key]

    def _set(self, key, value):
        self._port.world.pass_us(CALL_US)
        self._kept[key] = value

    def get_i32(self, key):
        found = int.from_bytes(self._get("i" + key), "little")
        return found - (1 << 32) if found >> 31 else found

    def set_i32(self, key, value):
        self._set("i" + key, (value & 0xFFFFFFFF).to_bytes(4, "little"))

    def get_blob(self, key, buffer):
        data = self._get("b" + key)
        buffer[: len(data)] = data
        return len(data)

    def set_blob(self, key, value):
        self._set("b" + key, bytes(value))

    def erase_key(self, key):
        for kind in ("i", "b"):
            if kind + key in self._kept:
                del self._kept[kind + key]
                return
        self._get(key)

    def commit(self):
        lines = ["%s=%s" % (key, self._kept[key].hex()) for key in sorted(self._kept)]
        self._files.commit(self._name, "\n".join(lines).encode())


class _Esp32:
    """The module `esp32`."""

    WAKEUP_ALL_LOW, WAKEUP_ANY_HIGH = False, True

    def __init__(self, port):
        self._port = port
        self.Partition, self.NVS = bind("Partition", _Partition, port), bind("NVS", _Nvs, port)

    def _degrees(self):
        return self._port.world.value("chip temperature", 27)

    def wake_on_ext0(self, pin, level):
        """Nothing wakes a board but its time."""
        self._port.world.pass_us(CALL_US)

    def wake_on_ext1(self, pins, level):
        self._port.world.pass_us(CALL_US)

    def gpio_deep_sleep_hold(self, enable):
        self._port.world.pass_us(CALL_US)


class Esp32(_Esp32):
    """The first one."""

    def raw_temperature(self):
        """In Fahrenheit."""
        return int(self._degrees() * 9 / 5 + 32)


class Esp32WithSensor(_Esp32):
    """S3 and C3."""

    def mcu_temperature(self):
        return int(self._degrees())


class _Rp2Flash(_OverFlash):
    """The flash below the filesystem."""

    def __init__(self):
        self._flash = Flash(self._port.world)


class Rp2:
    """The module `rp2`, without PIO."""

    def __init__(self, port):
        self._port, self.Flash = port, bind("Flash", _Rp2Flash, port)

    def country(self, code=None):
        return self._port.network.country(code)

    def bootsel_button(self):
        return int(bool(self._port.world.value("bootsel", 0)))


def chip_module(port):
    """(name, module) that this port alone has."""
    if port.is_rp2:
        return "rp2", Rp2(port)
    is_first = port.name in ("BENCH", "ESP32_GENERIC")
    return "esp32", (Esp32 if is_first else Esp32WithSensor)(port)


# --- On CPython alone ---


class Micropython:
    """The module `micropython`: CPython's heap cannot be locked, so the depth is counted."""

    def __init__(self, port):
        self._port, self._depth = port, 0
        self.schedule = port.clock.schedule

    def const(self, value):
        return value

    def native(self, function):
        return function

    def heap_lock(self):
        self._depth += 1

    def heap_unlock(self):
        self._depth -= 1
        return self._depth

    def opt_level(self, level=0):
        return 0

    def kbd_intr(self, chr):
        pass

    def alloc_emergency_exception_buf(self, size):
        pass

    def mem_info(self, verbose=None):
        pass


class Gc:
    """The module `gc`: figures of a board that has memory."""

    def __init__(self, port):
        self._world, self._is_enabled = port.world, True

    def collect(self):
        self._world.pass_us(CALL_US)
        return 0

    def mem_free(self):
        return 100_000

    def mem_alloc(self):
        return 60_000

    def enable(self):
        self._is_enabled = True

    def disable(self):
        self._is_enabled = False

    def isenabled(self):
        return self._is_enabled

    def threshold(self, amount=-1):
        return -1


def modules_of(port):
    name, chip = chip_module(port)
    return {
        "os": _Os(port), "random": _Random(port), "ntptime": _Ntptime(port), name: chip,
    }  # fmt: skip

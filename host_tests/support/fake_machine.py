"""The ports' `machine`, `rp2`, `esp32` and `time` modules as fakes, and a board.py loaded over them."""

import gc
import sys

from fake_network import ESP32, RP2, FakeNetwork, FakeSelect, FakeSockets, Ticks

REPOSITORY = (__file__.rsplit("/", 1)[0] if "/" in __file__ else ".") + "/../.."
PORTS = {
    "RPI_PICO_W": RP2,
    "RPI_PICO2_W": RP2,
    "ESP32_GENERIC": ESP32,
    "ESP32_GENERIC_S3": ESP32,
    "ESP32_GENERIC_C3": ESP32,
}


class Reset(BaseException):
    """machine.reset(): not an Exception, so that no handler goes on behind it."""


class _Adc:
    CORE_TEMP, ATTN_11DB = 4, 3

    def __init__(self, source):
        self.source = source
        self.range = None

    def atten(self, value):
        self.range = value

    def read_u16(self):
        return 14021 if self.source == 4 else 32768  # 0.706 V: 27 degrees

    def read_uv(self):
        return 1_650_000


class _Memory:
    """machine.mem32: a word that was never written is as if by chance."""

    def __init__(self):
        self.words = {}

    def __getitem__(self, address):
        return self.words.get(address, 0xDEADBEEF)

    def __setitem__(self, address, word):
        self.words[address] = word


class FakeMachine:
    """memory: what a reset leaves alone. ADC, Pin, RTC and WDT as the ports have them."""

    ADC = _Adc

    def __init__(self, ticks, port, memory=None):
        self.ticks = ticks
        self.mem32 = memory or _Memory()
        self.rtc_memory = b""
        self.fed_ms = self.watchdog_ms = 0
        self.longest_hunger_ms = 0
        self.rtc_set = None
        self.slept_ms = 0
        self.cause = 1
        if port is ESP32:
            self.DEEPSLEEP_RESET = 4

    def Pin(self, number):  # noqa: N802 - the port's name
        return number

    def WDT(self, timeout):  # noqa: N802
        self.watchdog_ms, self.fed_ms = timeout, self.ticks.ms
        return self

    def feed(self):
        self.longest_hunger_ms = max(self.longest_hunger_ms, self.ticks.ms - self.fed_ms)
        self.fed_ms = self.ticks.ms

    def RTC(self):  # noqa: N802
        return self

    def datetime(self, value):
        self.rtc_set = value

    def memory(self, data=None):
        if data is not None:
            self.rtc_memory = data
        return self.rtc_memory

    def reset_cause(self):
        return self.cause

    def unique_id(self):
        return b"12345678"

    def lightsleep(self, ms):
        """An interrupt ends a long one early; so would the watchdog."""
        if ms > 4_294_967:
            raise ValueError("sleep too long")
        self.slept_ms += ms - ms // 3
        self.ticks.ms += ms - ms // 3

    def deepsleep(self, ms):
        self.slept_ms = ms
        raise Reset()

    def reset(self):
        raise Reset()


class _FakeTime:
    """gmtime() for a fixed answer is enough: what day it is, the clock's tests know."""

    def __init__(self, ticks, first_year):
        self.ticks_ms, self.sleep_ms = ticks.ticks_ms, ticks.sleep_ms
        self.first_year = first_year
        self.seconds = self.asked = 0

    def gmtime(self, seconds):
        self.asked = seconds
        return (self.first_year, 1, 2, 3, 4, 5, 6, 7)

    def time(self):
        return self.seconds


class _Esp32:
    """flash: what the partition of that label is."""

    TYPE_DATA = 1

    def __init__(self, flash, label):
        self._flash, self._label = flash, label
        self.Partition = self

    def find(self, kind, label):
        return [self] if label == self._label else []

    def info(self):
        return (1, 2, 0x200000, self._flash.blocks * 4096, self._label, False)

    def readblocks(self, block, buf, offset=0):
        return self._flash.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        return self._flash.writeblocks(block, buf, offset)

    def ioctl(self, op, arg):
        return self._flash.ioctl(op, arg)

    def raw_temperature(self):
        return 122  # Fahrenheit

    def mcu_temperature(self):
        return 50


class _Rp2:
    def __init__(self, flash):
        self._flash = flash

    def Flash(self):  # noqa: N802
        return self._flash


class Namespace:
    """A module of the names in a dict."""

    def __init__(self, names):
        for name in names:
            setattr(self, name, names[name])


class Bench:
    """A board with everything faked below board.py. label: of the ESP32's partition that flash is."""

    def __init__(self, name, flash, label="outbox", ticks=None, machine=None):
        from outpost import wifi_board

        self.port = PORTS[name]
        self.ticks = ticks or Ticks()
        self.machine = machine or FakeMachine(self.ticks, self.port)
        self.network = FakeNetwork(self.port, self.ticks)
        self.net = FakeSockets(self.ticks)
        self.time = _FakeTime(self.ticks, 1970 if self.port is RP2 else 2000)
        wifi_board.socket, wifi_board.select = self.net, FakeSelect()
        if not hasattr(gc, "mem_free"):  # CPython
            gc.mem_free = lambda: 100_000
        self._fakes = {
            "machine": self.machine,
            "network": self.network,
            "time": self.time,
            "rp2": _Rp2(flash),
            "esp32": _Esp32(flash, label),
        }
        sys.modules["esp32"] = self._fakes["esp32"]  # partition.py asks for it late
        self.board = self._load(REPOSITORY + "/boards/" + name + "/board.py", {"__name__": "board"})

    def main(self):
        """firmware/main.py's functions, with this board as its `board`."""
        self._fakes["board"] = self.board
        return self._load(REPOSITORY + "/firmware/main.py", {"__name__": "main"})

    def _load(self, path, names):
        kept = {name: sys.modules[name] for name in self._fakes if name in sys.modules}
        sys.modules.update(self._fakes)
        try:
            with open(path) as file:
                exec(file.read(), names)
        finally:
            for name in self._fakes:
                if name != "esp32":
                    del sys.modules[name]
            sys.modules.update(kept)
        return Namespace(names)

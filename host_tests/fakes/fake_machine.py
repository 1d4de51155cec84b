"""The ports' `machine`, `rp2`, `esp32` and `time` modules as fakes, and a board.py loaded over
them.

A fake has no public name that its module or object of the port lacks (test_fakes.py compares them
with the port's stubs), so a program that asks for more fails here as on the board. Tests read and
set the fields of `Chip`.
"""

import gc
import sys

from fake_flash import flash_in_ram
from fake_network import ESP32, RP2, FakeNetwork, FakeSelect, FakeSocketModule, Net, Radio, Ticks

REPOSITORY = (__file__.rsplit("/", 1)[0] if "/" in __file__ else ".") + "/../.."
PORTS = {
    "RPI_PICO_W": RP2,
    "RPI_PICO2_W": RP2,
    "ESP32_GENERIC": ESP32,
    "ESP32_GENERIC_S3": ESP32,
    "ESP32_GENERIC_C3": ESP32,
}
_RP2_LONGEST_WDT_MS = 8388


class Reset(BaseException):
    """machine.reset(): not an Exception, so that no handler continues after it."""


class Chip:
    """The state that tests read and set. A reset keeps words and rtc_memory, so pass the chip to
    the next start's Bench.
    """

    def __init__(self, ticks):
        self.ticks = ticks
        self.words = {}
        self.rtc_memory = b""
        self.rtc_set = None
        self.fed_ms = self.watchdog_ms = self.feeds = 0
        self.longest_hunger_ms = 0
        self.slept_ms = 0
        self.cause = 1
        self.seconds = 0  # of the port's time()

    def word(self, address):
        """A word that was never written has a random-looking value."""
        return self.words.get(address, 0xDEADBEEF)

    def feed(self):
        self.longest_hunger_ms = max(self.longest_hunger_ms, self.ticks.ms - self.fed_ms)
        self.fed_ms = self.ticks.ms
        self.feeds += 1


# --- machine ---


class FakePin:
    def __init__(self, number):
        self._number = number


class FakeAdcRp2:
    """The ADC of a channel, or of a pin."""

    CORE_TEMP = 4

    def __init__(self, source):
        self._source = source

    def read_u16(self):
        return 14021 if self._source == 4 else 32768  # 0.706 V: 27 degrees


class FakeAdcEsp32:
    ATTN_11DB = 3

    def __init__(self, source):
        self._range = None

    def atten(self, value):
        self._range = value

    def read_uv(self):
        if self._range != self.ATTN_11DB:
            return 950_000  # the top of its initial range
        return 1_650_000


class FakeMem32:
    def __init__(self, chip):
        self._chip = chip

    def __getitem__(self, address):
        return self._chip.word(address)

    def __setitem__(self, address, word):
        self._chip.words[address] = word


class FakeWdt:
    def __init__(self, chip):
        self._chip = chip

    def feed(self):
        self._chip.feed()


class FakeRtcRp2:
    def __init__(self, chip):
        self._chip = chip

    def datetime(self, value):
        if len(value) != 8:
            raise ValueError("requires 8-tuple")
        self._chip.rtc_set = value


class FakeRtcEsp32(FakeRtcRp2):
    def memory(self, data=None):
        if data is not None:
            self._chip.rtc_memory = bytes(data)
        return self._chip.rtc_memory


class FakeMachine:
    """What both ports have in common."""

    Pin = FakePin

    def __init__(self, chip):
        self._chip = chip
        self.mem32 = FakeMem32(chip)

    def WDT(self, timeout):  # noqa: N802 - the port's name
        self._chip.watchdog_ms, self._chip.fed_ms = timeout, self._chip.ticks.ms
        return FakeWdt(self._chip)

    def reset_cause(self):
        return self._chip.cause

    def unique_id(self):
        return b"12345678"

    def lightsleep(self, ms):
        """An interrupt ends a long sleep early, as the watchdog would."""
        if ms > 4_294_967:
            raise ValueError("sleep too long")
        self._chip.slept_ms += ms - ms // 3
        self._chip.ticks.ms += ms - ms // 3

    def deepsleep(self, ms):
        self._chip.slept_ms = ms
        raise Reset()

    def reset(self):
        raise Reset()


class FakeMachineRp2(FakeMachine):
    ADC = FakeAdcRp2

    def WDT(self, timeout):  # noqa: N802
        if timeout > _RP2_LONGEST_WDT_MS:
            raise ValueError("timeout exceeds 8388")
        return FakeMachine.WDT(self, timeout)

    def RTC(self):  # noqa: N802
        return FakeRtcRp2(self._chip)


class FakeMachineEsp32(FakeMachine):
    ADC = FakeAdcEsp32
    DEEPSLEEP_RESET = 4

    def RTC(self):  # noqa: N802
        return FakeRtcEsp32(self._chip)


# --- time, rp2, esp32 ---


class FakeTime:
    """gmtime() has a fixed answer, because the clock's tests cover dates. Seconds must fit into a
    signed word: `rigs/test_rp2_parts.py`.
    """

    def __init__(self, chip, first_year):
        self.ticks_ms, self.sleep_ms = chip.ticks.ticks_ms, chip.ticks.sleep_ms
        self._chip, self._first_year = chip, first_year

    def gmtime(self, seconds):
        if seconds >= 1 << 31:
            raise OverflowError("overflow converting long int to machine word")
        return (self._first_year, 1, 2, 3, 4, 5, 6, 7)

    def time(self):
        return self._chip.seconds


class FakeBlockDevice:
    """flash: a NorFlash, whose own names a port's device does not have."""

    def __init__(self, flash):
        self._flash = flash

    def readblocks(self, block, buf, offset=0):
        return self._flash.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=None):
        return self._flash.writeblocks(block, buf, offset)

    def ioctl(self, op, arg):
        return self._flash.ioctl(op, arg)


class FakeRp2:
    def __init__(self, flash):
        self._flash = flash

    def Flash(self):  # noqa: N802
        return FakeBlockDevice(self._flash)


class FakePartition(FakeBlockDevice):
    """A partition, and its type, because MicroPython calls the static find() on the type."""

    TYPE_DATA = 1

    def __init__(self, flash, label):
        FakeBlockDevice.__init__(self, flash)
        self._label = label

    def find(self, kind, label):
        return [self] if label == self._label else []

    def info(self):
        return (1, 2, 0x200000, self._flash.blocks * 4096, self._label, False)


class FakeEsp32:
    """The first ESP32. label: of the partition that holds the flash."""

    def __init__(self, flash, label):
        self.Partition = FakePartition(flash, label)

    def raw_temperature(self):
        return 122  # Fahrenheit


class FakeEsp32WithSensor:
    """S3 and C3, which measure their temperature differently."""

    def __init__(self, flash, label):
        self.Partition = FakePartition(flash, label)

    def mcu_temperature(self):
        return 50


# --- A board ---


class Filesystem:
    """The board's littlefs, mounted if the board pins its blocks; does nothing on other boards."""

    def __init__(self, name, flash):
        self._raw = FakeBlockDevice(flash) if PORTS[name] is RP2 else None

    def __enter__(self):
        if self._raw:
            import vfs

            vfs.VfsLfs2.mkfs(self._raw, progsize=256)
            vfs.mount(vfs.VfsLfs2(self._raw, progsize=256), "/outbox")

    def __exit__(self, *error):
        if self._raw:
            import vfs

            vfs.umount("/outbox")


def modules_of(name, chip, flash, radio, label="outbox"):
    """Returns the port's modules for a kind of board, by name."""
    is_rp2 = PORTS[name] is RP2
    esp32 = FakeEsp32 if name == "ESP32_GENERIC" else FakeEsp32WithSensor
    return {
        "machine": (FakeMachineRp2 if is_rp2 else FakeMachineEsp32)(chip),
        "network": FakeNetwork(radio),
        "time": FakeTime(chip, 1970 if is_rp2 else 2000),
        "rp2": FakeRp2(flash),
        "esp32": esp32(flash, label),
    }


def flash_of(name):
    """Returns an erased chip: 8 blocks of a partition, or on RP2 64 blocks, in whose littlefs it
    can pin some."""
    return flash_in_ram(64, 256) if PORTS[name] is RP2 else flash_in_ram(8)


def _nothing(settings):
    pass


class Bench:
    """A board on which everything below board.py is faked. label: of the ESP32's flash partition.

    board.py and main.py are imported from where the firmware is: from the sources, or from the
    copies that `outpost flash` makes. module: board.py; board: its Board, not open yet.
    """

    def __init__(self, name, flash, label="outbox", ticks=None, chip=None):
        import outpost
        from support import wifi_board

        self._root = outpost.__file__.rsplit("/", 3)[0]
        self.port, self.flash = PORTS[name], flash
        self.ticks = ticks or Ticks()
        self.chip = chip or Chip(self.ticks)
        self.chip.ticks = self.ticks
        self.radio, self.net = Radio(self.port, self.ticks), Net(self.ticks)
        wifi_board.socket, wifi_board.select = FakeSocketModule(self.net, self.port), FakeSelect()
        if not hasattr(gc, "mem_free"):  # CPython
            gc.mem_free = lambda: 100_000
        self._fakes = modules_of(name, self.chip, flash, self.radio, label)
        sys.modules["esp32"] = self._fakes["esp32"]  # partition.py asks for it late
        self.module = self._fresh("board", "/boards/" + name)
        self.board = self.module.Board()

    def main(self):
        """Returns firmware/main.py as a module, with this board as its `board`."""
        self._fakes["board"] = self.module
        main = self._fresh("main", "/firmware")
        main.board = self.board
        return main

    def open(self, settings):
        """Open the board without its outbox, because CPython has no littlefs in which to pin
        blocks."""
        self.board._open_outbox = _nothing
        return self.board.open(settings)

    def build(self, settings):
        """Open the board. Returns the station that main.py builds."""
        self.board.open(settings)
        return self.main().build(settings)

    def _fresh(self, name, folder):
        """Import the module from that folder again, with the fakes as the port's modules."""
        names = list(self._fakes) + [name]
        kept = {other: sys.modules[other] for other in names if other in sys.modules}
        sys.modules.update(self._fakes)
        sys.modules.pop(name, None)
        sys.path.insert(0, self._root + folder)
        try:
            return __import__(name)
        finally:
            sys.path.pop(0)
            for other in names:
                if other != "esp32":
                    sys.modules.pop(other, None)
            sys.modules.update(kept)

"""What boards of the ESP32 port have in common beside Wi-Fi: count of starts, outbox, ADC. Not tried on hardware."""

from micropython import const

from support import chip_sensors, partition
from support.wifi_board import WifiBoard

_MARK = b"outpost"
_NEVER_MS = const(3_600_000)
_PIN_ALIGN = const(4)
_PAGE_BYTES = const(256)


class Esp32Board(WifiBoard):
    """machine, network, time, esp32: the port's modules. temperature: callable, degrees Celsius times 10 ** -exponent."""

    # A connection's send buffer (TCP_SND_BUF). lwIP allocates from the system heap here, and
    # write() returns EAGAIN at once when the buffer is full: the bound only keeps what nobody
    # acknowledges in the outbox instead of that heap.
    IN_FLIGHT_BYTES = 5744

    def __init__(self, machine, network, time, esp32, temperature, exponent=0):
        WifiBoard.__init__(self, machine, network, time, self._count, _switch_off, _prepare)
        self._esp32, self._temperature, self._exponent = esp32, temperature, exponent

    def _count(self, count=None):
        """The count is in the RTC's memory, which a reset leaves alone, power off does not."""
        rtc = self._machine.RTC()
        if count is not None:
            rtc.memory(_MARK + bytes((count,)))
        kept = rtc.memory()
        return kept[-1] if kept[:-1] == _MARK else 0

    def outbox(self, settings):
        """(device, ALIGN, PAGE_BYTES): the partition `outbox` where there is one; else blocks of the filesystem's."""
        found = partition.find()
        if found:
            return found
        files = self._esp32.Partition.find(self._esp32.Partition.TYPE_DATA, label="vfs")
        return self.pinned_blocks(files[0], settings["outbox_blocks"]), _PIN_ALIGN, _PAGE_BYTES

    def release_watchdog(self):
        """The program was stopped by hand: the watchdog cannot be stopped, but it can wait."""
        self._machine.WDT(timeout=_NEVER_MS)
        self._starts(0)

    def sensors(self, settings):
        own = self.own_sensors(self._temperature, self._exponent)
        return chip_sensors.choose(settings["sensors"], own, self._machine, self._adc)

    def _adc(self, pin):
        """Reads millivolts at a pin."""
        converter = self._machine.ADC(self._machine.Pin(pin))
        converter.atten(self._machine.ADC.ATTN_11DB)  # the whole range of the pin, some 3 V
        return lambda: converter.read_uv() // 1000


def _prepare(wlan):
    wlan.config(reconnects=0)  # else the port tries for ever, and never tells what is wrong


def _switch_off(wlan):
    wlan.active(False)

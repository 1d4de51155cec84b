"""What the boards of the ESP32 port share besides Wi-Fi: the count of starts, outbox, ADC.

Not tried on hardware.
"""

from micropython import const

from support import chip_sensors, partition
from support.wifi_board import WANTED, WifiBoard

_MARK = const(b"outpost")
_PLACES = const(7)  # starts, sensor_note, _joined_last, hung_note
_NEVER_MS = const(3_600_000)
_PIN_ALIGN = const(4)
_PAGE_BYTES = const(256)


class Esp32Board(WifiBoard):
    """machine, network, time, esp32: the port's modules.

    temperature: callable, degrees Celsius times 10 ** -exponent.
    """

    # A connection's send buffer (TCP_SND_BUF). lwIP allocates from the system heap here, and
    # write() returns EAGAIN at once if the buffer is full. So the bound only keeps unacknowledged
    # bytes in the outbox instead of that heap.
    in_flight_bytes = 5744

    def __init__(self, machine, network, time, esp32, temperature, exponent=0):
        WifiBoard.__init__(self, machine, network, time)
        self._esp32, self._temperature, self._exponent = esp32, temperature, exponent
        self._kept = self._rtc = None

    def _keep(self, place, value):
        """One of seven bytes in the RTC's memory, which survives a reset but not a power cut.
        Allocates only at the first call."""
        if self._kept is None:
            self._rtc = self._machine.RTC()
            kept = self._rtc.memory()
            is_ours = len(kept) == len(_MARK) + _PLACES and kept[:-_PLACES] == _MARK
            self._kept = bytearray(kept if is_ours else _MARK + bytes(_PLACES))
        if value is not None:
            self._kept[len(_MARK) + place] = value
            self._rtc.memory(self._kept)
        return self._kept[len(_MARK) + place]

    def _starts(self, count=None):
        return self._keep(0, count)

    def sensor_note(self, number=None):
        return self._keep(1, number)

    def hung_note(self, value=None):
        """Below 2^25."""
        found, place = 0, 3
        while place < _PLACES:
            if value is not None:
                self._keep(place, value & 0xFF)
                value >>= 8
            found |= self._keep(place, None) << 8 * place - 24
            place += 1
        return found

    def _joined_last(self, index=None):
        return self._keep(2, index)

    def _open_outbox(self, settings):
        """The partition `outbox` if there is one; otherwise blocks of the filesystem."""
        found = partition.find()
        if found:
            self.device, self.align, self.page_bytes = found
            return
        kind = self._esp32.Partition
        files = kind.find(kind.TYPE_DATA, label="vfs")[0]
        self.device = self._pinned_blocks(files, settings)
        self.align, self.page_bytes = _PIN_ALIGN, _PAGE_BYTES

    def release_watchdog(self):
        """The program was stopped by hand. The port cannot stop a watchdog: give it an hour."""
        self._machine.WDT(timeout=_NEVER_MS)
        self._starts(WANTED)
        self.sensor_note(0)

    def _open_sensors(self, names):
        own = self._own_sensors(self._temperature, self._exponent)
        self.sensors = chip_sensors.choose(names, own, self._machine, self._adc)

    def _adc(self, pin):
        """A callable that reads the millivolts at a pin."""
        converter = self._machine.ADC(self._machine.Pin(pin))
        converter.atten(self._machine.ADC.ATTN_11DB)  # the whole range of the pin, about 3 V
        return lambda: converter.read_uv() // 1000

    def _prepare(self, wlan):
        wlan.config(reconnects=0)  # otherwise the port retries indefinitely and reports nothing

    def _switch_off(self, wlan):
        wlan.active(False)

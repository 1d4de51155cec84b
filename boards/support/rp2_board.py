"""What the boards of the RP2 port share besides Wi-Fi: the count of starts, outbox, ADC, sleep.

Not tried on hardware.

The watchdog's scratch registers 0 to 3 survive a reset but not a power cut; the boot ROM uses 4 to
7.
"""

from micropython import const

from outpost.ticks import elapsed_ms
from support import chip_sensors
from support.wifi_board import WANTED, WifiBoard

# Scratch registers. 0: starts, the network joined before a sleep, and the sensor being read. 1, 2:
# day and millisecond of the day at which the sleep ended. 3: the sensors that hung
_COUNT = const(0x0C)
_DAY = const(0x10)
_MS = const(0x14)
_HUNG_AT = const(0x18)
_CLEAR = const(0x3000)  # bits written there are cleared
_ENABLE = 1 << 30
_COUNT_MARK = const(0x0F540000)  # identifies our contents, and leaves small integers
_COUNT_BITS = const(0x1FFFF)
_DAY_MARK = const(0x0F550000)
_HUNG_MARK = const(0x0A000000)
_HUNG_BITS = const(0x1FFFFFF)
_DAY_MS = const(86_400_000)
_NEVER = const(-1)
_DEEP_SLEEP = const(4)  # as other ports' machine.reset_cause() has it
_LONGEST_MS = const(3_600_000)  # the port cannot sleep for more than 71 min
_PAGE_BYTES = const(256)
_ALIGN = const(4)


class Rp2Board(WifiBoard):
    """machine, network, time, rp2: the port's modules. watchdog: the address of its registers."""

    # lwIP has a heap of 8,000 bytes and 32 segments for all connections (lwipopts_common.h of
    # MicroPython 1.25). If either is used up, write() retries for 10 s although the socket is
    # non-blocking, and the watchdog resets after 8 s. A lost connection keeps its share for 10 s
    # after it is closed, so two must fit.
    in_flight_bytes = 3000
    # In pages that are padded with FF, because programming ones changes no cell.
    reprograms = True

    def __init__(self, machine, network, time, rp2, watchdog):
        WifiBoard.__init__(self, machine, network, time)
        self._rp2, self._watchdog = rp2, watchdog
        # Addresses are above 2^30: computed once, so that a reading does not allocate.
        self._count_at, self._hung_at = watchdog + _COUNT, watchdog + _HUNG_AT
        # When the sleep before this start ended. Day 0: at an unknown time
        self._woke_day, self._woke_ms = _NEVER, 0

    def open(self, settings):
        self._take_kept_time()
        return WifiBoard.open(self, settings)

    def _kept(self, shift, bits, value):
        """A field of scratch register 0. value: None, or the new value of the field."""
        words = self._machine.mem32
        word = words[self._count_at]
        fields = word & _COUNT_BITS if word & ~_COUNT_BITS == _COUNT_MARK else 0
        if value is not None:
            fields = fields & ~(bits << shift) | value << shift
            words[self._count_at] = _COUNT_MARK | fields
        return fields >> shift & bits

    def _starts(self, count=None):
        return self._kept(0, 0xFF, count)

    def _joined_last(self, index=None):
        return self._kept(8, 0xF, index)

    def sensor_note(self, number=None):
        return self._kept(12, 0x1F, number)

    def hung_note(self, value=None):
        """Scratch register 3."""
        words = self._machine.mem32
        if value is not None:
            words[self._hung_at] = _HUNG_MARK | value
            return value
        word = words[self._hung_at]
        return word & _HUNG_BITS if word & ~_HUNG_BITS == _HUNG_MARK else 0

    def _open_outbox(self, settings):
        """rp2.Flash programs whole pages, even if the buffer is shorter. Several messages share a
        page: the flash takes parts of a page one after another, "without having any effect on other
        bytes within the same page" (Winbond W25Q16, Page Program 02h), and the rest is sent as FF,
        which programs nothing. An outbox that was made with a page a message stays as it is.
        """
        self.device = self._pinned_blocks(self._rp2.Flash(), settings)
        self.align, self.page_bytes = _ALIGN, _PAGE_BYTES

    def release_watchdog(self):
        """The program was stopped by hand, or will sleep.

        The port cannot stop a watchdog, but the chip can.
        """
        self._machine.mem32[self._watchdog + _CLEAR] = _ENABLE
        self._starts(WANTED)
        self.sensor_note(0)

    def _open_sensors(self, names):
        core = self._machine.ADC(self._machine.ADC.CORE_TEMP)

        def temperature():
            """Tenths of a degree: 0.706 V at 27 degrees, less 1.721 mV a degree (data sheets:
            RP2040 4.9.5, RP2350 12.4.6).
            """
            return 270 - ((core.read_u16() >> 4) * 33000 // 4095 - 7060) * 1000 // 1721

        own = self._own_sensors(temperature)
        self.sensors = chip_sensors.choose(names, own, self._machine, self._adc)

    def _adc(self, pin):
        """A callable that reads the millivolts at a pin."""
        converter = self._machine.ADC(self._machine.Pin(pin))
        return lambda: converter.read_u16() * 3300 // 65535

    # --- Sleep ---

    def sleep(self, ms):
        """The port's deep sleep is a light sleep and then a reset, which loses the chip's clock: so
        sleep, keep the time, reset.

        Any interrupt ends a light sleep, also one of the Wi-Fi chip; the watchdog would reset.
        """
        self.release_watchdog()
        self._starts(0)
        self._keep_network()
        self._network.WLAN(self._network.STA_IF).deinit()
        start_ms = self.ticks_ms()
        slept_ms = 0
        while slept_ms < ms:
            self._machine.lightsleep(min(ms - slept_ms, _LONGEST_MS))
            slept_ms = elapsed_ms(self.ticks_ms(), start_ms)
        self._keep_clock()
        self._machine.reset()

    def _keep_clock(self):
        """Also if there is no time to keep: the next start must know that a sleep ended."""
        words, clock = self._machine.mem32, self._clock
        if clock:
            clock.now(self.ticks_ms())
        words[self._watchdog + _DAY] = _DAY_MARK | (clock.day if clock else 0)
        words[self._watchdog + _MS] = clock.ms if clock else 0

    def _take_kept_time(self):
        """Read what sleep() kept. It is valid for this start only."""
        words = self._machine.mem32
        day, ms = words[self._watchdog + _DAY], words[self._watchdog + _MS]
        words[self._watchdog + _DAY] = 0
        if day & ~0xFFFF == _DAY_MARK and 0 <= ms < _DAY_MS:
            self._woke_day, self._woke_ms = day & 0xFFFF, ms

    def _reset_cause(self):
        """The port returns 3 (watchdog) after every reset by program, also after a sleep."""
        return WifiBoard._reset_cause(self) if self._woke_day == _NEVER else _DEEP_SLEEP

    def set_clock(self, clock, now_ms):
        """The ticks count from the reset that ended the sleep."""
        self._clock = clock
        if self._woke_day <= 0:
            return
        ms = self._woke_ms + now_ms
        day = self._woke_day + ms // _DAY_MS
        clock.set(day, ms % _DAY_MS, now_ms)
        self._has_kept_time = self._set_rtc(day, ms % _DAY_MS)

    def _switch_off(self, wlan):
        wlan.deinit()  # active(False) leaves the chip running

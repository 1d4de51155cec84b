"""The module `machine`: pins, analog pins, timers, watchdog, the chip's clock, resets, sleep.

**The law.** What a pin reads comes from World.value(), what it drives goes to World.drive(); what a
reset keeps is in World. Names and numbers are each port's own: MicroPython 1.25, ports/rp2 and
ports/esp32. A class has no name that the port's lacks.

Must not know buses (buses.py) and the radio. Each class is made anew for a boot by bind(), which
sets `_port`.
"""

from virtual.clock import NEVER_US, date_of, days_of
from virtual.world import CALL_US

# ESP32: a conversion with its driver, about 50 us (adc_oneshot_read; not measured). RP2: 96 cycles
# of 48 MHz (RP2040 data sheet, 4.9): below CALL_US
_ADC_US = 50
_FOREVER_MS = 1 << 40
_RP2_LONGEST_WDT_MS = 8388
_RP2_LONGEST_SLEEP_MS = 4_294_967
_MEMORY_BYTES = 2048  # of the ESP32's RTC memory that machine.RTC offers
_GARBAGE = 0xDEADBEEF  # in a register that was never written
_CLEAR = 0x3000  # RP2: bits written this far above a register are cleared
_ENABLE = 1 << 30  # of the watchdog
_SCRATCH = (0x0C, 0x28)  # of the watchdog: first and last word that a reset keeps


def bind(name, kind, port):
    """The class for one boot."""
    return type(name, (kind,), {"_port": port})


def pin_name(pin):
    return "pin " + str(number_of(pin))


def number_of(pin):
    """Of a Pin, a number, or a name as "GP2", "GPIO2", "LED"."""
    pin = getattr(pin, "_number", pin)
    if isinstance(pin, str):
        digits = pin.lstrip("GPIOD")
        return int(digits) if digits.isdigit() else pin
    return pin


# --- Pins ---


class _Switch:
    """What pins and signals share."""

    def __call__(self, level=None):
        return self.value(level)

    def on(self):
        self.value(1)

    def off(self):
        self.value(0)


class _Pin(_Switch):
    _port = None

    def __init__(self, id, mode=-1, pull=-1, value=None, drive=0, alt=-1, hold=None):
        self._number = number_of(id)
        self._port.world.pass_us(CALL_US)
        # [mode, pull, level, alarm of its next edge]: of the pin, not of this object
        self._state = self._port.pins.setdefault(self._number, [-1, -1, None, None])
        self.init(mode, pull, value)

    def init(self, mode=-1, pull=-1, value=None, drive=0, alt=-1, hold=None):
        if mode is not None and mode != -1:
            self._state[0] = mode
        if pull is None or pull != -1:
            self._state[1] = pull
        if value is not None:
            self.value(value)

    def value(self, level=None):
        if level is None:
            return self._read()
        level, world = int(bool(level)), self._port.world
        if self._state[2] == level:
            world.pass_us(CALL_US)  # World.driven has changes alone
        else:
            world.drive(pin_name(self), level)
            self._state[2] = level
        return None

    def _read(self):
        mode, pull, level, _ = self._state
        if level is not None and mode in self._outputs and (mode == self.OUT or not level):
            self._port.world.pass_us(CALL_US)
            return level
        return int(bool(self._port.world.value(pin_name(self), int(pull == self.PULL_UP))))

    def toggle(self):
        self.value(not self._state[2])

    def irq(self, handler=None, trigger=None, priority=1, wake=None, hard=False):
        """Edges are where the scenario's value changes."""
        world, state = self._port.world, self._state
        world.pass_us(CALL_US)
        if state[3]:
            self._port.clock.cancel(state[3])
            state[3] = None
        if handler:
            both = self.IRQ_RISING | self.IRQ_FALLING
            self._await_edge(handler, both if trigger is None else trigger)

    def _await_edge(self, handler, trigger):
        idle = int(self._state[1] == self.PULL_UP)
        now_us, level = self._port.world.now_us, idle
        for at_us, value in steps(self._port.world, pin_name(self)):
            value = int(bool(value))
            if at_us > now_us and value != level:
                self._state[3] = self._edge_at(at_us, value, handler, trigger)
                return
            level = value

    def _edge_at(self, at_us, value, handler, trigger):
        def edge():
            self._state[3] = None
            self._await_edge(handler, trigger)
            if trigger & (self.IRQ_RISING if value else self.IRQ_FALLING):
                handler(self)

        return self._port.clock.at(at_us, edge)


def steps(world, name):
    """[(us, value)] of the scenario: from when a name has which value."""
    given = world.scenario["values"].get(name, [])
    if not isinstance(given, (list, tuple)):
        return [(0, given)]
    return [(int(from_s * 1_000_000 + 0.999_999), value) for from_s, value in given]


class PinRp2(_Pin):
    """ports/rp2/machine_pin.c"""

    IN, OUT, OPEN_DRAIN, ALT = 0, 1, 2, 3
    PULL_UP, PULL_DOWN = 1, 2
    IRQ_FALLING, IRQ_RISING = 4, 8
    _outputs = (1, 2)

    def low(self):
        self.value(0)

    def high(self):
        self.value(1)


class PinEsp32(_Pin):
    """ports/esp32/machine_pin.c; the modes are ESP-IDF's"""

    IN, OUT, OPEN_DRAIN = 1, 3, 7
    PULL_DOWN, PULL_UP = 1, 2
    IRQ_RISING, IRQ_FALLING, WAKE_LOW, WAKE_HIGH = 1, 2, 4, 5
    DRIVE_0, DRIVE_1, DRIVE_2, DRIVE_3 = 0, 1, 2, 3
    _outputs = (3, 7)


class _Signal(_Switch):
    def __init__(self, pin, *args, invert=False, **options):
        is_made = isinstance(pin, _Pin)
        self._pin = pin if is_made else self._port.machine.Pin(pin, *args, **options)
        self._invert = bool(invert)

    def value(self, level=None):
        if level is None:
            return self._pin.value() ^ self._invert
        return self._pin.value(bool(level) ^ self._invert)


class _Adc:
    """World.value("adc 34"): what read_u16() returns, 0 to 65,535."""

    def __init__(self, source, *_, atten=None):
        self._number = number_of(source)

    def read_u16(self):
        world = self._port.world
        world.pass_us(_ADC_US)
        return min(65_535, max(0, int(world.value("adc " + str(self._number)))))


class AdcRp2(_Adc):
    CORE_TEMP = 4

    def __init__(self, source, *_):
        _Adc.__init__(self, source)
        if self._number in (0, 1, 2, 3):  # a channel, not a pin
            self._number += 26

    def read_u16(self):
        """The chip's: 0.706 V at 27 degrees, less 1.721 mV a degree (RP2040 data sheet, 4.9.5)."""
        if self._number != self.CORE_TEMP:
            return _Adc.read_u16(self)
        degrees = self._port.world.value("chip temperature", 27)
        return int((0.706 - (degrees - 27) * 0.001721) * 65_535 / 3.3)


class AdcEsp32(_Adc):
    """Its range ends at 0.95 V until a wider one is set, and read_uv() with it."""

    ATTN_0DB, ATTN_2_5DB, ATTN_6DB, ATTN_11DB = 0, 1, 2, 3
    WIDTH_9BIT, WIDTH_10BIT, WIDTH_11BIT, WIDTH_12BIT = 9, 10, 11, 12
    _ranges_uv = (950_000, 1_250_000, 1_750_000, 3_100_000)

    def __init__(self, source, *_, atten=0):
        _Adc.__init__(self, source)
        self._atten, self._bits = atten, 12

    def init(self, *, atten=0):
        self.atten(atten)

    def atten(self, atten):
        self._port.world.pass_us(CALL_US)
        self._atten = atten

    def width(self, bits):
        self._port.world.pass_us(CALL_US)
        self._bits = bits

    def read_uv(self):
        return self.read_u16() * self._ranges_uv[self._atten] // 65_535

    def read(self):
        return self.read_u16() >> 16 - self._bits


class _Pwm:
    """What it drives: "pwm 5" (duty, of 65,535) and "pwm 5 freq"."""

    _first_duty = 0

    def __init__(self, dest, *, freq=None, duty_u16=None, duty_ns=None, **more):
        self._name = "pwm " + str(number_of(dest))
        self._freq, self._duty = 0, None
        self.init(freq=freq, duty_u16=duty_u16, duty_ns=duty_ns, **more)

    def init(self, *, freq=None, duty_u16=None, duty_ns=None, duty=None, invert=None):
        if freq is not None:
            self.freq(freq)
        if duty is not None:
            duty_u16 = duty * 65_535 // 1023
        if duty_u16 is not None:
            self.duty_u16(duty_u16)
        if duty_ns is not None:
            self.duty_ns(duty_ns)

    def freq(self, value=None):
        if value is None:
            return self._freq
        self._port.world.drive(self._name + " freq", int(value))
        self._freq = int(value)
        if self._duty is None:
            self._duty = self._first_duty
        return None

    def duty_u16(self, value=None):
        if value is None:
            return self._duty or 0
        self._port.world.drive(self._name, int(value))
        self._duty = int(value)
        return None

    def duty_ns(self, value=None):
        if value is None:
            return (self._duty or 0) * 1_000_000_000 // (65_535 * (self._freq or 1))
        return self.duty_u16(min(65_535, value * self._freq * 65_535 // 1_000_000_000))

    def deinit(self):
        self.duty_u16(0)


class PwmRp2(_Pwm):
    pass


class PwmEsp32(_Pwm):
    _first_duty = 32_768

    def duty(self, value=None):
        if value is None:
            return self.duty_u16() * 1023 // 65_535
        return self.duty_u16(value * 65_535 // 1023)


# --- Time ---


class _Timer:
    """Callbacks that a busy program missed are left out, not made up for."""

    ONE_SHOT, PERIODIC = 0, 1
    _numbers = None

    def __init__(self, id=-1, **options):
        if id not in self._numbers:
            raise ValueError("Timer doesn't exist")
        self._key = id if id >= 0 else self
        self._alarm, self._period_us, self._start_us = None, 1, 0
        if options:
            self.init(**options)

    def init(self, *, mode=1, freq=-1, period=-1, callback=None, tick_hz=1000, hard=False):
        self.deinit()
        period_us = int(1_000_000 / freq) if freq > 0 else period * 1_000_000 // tick_hz
        self._period_us, self._mode, self._callback = max(period_us, 1), mode, callback
        if self._key is not self:  # ESP32: the number names the timer, not this object
            self._port.timers[self._key] = self
        self._start_us = self._port.world.now_us
        self._set(self._start_us + self._period_us)

    def _set(self, at_us):
        self._alarm = self._port.clock.at(at_us, lambda: self._ring(at_us))

    def _ring(self, at_us):
        self._alarm = None
        if self._mode == self.PERIODIC:
            late_us = self._port.world.now_us - at_us
            self._set(at_us + self._period_us * (1 + late_us // self._period_us))
        if self._callback:
            self._callback(self)

    def deinit(self):
        self._port.world.pass_us(CALL_US)
        running = self if self._key is self else self._port.timers.pop(self._key, None)
        if running and running._alarm:
            self._port.clock.cancel(running._alarm)
            running._alarm = None


class TimerRp2(_Timer):
    _numbers = (-1,)


class TimerEsp32(_Timer):
    _numbers = (0, 1, 2, 3)

    def value(self):
        world = self._port.world
        world.pass_us(CALL_US)
        return (world.now_us - self._start_us) % self._period_us // 1000


class _Wdt:
    """Whoever does not feed it is reset."""

    _longest_ms = _FOREVER_MS

    def __init__(self, id=0, timeout=5000):
        if id != 0:
            raise ValueError("WDT(%r) doesn't exist" % id)
        if timeout > self._longest_ms:
            raise ValueError("timeout exceeds %d" % self._longest_ms)
        if timeout <= 0:
            raise ValueError("WDT timeout too short")
        self._timeout_us = timeout * 1000
        self.feed()

    def feed(self):
        world = self._port.world
        world.pass_us(CALL_US)
        self._port.clock.watch(world.now_us + self._timeout_us)


class WdtRp2(_Wdt):
    _longest_ms = _RP2_LONGEST_WDT_MS


class WdtEsp32(_Wdt):
    pass


class _Rtc:
    def __init__(self, id=0):
        pass

    def datetime(self, value=None):
        """(year, month, day, weekday, hours, minutes, seconds, the rest)"""
        self._port.world.pass_us(CALL_US)
        if value is None:
            return self._now()
        if len(value) != 8:
            raise ValueError("requires 8-tuple")
        year, month, day, _, hour, minute, second, rest = value
        seconds = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
        self._port.clock.set_chip_us(seconds * 1_000_000 + self._rest_us(rest))
        return None

    def _now(self):
        now_us = self._port.clock.chip_us()
        seconds = now_us // 1_000_000
        year, month, day, weekday, _ = date_of(seconds // 86_400)
        time = (seconds // 3600 % 24, seconds // 60 % 60, seconds % 60)
        return (year, month, day, weekday) + time + (self._rest_of(now_us % 1_000_000),)


class RtcRp2(_Rtc):
    """Whole seconds."""

    def _rest_us(self, rest):
        return 0

    def _rest_of(self, us):
        return 0


class RtcEsp32(_Rtc):
    def _rest_us(self, rest):
        return rest

    def _rest_of(self, us):
        return us

    def memory(self, data=None):
        world = self._port.world
        world.pass_us(CALL_US)
        if data is None:
            return world.rtc_memory
        if len(data) > _MEMORY_BYTES:
            raise ValueError("buffer too long")
        world.rtc_memory = bytes(data)
        return None


class Memory:
    """mem32: registers as words. A reset keeps the scratch registers of the RP2's watchdog."""

    def __init__(self, port):
        self._port, self._others = port, {}

    def _words(self, address):
        offset = address - self._port.watchdog
        is_kept = self._port.watchdog and _SCRATCH[0] <= offset <= _SCRATCH[1]
        return self._port.world.rtc_words if is_kept else self._others

    def __getitem__(self, address):
        self._port.world.pass_us(CALL_US)
        return self._words(address).get(address, _GARBAGE)

    def __setitem__(self, address, word):
        self._port.world.pass_us(CALL_US)
        if self._port.watchdog and address == self._port.watchdog + _CLEAR:
            if word & _ENABLE:
                self._port.clock.watch(NEVER_US)
            return
        self._words(address)[address] = word & 0xFFFFFFFF


# --- The module ---


class _Machine:
    """What both ports have in common."""

    PWRON_RESET, WDT_RESET = 1, 3

    def __init__(self, port):
        self._port, self._freq = port, port.hertz
        self.mem32 = Memory(port)

    def unique_id(self):
        self._port.world.pass_us(CALL_US)
        return self._port.unique_id

    def freq(self, hertz=None):
        self._port.world.pass_us(CALL_US)
        if hertz is None:
            return self._freq
        self._freq = hertz
        return None

    def reset(self):
        self._end("reset", 0)

    def soft_reset(self):
        """RAM is new, and the chip's clock goes on."""
        self._port.world.is_soft_reset = True
        self._end("reset", 0)

    def deepsleep(self, ms=None):
        self._end("sleep", _FOREVER_MS if ms is None else int(ms))

    def _end(self, kind, ms):
        world = self._port.world
        world.pass_us(CALL_US)
        world.effect(kind, ms)
        world.slept_ms = ms
        world.die(kind)

    def lightsleep(self, ms=None):
        """The radio is off or idle meanwhile, so only what is due ends it early."""
        world, clock = self._port.world, self._port.clock
        until_us = world.now_us + (_FOREVER_MS if ms is None else int(ms)) * 1000
        while world.now_us < until_us:
            wakes_us = clock.next_us
            world.sleep_us(min(until_us, max(wakes_us, world.now_us)) - world.now_us)
            if world.now_us >= wakes_us:
                break

    def idle(self):
        """Until the next tick, at most 1 ms."""
        self._port.world.pass_us(1000)

    def disable_irq(self):
        self._port.world.pass_us(CALL_US)
        return self._port.clock.allow_interrupts(False)

    def enable_irq(self, state=True):
        self._port.clock.allow_interrupts(state)
        self._port.world.pass_us(CALL_US)

    def bitstream(self, pin, encoding, timing, data):
        """What it drives: "bits 5", in hexadecimal. Its time: two phases a bit, in ns."""
        world = self._port.world
        world.pass_us(CALL_US + len(data) * 8 * (timing[0] + timing[1]) // 1000)
        world.drive("bits " + str(number_of(pin)), bytes(data).hex())

    def time_pulse_us(self, pin, pulse_level, timeout_us=1_000_000):
        """World.value("pulse 5"): us; without one, none comes: -2."""
        world = self._port.world
        us = int(world.value("pulse " + str(number_of(pin)), -2))
        world.pass_us(timeout_us if us < 0 else min(us, timeout_us))
        return us if us <= timeout_us else -1


class MachineRp2(_Machine):
    """A reset by the program reads as one by the watchdog: it is made by it."""

    def reset_cause(self):
        self._port.world.pass_us(CALL_US)
        return 1 if self._port.cause == "power on" else 3

    def lightsleep(self, ms=None):
        if ms is not None and ms > _RP2_LONGEST_SLEEP_MS:
            raise ValueError("sleep too long")
        _Machine.lightsleep(self, ms)

    def deepsleep(self, ms=None):
        """A light sleep, then a reset."""
        if ms is not None and ms > _RP2_LONGEST_SLEEP_MS:
            raise ValueError("sleep too long")
        _Machine.deepsleep(self, ms)


class MachineEsp32(_Machine):
    HARD_RESET, DEEPSLEEP_RESET, SOFT_RESET = 2, 4, 5
    PIN_WAKE, EXT0_WAKE, EXT1_WAKE = 2, 2, 3
    TIMER_WAKE, TOUCHPAD_WAKE, ULP_WAKE = 4, 5, 6
    SLEEP, DEEPSLEEP = 2, 4
    _causes = {"power on": 1, "reset": 2, "watchdog": 3, "sleep": 4, "soft": 5}

    def reset_cause(self):
        self._port.world.pass_us(CALL_US)
        return self._causes[self._port.cause]

    def wake_reason(self):
        self._port.world.pass_us(CALL_US)
        return self.TIMER_WAKE if self._port.cause == "sleep" else 0


_RP2 = {
    "Pin": PinRp2, "Signal": _Signal, "ADC": AdcRp2, "PWM": PwmRp2, "Timer": TimerRp2,
    "WDT": WdtRp2, "RTC": RtcRp2,
}  # fmt: skip
_ESP32 = {
    "Pin": PinEsp32, "Signal": _Signal, "ADC": AdcEsp32, "PWM": PwmEsp32, "Timer": TimerEsp32,
    "WDT": WdtEsp32, "RTC": RtcEsp32,
}  # fmt: skip


def machine_of(port):
    """The module, without buses."""
    found = (MachineRp2 if port.is_rp2 else MachineEsp32)(port)
    kinds = _RP2 if port.is_rp2 else _ESP32
    for name in kinds:
        setattr(found, name, bind(name, kinds[name], port))
    return found

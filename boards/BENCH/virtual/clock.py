"""The board's own time: ticks since the start, the chip's clock, and what happens at a time of its
own (a timer's callback, an edge at a pin, the watchdog).

**The law.** Nothing here happens by itself: what is due happens at its time inside the next call
into the world, as an interrupt does between two lines of the program. Interrupts do not nest.

Must not know who asks: pins, timers and sockets come here, not the other way round.
"""

from virtual.world import CALL_US, TICKS

NEVER_US = 1 << 60
_HALF = (TICKS + 1) // 2


class Clock:
    """Of one boot. next_us: when something is due."""

    def __init__(self, world):
        self.world = world
        self._start_us = world.now_us
        # A real chip counts from 0. At power on the scenario says otherwise, so that ticks wrap
        first_ms = world.scenario["first_ms"] if world.cause == "power on" else 0
        self._start_us -= first_ms * 1000
        self._alarms = []  # [us, number, callback], the next one first
        self._count = 0
        self._is_busy = False  # an interrupt runs
        self._may_interrupt = True
        self.bite_us = self.next_us = NEVER_US  # of the watchdog
        world.interrupts = self

    # --- Time passes ---

    def happen(self):
        """What is due now."""
        if self.bite_us <= self.world.now_us:
            self.world.die("watchdog")
        self._interrupt(self._alarms.pop(0)[2])

    def _interrupt(self, callback):
        """An exception is printed, and the program continues: shared/runtime/mpirq.c."""
        self._is_busy = True
        self._plan()
        try:
            callback()
        except Exception as error:
            words = type(error).__name__, ", ".join([str(one) for one in error.args])
            self.world.output.append("Uncaught exception in a callback: %s: %s" % words)
        finally:
            self._is_busy = False
            self._plan()

    def _plan(self):
        self.next_us = self.bite_us
        if self._alarms and self._may_interrupt and not self._is_busy:
            self.next_us = min(self.next_us, self._alarms[0][0])
        if self.next_us < self.world.soon_us:
            self.world.hurry()

    # --- What is due ---

    def at(self, us, callback):
        """Have callback() called at that time. Returns what cancel() takes."""
        self._count += 1
        alarm = [us, self._count, callback]
        place = len(self._alarms)
        while place and self._alarms[place - 1][0] > us:
            place -= 1
        self._alarms.insert(place, alarm)
        self._plan()
        return alarm

    def cancel(self, alarm):
        for place, one in enumerate(self._alarms):
            if one is alarm:
                self._alarms.pop(place)
                break
        self._plan()

    def schedule(self, function, argument):
        """micropython.schedule(): soon, and not within an interrupt."""
        self.at(self.world.now_us, lambda: function(argument))
        self.world.pass_us(CALL_US)

    def watch(self, bite_us):
        """The watchdog bites then. NEVER_US: it is off."""
        self.bite_us = bite_us
        self._plan()

    def allow_interrupts(self, may):
        """Returns how it was. What was due meanwhile happens at the next call."""
        was, self._may_interrupt = self._may_interrupt, bool(may)
        self._plan()
        return was

    def wait(self, is_ready, until_us):
        """Time passes until is_ready() or until_us. Returns is_ready()'s answer. The steps grow to
        20 ms, so a long wait takes few."""
        world, step_us = self.world, 500
        while True:
            found = is_ready()
            left_us = until_us - world.now_us
            if found or left_us <= 0:
                return found
            world.pass_us(max(CALL_US, min(step_us, left_us)))
            step_us = min(step_us * 3 // 2, 20_000)

    # --- Ticks ---

    def since_start_us(self):
        return self.world.now_us - self._start_us

    def ticks_ms(self):
        self.world.pass_us(CALL_US)
        return self.since_start_us() // 1000 & TICKS

    def ticks_us(self):
        self.world.pass_us(CALL_US)
        return self.since_start_us() & TICKS

    # --- The chip's clock, in us since 1970 ---

    def set_chip_us(self, us):
        self.world.rtc_set = (us // 1_000_000, self.world.now_us - us % 1_000_000)

    def chip_us(self):
        seconds, at_us = self.world.rtc_set
        return seconds * 1_000_000 + self.world.now_us - at_us


def ticks_diff(a, b):
    return (a - b + _HALF & TICKS) - _HALF


def ticks_add(ticks, delta):
    return ticks + delta & TICKS


# --- The calendar: days since 1970-01-01 ---


def days_of(year, month, day):
    """Proleptic Gregorian; the year begins in March, so that a leap day comes last."""
    year += (month - 1) // 12
    month = (month - 1) % 12 + 1
    if month <= 2:
        year -= 1
    era_day = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + era_day - 719_468


def date_of(days):
    """(year, month, day, weekday, day of the year); Monday is 0."""
    year = 1970 + days // 365
    while days_of(year, 1, 1) > days:
        year -= 1
    month = 1
    while month < 12 and days_of(year, month + 1, 1) <= days:
        month += 1
    day = days - days_of(year, month, 1) + 1
    return year, month, day, (days + 3) % 7, days - days_of(year, 1, 1) + 1


class Time:
    """The module `time`. first_s: the port's time 0, in seconds since 1970."""

    ticks_diff, ticks_add = staticmethod(ticks_diff), staticmethod(ticks_add)

    def __init__(self, clock, first_s, cpu_mhz):
        self._clock, self._world = clock, clock.world
        self._first_s, self._cpu_mhz = first_s, cpu_mhz
        self.ticks_ms, self.ticks_us = clock.ticks_ms, clock.ticks_us

    def ticks_cpu(self):
        """Cycles on ESP32, us on RP2 (mp_hal_ticks_cpu() of the ports)."""
        self._world.pass_us(CALL_US)
        return self._clock.since_start_us() * self._cpu_mhz & TICKS

    def sleep(self, seconds):
        self._world.sleep_us(int(seconds * 1_000_000))

    def sleep_ms(self, ms):
        self._world.sleep_us(int(ms) * 1000)

    def sleep_us(self, us):
        self._world.sleep_us(us)

    def time(self):
        self._world.pass_us(CALL_US)
        return self._clock.chip_us() // 1_000_000 - self._first_s

    def time_ns(self):
        self._world.pass_us(CALL_US)
        return (self._clock.chip_us() - self._first_s * 1_000_000) * 1000

    def gmtime(self, seconds=None):
        """The ports take a machine word: 2^31 seconds raise OverflowError."""
        if seconds is None:
            seconds = self.time()
        else:
            self._world.pass_us(CALL_US)
            seconds = int(seconds)
            if not -(1 << 31) <= seconds < 1 << 31:
                raise OverflowError("overflow converting long int to machine word")
        seconds += self._first_s
        year, month, day, weekday, year_day = date_of(seconds // 86_400)
        left = seconds % 86_400
        return year, month, day, left // 3600, left // 60 % 60, left % 60, weekday, year_day

    localtime = gmtime

    def mktime(self, when):
        self._world.pass_us(CALL_US)
        year, month, day, hour, minute, second = [int(one) for one in when[:6]]
        seconds = hour * 3600 + minute * 60 + second
        return days_of(year, month, day) * 86_400 + seconds - self._first_s

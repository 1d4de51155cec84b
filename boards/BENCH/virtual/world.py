"""The world around one board, in virtual time: its flash, its files, its clock, its server.

**The law.** What survives a power cut is here, and changes only in effect(). So a power cut is a
copy: whoever watches the effects takes copy() at one, damages it as a cut would, and starts a board
in it; the program that runs goes on undisturbed. Nothing is raised into it, so no `except` can hide
a cut, and no part of it runs twice.

Time passes only when the program calls the world: each call costs something, sleeping costs what it
says. After die() each call raises Stop, which is no Exception; so the program ends, whatever it
catches. Runs under CPython and MicroPython; one scenario gives the same trace on both (but for
asyncio, whose loops differ).

Must not know: how a program is loaded and started (boots.py), the protocol (broker.py).
"""

from virtual.broker import Broker
from virtual.chip import Chip, Noise
from virtual.files import Files
from virtual.ledger import Ledger

TICKS = 0x3FFFFFFF
# What a call costs, in us. The flash: typical times of a W25Q16JV's data sheet (0.4 ms a page,
# 45 ms a sector)
CALL_US, READ_US, PROGRAM_US, ERASE_US = 20, 50, 400, 45_000
_NEVER_US = 1 << 60
_PULSE_US = 1_000_000

# A scenario is plain data, which a command line or JSON can hold; bytes are hexadecimal text there.
DEFAULTS = {
    "board": "BENCH",
    "blocks": 16,  # of the outbox's flash
    "seed": 1,  # all that is random follows from it
    "settings": {},
    "files": {},  # {name: hex}
    "filesystem": "littlefs",  # or "fat": see files.py
    "values": {},  # {"adc 34": number, or [[from second, number], ...]}
    "outages": [],  # [[from second, to second, kind]]: see broker.py
    "said": [],  # [[at second, topic, payload, retain]]: another client publishes; hex
    "broker": {},  # options of the server: see broker.py
    "first_ms": 0x3FFF0000,  # ticks at power on: they wrap after a minute
    "unix_s": 1_764_000_000,  # the true time at the start
    "seconds": 3600,
    "heap_after_s": None,  # MicroPython: from when on the program may not allocate (heap.py)
}


class Stop(BaseException):
    """The program is ended from outside. No Exception, so that no handler continues after it."""

    def __init__(self, why):
        super().__init__(why)
        self.why = why


class World:
    """scenario: a dictionary as DEFAULTS; what it lacks is as there.

    on_effect(world, kind, details) is called before each effect: "program" and "erase" (details as
    the chip's on_operation), "file" (its name), "send" (the bytes), "sleep" (ms), "reset".
    """

    def __init__(self, scenario):
        self.scenario = dict(DEFAULTS)
        self.scenario.update(scenario)
        self.now_us = self.effects = self.boots = 0
        self.chip = self._watched(Chip(self.scenario["blocks"], 1))
        self.files = Files(self)
        self.rtc_memory = b""
        self.rtc_words = {}  # registers that a reset keeps, by address
        self.rtc_set = None  # (seconds since 1970, us when it was set)
        self.cause = "power on"  # of this boot; or "sleep", "reset", "watchdog"
        self.is_soft_reset = False  # the reset before this boot was machine.soft_reset()
        self.ledger = Ledger(self)
        self.broker = Broker(self, self.scenario["broker"])
        self.driven = []  # (ms, name, level): what the program drove
        self.bites = []  # when the watchdog ended the program, in ms
        self._values = _steps(self.scenario["values"])
        self._said = [
            (int(one[0] * 1_000_000), bytes.fromhex(one[1]), bytes.fromhex(one[2]), one[3])
            for one in sorted(self.scenario["said"])
        ]
        self._said_count = 0
        self.on_effect = None
        self.on()

    def copy(self):
        """The world at the moment when the power goes: what is in RAM is gone."""
        twin = World(dict(self.scenario, files={}, blocks=0))
        twin.scenario = self.scenario
        twin.now_us, twin.effects, twin.boots = self.now_us, self.effects, self.boots
        twin.chip = twin._watched(self.chip.copy())
        twin.files.content = dict(self.files.content)
        twin.rtc_set = None  # it has no battery
        twin.broker = self.broker.copy(twin)
        twin.ledger = self.ledger.copy(twin)
        twin.driven, twin.bites = self.driven[:], self.bites[:]
        twin._values, twin._said, twin._said_count = self._values, self._said, self._said_count
        twin.cause = "power on"
        return twin

    def _watched(self, chip):
        def seen(is_erase, block, offset, data):
            self.pass_in_flash(ERASE_US if is_erase else PROGRAM_US)
            self.effect("erase" if is_erase else "program", (is_erase, block, offset, data))

        chip.on_operation = seen
        return chip

    # --- One boot ---

    def on(self, until_s=None, done=None):
        """The power comes on. until_s: when the boot is ended; done(world): ends it when true."""
        self.until_us = _NEVER_US if until_s is None else int(until_s * 1_000_000)
        self.done = done  # asked when something came or was accepted
        self.dead = None  # why each call raises Stop
        self.soon_us = 0  # nothing happens by itself before
        self._is_in_flash = False
        self.pulse = None  # called at least once in _PULSE_US, and before the program goes on
        self.interrupts = None  # of this boot: next_us, and happen() (clock.py)
        self.guard = None  # of the heap (heap.py)
        self.slept_ms = self.open_sockets = 0
        self.calls = self.longest_poll_us = self.longest_turn_us = self.polled_us = 0
        self.output = []  # lines that the program printed
        self.error = "", ""  # the exception that nobody caught, and the line that raised it
        self.noise = Noise(self.scenario["seed"] + 31 * self.boots + self.now_us % 999_983)
        self.broker.hang_up()
        self.ledger.restart()

    def die(self, why):
        """Ends the program: this call, and each one after it, raises Stop."""
        self.dead = why
        self.hurry()
        raise Stop(why)

    def enter(self):
        """The program called the world: it may allocate."""
        if self.guard:
            self.guard.enter()

    def leave(self):
        if self.guard:
            self.guard.leave()

    # --- Time ---

    def pass_us(self, us):
        """Every call of the program into the world passes here."""
        end_us = self.now_us + us
        self.calls += 1
        if end_us < self.soon_us:
            self.now_us = end_us
        else:
            self._pass_to(end_us)

    def pass_in_flash(self, us):
        """In the flash's driver neither the time nor done() ends a boot: an outbox would be left in
        the middle of a call, and could not be asked what it holds."""
        self._is_in_flash = True
        try:
            self.pass_us(us)
        finally:
            self._is_in_flash = False

    def hurry(self):
        """Something changed: look at the next call what is due."""
        self.soon_us = 0

    def _pass_to(self, end_us):
        """Let all happen that is due, each at its time."""
        if self.dead:
            self.die(self.dead)
        while True:
            due_us = min(self._next_said_us(), self._interrupt_us(), self._end_us())
            self._reach(max(self.now_us, min(due_us, end_us)))
            if self._interrupt_us() <= min(self.now_us, end_us):  # one may run beyond the end
                self.interrupts.happen()
            elif self.now_us >= end_us:
                break
        if self.done and not self._is_in_flash and self.done(self):
            self.die("done")
        due_us = min(self._next_said_us(), self._interrupt_us(), self.until_us)
        self.soon_us = min(due_us, self.broker.due_us)
        if self.pulse:
            self.pulse()
            self.soon_us = min(self.soon_us, self.now_us + _PULSE_US)

    def _reach(self, us):
        self.now_us = us
        if self._next_said_us() <= us:
            self._said_count += 1
            self.broker.publish(*self._said[self._said_count - 1][1:])
        if us >= self.broker.due_us:
            self.broker.look()
        if us >= self._end_us():
            self.die("time")

    def _end_us(self):
        return _NEVER_US if self._is_in_flash else self.until_us

    def _interrupt_us(self):
        return self.interrupts.next_us if self.interrupts else _NEVER_US

    def _next_said_us(self):
        return self._said[self._said_count][0] if self._said_count < len(self._said) else _NEVER_US

    def sleep_us(self, us):
        self.pass_us(max(int(us), CALL_US))

    def unseen(self, look):
        """Returns look(), which may use the board's devices: no time passes, and nothing ends."""
        kept = self.now_us, self.until_us, self.done, self.dead, self.calls, self.on_effect
        self.until_us, self.done, self.dead, self.on_effect = _NEVER_US, None, None, None
        self.soon_us = _NEVER_US
        try:
            return look()
        finally:
            self.now_us, self.until_us, self.done, self.dead, self.calls, self.on_effect = kept
            self.hurry()

    def now_ms(self):
        return self.now_us // 1000

    def unix_s(self):
        """The true time, which the board does not know."""
        return self.scenario["unix_s"] + self.now_us // 1_000_000

    # --- Effects ---

    def effect(self, kind, details):
        """What is outside the board's RAM changes now."""
        if self.dead:
            self.die(self.dead)
        self.effects += 1
        if self.on_effect:
            self.on_effect(self, kind, details)

    # --- Hardware ---

    def value(self, name, default=0):
        """What the hardware of that name reads now."""
        self.pass_us(CALL_US)
        steps = self._values.get(name)
        if steps is None:
            return default
        found, second = default, self.now_us / 1_000_000
        for from_s, value in steps:
            if from_s > second:
                break
            found = value
        return found

    def drive(self, name, level):
        """The program sets an output."""
        self.pass_us(CALL_US)
        self.driven.append((self.now_ms(), name, level))

    def random_bytes(self, count):
        return bytes([self.noise.below(256) for _ in range(count)])


def _steps(values):
    """{name: [(from second, value)]}."""
    found = {}
    for name, given in values.items():
        steps = given if isinstance(given, (list, tuple)) else [(0, given)]
        found[name] = [tuple(one) for one in steps]
    return found

"""What the pins of a kind of board can do, and what uses them already: `pins` in its board.json,
from the data sheets that are named there.

Pure. Knows nothing about sensors; pin_check.py compares them with the pinout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

PULLED_UP = "high"  # at reset, by the pull-up of a bus or of an open-drain line
UNKNOWN = "either"  # at reset: depends on what is connected
FLOATING = ""  # at reset: nothing pulls the pin up or down
# How a driver uses a pin: (whether it drives the pin, level at reset). Drivers declare these words.
ROLES = {
    "input": (False, UNKNOWN),
    "counter": (False, UNKNOWN),  # counts edges while the program runs
    "adc": (False, UNKNOWN),
    "output": (True, FLOATING),
    "open drain": (True, PULLED_UP),
    "1-wire": (True, PULLED_UP),  # several sensors may share it
    "scl": (True, PULLED_UP),
    "sda": (True, PULLED_UP),
    "tx": (True, PULLED_UP),
    "rx": (False, PULLED_UP),  # idle, a sensor's tx is high
    "pin": (False, FLOATING),  # for a driver that declares no role
}
Controller = dict[str, list[int]]  # role: the pins that it can use; an empty dict: any pin


@dataclass(frozen=True, slots=True)
class Pinout:
    """owners: pin -> what uses it. psram: pins that the PSRAM uses, if the module has PSRAM.
    strapping: pins that the chip reads at reset, without effect on a normal start. at_reset: pin ->
    (the level that the chip needs at reset, what happens otherwise). i2c, uart: the controllers by
    number; a text names the owner of a controller that is taken."""

    gpio: tuple[int, ...]
    adc: Collection[int]
    owners: dict[int, str] = field(default_factory=dict)
    input_only: Collection[int] = ()
    adc2: Collection[int] = ()
    psram: Collection[int] = ()
    strapping: Collection[int] = ()
    at_reset: dict[int, tuple[str, str]] = field(default_factory=dict)
    i2c: tuple[Controller | str, ...] = ()
    uart: tuple[Controller | str, ...] = ()

    def fault(self, pin: int, role: str, pull: str = "none") -> str:
        """What is wrong with this use of the pin, as a text that follows "is PIN, "; "" if nothing
        is."""
        drives, level = ROLES[role]
        if pin not in self.gpio:
            return "which the chip does not have"
        if pin in self.owners:
            return f"which belongs to {self.owners[pin]}"
        if role == "adc" and pin not in self.adc:
            if pin in self.adc2:
                return "whose converter (ADC2) belongs to the Wi-Fi"
            return "which cannot measure a voltage"
        if pin in self.input_only and drives:
            return "which is an input only"
        if pin in self.input_only and pull != "none":
            return f"which has no pull-{pull} (with a resistor on the board: pull none)"
        needed, otherwise = self.at_reset.get(pin, (level, ""))
        if level and level != needed:
            return f"which must be {needed} when the chip starts, or {otherwise}"
        return ""

    def free(
        self, role: str, used: Collection[int], pull: str = "none", among: Iterable[int] = ()
    ) -> int | None:
        """Return the first unused pin that suits this role, or None. Pins with a second function
        come last."""
        second = {*self.at_reset, *self.strapping, *self.psram}
        for pin in sorted(among or self.gpio, key=lambda one: (one in second, one)):
            if pin not in used and not self.fault(pin, role, pull):
                return pin
        return None


def parsed(given: dict[str, Any] | None, adc: Iterable[int]) -> Pinout | None:
    """Return the pinout in board.json, or None if there is no `pins`. Raises ValueError, TypeError
    or LookupError."""
    if given is None:
        return None
    gpio = tuple(pin for first, last in given["gpio"] for pin in range(first, last + 1))
    return Pinout(
        gpio=gpio,
        adc=frozenset(adc),
        owners={pin: owner for owner, pins in given.get("owners", {}).items() for pin in pins},
        input_only=frozenset(given.get("input_only", ())),
        adc2=frozenset(given.get("adc2", ())),
        psram=frozenset(given.get("psram", ())),
        strapping=frozenset(given.get("strapping", ())),
        at_reset={int(pin): (one, more) for pin, (one, more) in given.get("at_reset", {}).items()},
        i2c=tuple(given["i2c"]),
        uart=tuple(given["uart"]),
    )

"""A station that takes commands: it measures, unless an answer must be stored first. It does not
allocate while there is no command."""
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from micropython import const

_FULL = const(-1)
_OWES = const(1)  # as in commands.py


class Commanded:
    """over() puts it before a class of station; Commands.attach() sets `commands`."""

    _base = None  # the class of station

    def step(self, now_ms):
        if self.commands.work:
            self.commands.step(now_ms)
        return self._base.step(self, now_ms)

    def publish_rest(self):
        """Nothing may take the number that an answer will have."""
        if self._done == len(self.sensors):
            return False
        if self.commands.work & _OWES and not self.commands.settle():
            self._done = len(self.sensors)  # this measurement finds no room
            self.status = _FULL
            self.not_published += 1
            return True
        return self._base.publish_rest(self)

    def add_report(self, values):
        """Add a report to the message that was begun. Returns how many fit, or are None."""
        at = 0
        for sensor, value in zip(self.sensors, values):
            if value is not None and not self.pack.add(
                sensor.name, sensor.unit, value, sensor.exponent
            ):
                break
            at += 1
        return at

    def publish_later(self, values, first):
        """Put what a report read (None: nothing), from sensor `first` on, into the next messages.
        Not while a measurement is being published, because it read the same just before."""
        if values and self._done == len(self.sensors):
            self.values[:] = values
            self._done = first


def over(base):
    """Returns a subclass of the station `base` that takes commands."""
    return type("CommandedStation", (Commanded, base), {"_base": base})

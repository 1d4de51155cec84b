"""A station that takes commands: it measures, unless an answer must be stored first. No heap while
there is none."""

from micropython import const

from station.station import Station

_FULL = const(-1)
_OWES = const(1)  # as in commands.py


class CommandedStation(Station):
    """A Station that takes commands; Commands.attach() sets `commands`."""

    def step(self, now_ms):
        if self.commands.work:
            self.commands.step(now_ms)
        return Station.step(self, now_ms)

    def publish_rest(self):
        """Nothing takes the number that an answer is to have."""
        if self._done == len(self.sensors):
            return False
        if self.commands.work & _OWES and not self.commands.settle():
            self._done = len(self.sensors)  # this measurement finds no room
            self.status = _FULL
            self.not_published += 1
            return True
        return Station.publish_rest(self)

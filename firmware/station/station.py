"""Measures every interval and publishes the readings; the client does the rest.

One message per measurement, or as many as its readings need: those that do not fit into the first
go into the next, with the same time. Does not allocate in the steady state.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_OK = const(0)


class Station:
    """sensors: objects with name, unit (bytes), exponent, and read(). state: a State, which tells
    the broker that the board is online (`state.py`); main.py sets it.

    read() returns an integer, or None when there is no reading now.
    """

    state: "Anything" = None
    start: "Anything" = None  # of a SeriesStation
    commands: "Anything" = None  # a Commands, in the subclass of `commanded_station.py`
    # About the last measurement, if it may be a sample: see `series_station.py`.
    sample_seq = -1  # number of the record that took it; -1: it was a message
    is_alarm = False  # it was published because of an alarm

    def __init__(self, client, pack, clock, sensors, topic, interval_ms, now_ms):
        self.client, self.pack, self.clock, self.sensors = client, pack, clock, sensors
        self.topic = topic
        self.values = [None] * len(sensors)
        self.interval_ms = interval_ms
        self.published = self.not_published = 0
        self.status = _OK
        self._done = len(sensors)  # how many of the readings are in messages, or are None
        self._last_ms = now_ms - interval_ms

    def step(self, now_ms):
        """Measure if it is time. True when publishing was tried: `status` has the result."""
        if self._done < len(self.sensors):
            return self.publish_rest()
        if elapsed_ms(now_ms, self._last_ms) < self.interval_ms:
            return False
        late = elapsed_ms(now_ms, self._last_ms) - self.interval_ms
        self._last_ms = now_ms if late > self.interval_ms else now_ms - late
        self.clock.now(now_ms)
        return self.measure()

    def measure(self):
        """Measure now. Returns as step(); call publish_rest() until it is False for the rest."""
        for i in range(len(self.sensors)):
            self.values[i] = self.sensors[i].read()
        self._done = 0
        return self.publish_rest()

    def publish_rest(self):
        """Publish the next message of this measurement. Returns as step()."""
        first = self._done
        length = self._encode(first)
        if not length:
            return False
        outbox = self.client.session.outbox
        held = outbox.oldest_seq
        outbox.reserve(len(self.topic) + length)
        if outbox.oldest_seq != held:  # making room dropped old messages: say so in this one
            length = self._encode(first)
        self.status = self.client.publish(self.topic, self.pack.buffer, length=length)
        self.published += self.status == _OK
        self.not_published += self.status != _OK
        return True

    def close_record(self):
        """Make all that is stored ready to be sent. Here each message is, at once."""

    def tell_state(self):
        """Publish that the board is online, if the settings want that."""
        if self.state:
            self.state.tell()

    def _encode(self, at):
        """Encode a message of the readings from `at` on. Returns its length; 0: there are none."""
        self.pack.begin(self.client.session.outbox, self.clock)
        first = at
        while at < len(self.sensors) and (self._add(at) or at == first):
            at += 1
        self._done = at
        return self.pack.end()

    def _add(self, at):
        """Add one reading. False: there is no room."""
        value, sensor = self.values[at], self.sensors[at]
        return value is None or self.pack.add(sensor.name, sensor.unit, value, sensor.exponent)

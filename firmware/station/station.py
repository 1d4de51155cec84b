"""Measures every interval and publishes one message per measurement; the client does the rest.

No heap in the steady state.
"""

from micropython import const

from outpost.session import elapsed_ms

_OK = const(0)


def drain(client, ticks_ms, timeout_ms, idle=None):
    """Poll until nothing waits for its acknowledgement, or timeout_ms have passed: before sleep.

    True when all is delivered. For a program of your own; `deep_sleep.py` is the ready one.
    ticks_ms: callable. idle: callable, waits a moment when nothing moves.
    """
    start = ticks_ms()
    while not client.is_drained() and elapsed_ms(ticks_ms(), start) < timeout_ms:
        if not client.poll(ticks_ms()) and idle:
            idle(client)
    return client.is_drained()


class Station:
    """sensors: objects with name, unit (bytes), exponent, and read().

    read() returns an integer, or None when there is no reading now.
    """

    commands: "Anything" = None  # a Commands, in its subclass there

    def __init__(self, client, pack, clock, sensors, topic, interval_ms, now_ms):
        self.client, self.pack, self.clock, self.sensors = client, pack, clock, sensors
        self.topic = topic
        self.values = [None] * len(sensors)
        self.interval_ms = interval_ms
        self.published = self.not_published = 0
        self.status = _OK
        self._last_ms = now_ms - interval_ms

    def step(self, now_ms):
        """Measure if it is time. True when a message was tried: `status` says how it went."""
        if elapsed_ms(now_ms, self._last_ms) < self.interval_ms:
            return False
        late = elapsed_ms(now_ms, self._last_ms) - self.interval_ms
        self._last_ms = now_ms if late > self.interval_ms else now_ms - late
        self.clock.now(now_ms)
        return self.measure()

    def measure(self):
        """Measure now. As step()."""
        for i in range(len(self.sensors)):
            self.values[i] = self.sensors[i].read()
        length = self._encode()
        if not length:
            return False
        outbox = self.client.session.outbox
        held = outbox.oldest_seq
        outbox.reserve(len(self.topic) + length)
        if outbox.oldest_seq != held:  # making room dropped old messages: say so in this one
            length = self._encode()
        self.status = self.client.publish(self.topic, self.pack.buffer, length)
        self.published += self.status == _OK
        self.not_published += self.status != _OK
        return True

    def _encode(self):
        self.pack.begin(self.client.session.outbox, self.clock)
        for i in range(len(self.sensors)):
            if self.values[i] is not None:
                self._add(self.sensors[i], self.values[i])
        return self.pack.end()

    def _add(self, sensor, value):
        self.pack.add(sensor.name, sensor.unit, value, sensor.exponent)

"""Where the ledger learns what the program is told: publish(), add() and poll() of the libraries
that it imports are wrapped, once their module is there.

A wrapper is no closure: a call of one with more than five words takes heap, which may be locked
(heap.py). What it needs is in fields of the class.
"""


def watches(ledger):
    """{module: function(module)}."""
    return {
        "outpost.session": lambda module: _watch_session(module.Session, ledger),
        "outpost.client": lambda module: _watch_client(module.Client, ledger),
        "outpost.series": lambda module: _watch_series(module.Series, ledger),
        "umqtt.simple": lambda module: _watch_waiting(module.MQTTClient, ledger),
        "mqtt_as": lambda module: _watch_async(module.MQTTClient, ledger),
    }


def _watch_session(kind, ledger):
    kind.ledger, kind.told_publish, kind.told_init = ledger, kind.publish, kind.__init__
    kind.publish, kind.__init__ = _publish, _made


def _publish(self, topic, payload, qos=1, retain=False, length=None):
    self.ledger.begin(topic, payload, length, qos, self.outbox)
    status = self.told_publish(topic, payload, qos, retain, length)
    self.ledger.end(status, qos, self.outbox)
    return status


def _made(self, outbox, *args, **options):
    self.ledger.outbox = outbox
    self.told_init(outbox, *args, **options)


def _watch_client(kind, ledger):
    kind.ledger, kind.told_poll = ledger, kind.poll
    kind.poll = _poll


def _poll(self, now_ms):
    self.ledger.turn(False)
    try:
        return self.told_poll(now_ms)
    finally:
        self.ledger.turn(True)


def _watch_series(kind, ledger):
    kind.ledger, kind.told_add = ledger, kind.add
    kind.add = _add


def _add(self, clock, values):
    self.ledger.outbox = self._outbox  # a program without a Session has it here alone
    self.ledger.samples.begin(self._topic, values, self._count)
    status = self.told_add(clock, values)
    self.ledger.samples.end(status)
    return status


def _watch_waiting(kind, ledger):
    """A client whose publish() with QoS 1 returns when the server has acknowledged."""
    kind.ledger, kind.told_publish = ledger, kind.publish
    kind.publish = _publish_and_wait


def _publish_and_wait(self, topic, msg, retain=False, qos=0):
    self.ledger.begin(_bytes(topic), _bytes(msg), len(msg), qos, None)
    self.told_publish(topic, msg, retain, qos)
    self.ledger.end(0, qos, None)


def _watch_async(kind, ledger):
    kind.ledger, kind.told_publish = ledger, kind.publish
    kind.publish = _publish_later


async def _publish_later(self, topic, msg, retain=False, qos=0, **more):
    self.ledger.begin(_bytes(topic), _bytes(msg), len(msg), qos, None)
    await self.told_publish(topic, msg, retain, qos, **more)
    self.ledger.end(0, qos, None)


def _bytes(text):
    return text.encode() if isinstance(text, str) else text

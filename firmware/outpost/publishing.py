"""The part of a session that takes messages from the application: it checks them, stores those of
QoS 1 and 2, and sends those of QoS 0.

Must not know when a stored message goes out. Allocation: none.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import copy, put_publish
from outpost.reader import is_topic

_CONNECTED = const(2)
_OK = const(0)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_BAD_LENGTH = const(-9)


class Publishing:
    """A base of Session."""

    def __init__(self, outbox):
        self._topic = self  # the topic that was checked last; none yet, and None is no topic
        self._retain = False  # RETAIN of the QoS 0 message that is being published
        self._append = outbox.append

    def publish(self, topic, payload, length, qos=1, retain=False) -> int:
        """Send payload[:length] on topic (bytes). A status; OK with QoS 1: it is stored, survives a
        power cut and will arrive.

        QoS 0 goes out with the next poll() or not at all: OFFLINE without a connection, BUSY while
        another packet goes out.
        """
        if topic is not self._topic and not self._is_topic(topic):
            return _BAD_TOPIC
        if length > len(payload) or length < 0:
            return _BAD_LENGTH
        if (qos > 1 or qos < 0) and qos != self.highest_qos:
            return _BAD_QOS
        self.check_ms = self.now_ms
        if not qos:
            self._retain = retain
            return self._publish_now(topic, payload, length)
        qos = qos << 4 | (0x40 if retain else 0)
        retain = self._append  # a call of the field itself would exceed the 11-word frame
        return retain(topic, payload, length, qos)

    def _is_topic(self, topic):
        """[MQTT-3.3.2-2]. One that cannot change is checked once: most programs reuse theirs."""
        if not topic:
            return False
        is_plain = True
        for byte in topic:
            if byte < 1 or byte > 127 or byte == 0x23 or byte == 0x2B:  # TypeError when it is a str
                is_plain = False
                break
        if not is_plain and not is_topic(topic, 0, len(topic)):
            return False
        if isinstance(topic, bytes):
            self._topic = topic
        return True

    def _publish_now(self, topic, payload, length):
        if self.state != _CONNECTED:
            return _OFFLINE
        if self.out_end or (self.in_flight and not self.in_flight.has_room(len(topic) + length)):
            return _BUSY
        if len(topic) + length > self.outbox.record_bytes:  # `tx` is made for them
            return _TOO_BIG
        # Both names are offsets from here on: another local would exceed the 11-word frame.
        topic = put_publish(self.tx, 0x31 if self._retain else 0x30, topic, 0, len(topic), length)
        length = copy(self.tx, topic, payload, 0, length)
        self._start(self.tx, length)
        return _OK

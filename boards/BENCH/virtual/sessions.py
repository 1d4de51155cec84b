"""What the server keeps of a client from one connection to the next: filters, messages that it has
not taken, identifiers of QoS 2; and when the server gives it up.

Plain data that copy() copies: a session survives the board's power cut, its connection does not.
Must not know a packet or a stream.
"""

from virtual.packets import matches

NEVER_US = 1 << 60
NO_LOCAL, AS_PUBLISHED = 4, 8  # options of a subscription (3.8.3.1 of 5.0)
_SHARE = b"$share/"
_IDS = 65_535


class Message:
    """One message for one session. packet_id: 0 until it was sent; until_us: when it expires."""

    def __init__(self, topic, payload, qos, retain, properties, until_us=NEVER_US):
        self.topic, self.payload, self.qos, self.retain = topic, payload, qos, retain
        self.properties, self.until_us = properties, until_us
        self.packet_id = 0
        self.is_released = False  # QoS 2: PUBREC came

    def copy(self):
        twin = Message(
            self.topic, self.payload, self.qos, self.retain, self.properties, self.until_us
        )
        twin.packet_id, twin.is_released = self.packet_id, self.is_released
        return twin


class Session:
    def __init__(self, client_id):
        self.client_id = client_id
        self.filters = []  # (filter, QoS, options, identifier or 0), in the order of SUBSCRIBE
        self.queue = []  # Messages of QoS 1 and 2 that are not acknowledged
        # QoS 2, from PUBLISH to PUBREL: (topic, payload, QoS), by identifier
        self.received = {}
        self.next_id = 1
        self.connection = None  # that of this world; None also where the power went
        self.is_up = False  # the server believes that there is a connection
        self.keep_us = self.expiry_us = 0
        self.will = None  # (topic, payload, QoS, retain, properties, delay in us)
        self.silent_us = self.will_us = self.end_us = NEVER_US  # when: see Broker._run_session()

    def copy(self):
        twin = Session(self.client_id)
        twin.filters, twin.received = self.filters[:], self.received.copy()
        twin.queue = [message.copy() for message in self.queue]
        twin.next_id, twin.is_up = self.next_id, self.is_up
        twin.keep_us, twin.expiry_us, twin.will = self.keep_us, self.expiry_us, self.will
        twin.silent_us, twin.will_us, twin.end_us = self.silent_us, self.will_us, self.end_us
        return twin

    def due_us(self):
        return min(self.silent_us, self.will_us, self.end_us)

    # --- Filters ---

    def subscribe(self, topic_filter, options, identifier):
        """True when there was none with that filter."""
        entry = (topic_filter, options & 3, options, identifier)
        for place in range(len(self.filters)):
            if self.filters[place][0] == topic_filter:
                self.filters[place] = entry
                return False
        self.filters.append(entry)
        return True

    def unsubscribe(self, topic_filter):
        """True when there was one."""
        count = len(self.filters)
        self.filters = [one for one in self.filters if one[0] != topic_filter]
        return len(self.filters) < count

    def grants(self, topic, is_own):
        """Returns the entries of `filters` that pass this topic. is_own: this client published."""
        return [
            one
            for one in self.filters
            if matches(plain(one[0]), topic) and not (is_own and one[2] & NO_LOCAL)
        ]

    # --- Messages ---

    def find(self, packet_id):
        """Returns the message that was sent with this identifier, or None."""
        for message in self.queue:
            if message.packet_id == packet_id:
                return message
        return None

    def new_id(self):
        while self.find(self.next_id):
            self.next_id = self.next_id % _IDS + 1
        found = self.next_id
        self.next_id = found % _IDS + 1
        return found


def is_shared(topic_filter):
    return topic_filter.startswith(_SHARE)


def plain(topic_filter):
    """Without the group of a shared subscription, in which this client is alone."""
    return topic_filter.split(b"/", 2)[2] if is_shared(topic_filter) else topic_filter

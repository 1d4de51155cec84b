"""A program of your own on a board that `outpost flash` prepared: one object that has opened its
outbox and its client, and says what keeps messages from being stored or sent.

**The law.** What no waiting mends raises Stuck, with one line that says what to do; an uncaught one
ends the program, and `mpremote run` with status 1. A connection that may come back is told once,
and tried again. publish() raises for a full outbox, too: waiting or dropping is for the program.

Must not know what the program sends. Allocation: Program() and open_outbox(); turn() and poll()
when the connection comes or goes.
"""

from micropython import const

from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from station.settings import load

_OK = const(0)
_BLANK = const(-10)
_REFUSED = const(-21)
_NOT_NOW = const((-3, -4))  # BUSY, OFFLINE
_PASSING = const((3, 0x88, 0x89, 0x97, 0x9F))  # codes of CONNACK: unavailable, busy, quota, rate
_LASTING = const((-30, -32, -41))  # TLS_UNTRUSTED, TLS_REFUSED, WIFI_WRONG_PASSWORD
_PAYLOADS = (bytes, bytearray, memoryview, str)  # str: the client says what to write
_OWN = const((b"data", b"state", b"answer"))


class Stuck(Exception):
    """Waiting would not help. Its text says what would."""


class Program:
    """The open board and its settings, and the outbox, the session and the client made with them:
    .board, .settings, .outbox, .session, .client."""

    def __init__(self, board, topic, session=Session, outbox=None, settings="settings.json", **own):
        """board: a new Board(). topic: bytes, on which the program publishes; it is checked against
        the rights that `outpost broker` gives (b"": not). session: its class. own: options of the
        session. outbox: a callable that is given the board; open_outbox by default. settings: the
        file's name. Raises Stuck, and what load() and open() raise.
        """
        self.settings = load(settings)
        self.board = board.open(self.settings)
        options = _session_options(self.board, self.settings, topic)
        options.update(own)
        self.outbox = (outbox or open_outbox)(board)
        self.session = session(self.outbox, self.settings["device_id"].encode(), **options)
        self.client = Client(board.link, self.session, board.random_bits)
        self._connects = self._failures = 0
        self._told = None  # the cause of the last failure that was printed

    def publish(self, topic, payload, qos=1, retain=False, length=None):
        """As publish() of the client, but raises Stuck unless the message was stored. Returns True;
        with QoS 0, False where it was not sent, as there is no connection now."""
        if not isinstance(payload, _PAYLOADS):
            raise TypeError("publish: payload must be bytes: write b'%d' % number, or the like")
        result = self.client.publish(topic, payload, qos, retain, length)
        if not qos and result in _NOT_NOW:
            return False
        if result != _OK:
            raise Stuck("not stored, status %d: %s" % (result, _words("PUBLISH", result)))
        return True

    def turn(self):
        """Poll once, and wait a moment when nothing moves. Raises Stuck."""
        if not self.poll():
            self.board.idle(self.client)

    def poll(self):
        """Poll once. True: there was work, so poll again soon. Prints what became of the
        connection. Raises Stuck."""
        moved = self.client.poll(self.board.ticks_ms())
        if self.client.failures != self._failures or self.session.connects != self._connects:
            self.tell()
        return moved

    def deliver(self):
        """Run until every message is delivered, however long the broker is away. Raises Stuck, also
        when the broker accepts all but some of them."""
        while not self.client.is_drained():
            self.turn()
        if self.outbox.aside:
            raise Stuck(
                "messages that the broker does not accept: %d. Longer than it allows, or on a "
                "topic that it denies? They stay in the outbox, and are tried again"
                % self.outbox.aside
            )
        print("delivered: %d acknowledged" % self.session.acknowledged)

    def close(self):
        """Send DISCONNECT and store the acknowledgements: the next start sends nothing twice."""
        self.client.close()

    def tell(self):
        """Print whether there is a connection, or why not. Raises Stuck when the next one will end
        like the last."""
        client, session = self.client, self.session
        if session.connects != self._connects:
            self._connects, self._told = session.connects, None
            print("%s: connected" % self._where())
        if client.failures == self._failures:
            return
        self._failures = client.failures
        cause = client.last_error, session.return_code
        if cause == self._told:
            return
        self._told = cause
        text = "%s: %s" % (self._where(), _why(*cause))
        if _is_lasting(*cause):
            raise Stuck(text)
        print("%s; trying again" % text)

    def _where(self):
        return "%s:%d" % (self.settings["broker_host"], self.settings["broker_port"])


def open_outbox(board, kind=Outbox, **options):
    """The outbox of an open board, mounted; erased flash becomes one. options: of `kind`. Raises
    Stuck. Nothing is overwritten."""
    outbox = kind(board.device, align=board.align, page_bytes=board.page_bytes, **options)
    result = outbox.mount()
    if result == _BLANK:
        result = outbox.format(board.random_hex())
    if result != _OK:
        why = _words("MOUNT", result)
        raise Stuck("outbox: cannot mount, status %d: %s. Nothing was changed" % (result, why))
    return outbox


def _session_options(board, settings, topic):
    """Options of a session: user, password, and what the board can have in flight. Raises Stuck for
    a topic on which the board's user may not publish: MQTT 3.1.1 brokers acknowledge such a
    message, and drop it.

    `outpost broker` and `outpost run` give a board the user with its own name, and rights to three
    topics. Where that user has others, pass topic=b"".
    """
    device, user = settings["device_id"], settings["user"]
    base = (settings["topic_prefix"] + "/" + device + "/").encode()
    if isinstance(topic, str):
        raise TypeError("Program: topic must be bytes: write text.encode()")
    if topic and user == device and topic not in [base + one for one in _OWN]:
        raise Stuck(
            "%s: the user '%s' of `outpost broker` may publish on %sdata, state and answer alone; "
            "the broker would acknowledge the message and drop it. Other rights? Give topic b''"
            % (topic.decode(), user, base.decode())
        )
    return {
        "user": user.encode() or None,
        "password": settings["password"].encode() or None,
        "in_flight_bytes": board.in_flight_bytes,
    }


def _is_lasting(error, code):
    return error in _LASTING or (error == _REFUSED and code not in _PASSING)


def _why(error, code):
    if error == _REFUSED:
        return "the broker refuses this board, return code %d: %s" % (code, _words("CONNACK", code))
    return "no connection, status %d: %s" % (error, _words("CONNECTION", error))


def _words(table, number):
    """Loaded when something is wrong: texts take RAM. A board that takes updates does without: its
    flash has to hold each file twice."""
    try:
        from station import own_words
    except ImportError:
        return "see outpost/status.py"
    return getattr(own_words, table).get(number, "see outpost/status.py")

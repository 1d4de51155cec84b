"""For a program of your own on a board that `outpost flash` prepared: opens its outbox, polls, and
says what keeps messages from being stored or sent.

**The law.** What no waiting mends raises Stuck, with one line that says what to do; an uncaught one
ends the program, and `mpremote run` with status 1. What may pass is printed once, and tried again.

Must not know what the program sends. Allocation: open_outbox(); turn() when last_error changes.
"""

from micropython import const

from outpost.outbox import Outbox

_OK = const(0)
_BLANK = const(-10)
_REFUSED = const(-21)
_UNAVAILABLE = const(3)  # return code of CONNACK: may pass
_LASTING = (-30, -32, -41)  # TLS_UNTRUSTED, TLS_REFUSED, WIFI_WRONG_PASSWORD
_OWN = (b"data", b"state", b"answer")
_MOUNT = {
    -11: "the flash holds something else",
    -12: "it holds series of the ready program, which this program cannot read: let the ready "
    'program send them (reset the board), then set "series": false and run this one',
    -13: "it was made with a smaller 'align'",
    -15: "it holds messages longer than record_bytes: give open_outbox() a greater one",
    -16: "'outbox_blocks' is smaller than the outbox, or some of its blocks are gone",
}
_PUBLISH = {
    -1: "the outbox is full: it empties when messages are sent and acknowledged",
    -2: "topic and payload are longer than record_bytes",
    -3: "called from inside a handler, or the outbox is not mounted",
    -5: "the flash did not take it",
    -6: "the topic is empty, not UTF-8, or has a wildcard",
}


class Stuck(Exception):
    """Waiting would not help. Its text says what would."""


def open_outbox(board, kind=Outbox, **options):
    """The outbox of an open board, mounted; erased flash becomes one. options: of `kind`. Raises
    Stuck. Nothing is overwritten."""
    outbox = kind(board.device, align=board.align, page_bytes=board.page_bytes, **options)
    result = outbox.mount()
    if result == _BLANK:
        result = outbox.format(board.random_hex())
    if result != _OK:
        why = _MOUNT.get(result, "see outpost/status.py")
        raise Stuck("outbox: cannot mount, status %d: %s. Nothing was changed" % (result, why))
    return outbox


def session_options(board, settings, topic):
    """Returns options of a session: user, password, and what the board can have in flight. Raises
    Stuck for a topic on which the board's user may not publish: MQTT 3.1.1 brokers acknowledge such
    a message, and drop it.

    `outpost broker` and `outpost run` give a board the user with its own name, and rights to three
    topics. Where that user has others, pass topic=b"".
    """
    device, user = settings["device_id"], settings["user"]
    base = (settings["topic_prefix"] + "/" + device + "/").encode()
    if topic and user == device and topic not in [base + one for one in _OWN]:
        raise Stuck(
            "%s: the user '%s' of `outpost broker` may publish on %sdata, state and answer alone; "
            "the broker would acknowledge the message and drop it"
            % (topic.decode(), user, base.decode())
        )
    return {
        "user": user.encode() or None,
        "password": settings["password"].encode() or None,
        "in_flight_bytes": board.in_flight_bytes,
    }


def stored(result):
    """result: of publish(). Raises Stuck unless the message was stored."""
    if result != _OK:
        why = _PUBLISH.get(result, "see outpost/status.py")
        raise Stuck("not stored, status %d: %s" % (result, why))


def turn(client, board):
    """Poll once, and wait a moment when nothing moves. Raises Stuck."""
    known = client.last_error
    if not client.poll(board.ticks_ms()):
        board.idle(client)
    if client.last_error != known:
        tell(client)


def tell(client):
    """Print why the last connection ended. Raises Stuck when the next one will end like it."""
    error, code = client.last_error, client.session.return_code
    if error == _REFUSED and code != _UNAVAILABLE:
        raise Stuck(
            "the broker refuses this board, return code %d: it wants another 'user' and 'password' "
            "in settings.json, or another client_id" % code
        )
    if error in _LASTING:
        raise Stuck("no connection, status %d: see outpost/status.py" % error)
    if error:
        print("no connection now, status %d (outpost/status.py); trying again" % error)

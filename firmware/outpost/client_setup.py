"""What a client needs once, when it is made: its fields, and the CONNECT packet. memory.unload() drops the module."""
# pyright: reportUndefinedVariable=false

import builtins

from micropython import const

from outpost.packets import put_header

_FIELDS = const(74)  # one more than 73 places hold
_CHUNK = const(64)
_OVERHEAD = const(9)  # of a PUBLISH: fixed header, length of the topic, packet identifier
_IN_FLIGHT = const(16)
_UNSAVED = const(64)  # acknowledgements that the power cut may have forgotten


def client(
    client: "Client", link, outbox, client_id, keep_alive_s=60, window=16, rx_bytes=4, random=None, in_flight_bytes=0, **options
):
    """Fields of a Client. window: PUBLISH packets in flight, 1..16. random: callable, 16 random bits. rx_bytes: the longest
    inbound packet kept; longer ones are skipped and counted. in_flight_bytes: bound of what is sent without
    proof that the server has it, at session.cost_of() a packet, for ports whose write() waits when full; 0 = no bound.
    The other options: see connect().
    """
    _widen(client)
    # The fields of every poll() come first, so that they have the places that their hashes name.
    client.now_ms = client._rx_end = client._read = client._rx = client.check_ms = client._stream = client.owes = 0
    client._tick_ms = client.out_end = client.next_send = client.outbox = client.base = client.state = client.out = 0
    client.out_at = client._acked = client._answer = client.high = client.tx = client._sent_ms = client.window = 0
    packet = connect(client_id, keep_alive_s, **options)
    session(client, packet, keep_alive_s, window, outbox.record_bytes + _OVERHEAD, rx_bytes)
    client.outbox = outbox
    client._link, client._random = link, random
    client._stream = client.on_acknowledged = None
    client._rx = bytearray(_CHUNK)
    client.in_flight_bytes = in_flight_bytes
    client._rx_at = client._rx_end = client._tick_ms = 0
    client._retain = False
    client._topic = client  # the topic that was found good last; none yet, and None is no topic
    client._append, client._discard = outbox.append, outbox.discard
    client._attempt = client._wait_ms = client._since_ms = client._saved_ms = client._offline_ms = 0
    client.sent = client.acknowledged = client.redelivered = client.connects = client.failures = 0
    client.longest_outage_ms = client.last_error = 0
    client.maybe_sent = min(outbox.next_seq, outbox.oldest_seq + _IN_FLIGHT + _UNSAVED)
    client.restart_at(outbox.oldest_seq, outbox.acked << 1)


def _widen(client):
    """Grow the table of the client's fields to 97 places, by temporary fields, whose names the interpreter has in any case.

    MicroPython finds fields by hash, and grows their table only when it is full, by a quarter. In a
    full one each call of a method, whose name is no field, looks at all places first. Cycles of a QoS 1
    message from RAM (host_tests/rigs/rp2040/cycles.py, with other values of _FIELDS, and none): 124,000
    with 59 places, 113,000 with 73, 99,000 with 97.
    """
    names = [name for name in dir(builtins) if name[0] != "_"][:_FIELDS]
    for name in names:
        setattr(client, name, None)
    for name in reversed(list(client.__dict__)):  # from the last place down, most become free again
        if name in names:
            delattr(client, name)


def session(session: "Session", packet, keep_alive_s, window, tx_bytes, rx_bytes):
    """Fields of a Session. packet: CONNECT."""
    if not 1 <= window <= 16:
        raise ValueError("mqtt: window must be 1..16")
    session.connect_packet, session.keep_alive_s, session.window = packet, keep_alive_s, window
    session.buffer = bytearray(rx_bytes)
    session.restart()
    session.out = session.tx = bytearray(tx_bytes)
    session.out_at = session.out_end = session._sent_ms = session.now_ms = 0
    session.state = session.return_code = session._answer = 0
    session.session_present = False
    session.owes = False
    session.check_ms = session.in_flight_bytes = session._unproven = session._proof_end = 0
    session._ping_end = 0
    session._asked_ms = -1  # when CONNECT or PINGREQ went out, while the answer is awaited
    # Sent: numbers base..high-1, on this connection base..next_send-1; acknowledged of them: bit i of _acked is base + i.
    session.base = session.next_send = session.high = session._acked = 0
    session.maybe_sent = 0  # messages below this number may have been sent before the last power cut
    session.ignored = session.skipped = 0


def _field(data):
    """UTF-8 string or binary field: two bytes of length, then the bytes (1.5.3). Raises ValueError above 65,535 bytes."""
    if len(data) > 65535:
        raise ValueError("mqtt: a text is longer than 65,535 bytes")
    return bytes((len(data) >> 8, len(data) & 255)) + data


def _packet(first, body):
    """Fixed header and body (bytes)."""
    header = bytearray(5)
    return bytes(header[: put_header(header, first, len(body))]) + body


def connect(client_id, keep_alive_s=60, clean=False, will=None, user=None, password=None, level=4):
    """CONNECT (3.1). will: (topic, message, qos, retain). All texts are bytes. level: 4 for MQTT 3.1.1, 3 for 3.1.

    Raises ValueError: a password without a user name [MQTT-3.1.2-22], a session to be kept without a client id [MQTT-3.1.3-8].
    """
    if password is not None and user is None:
        raise ValueError("mqtt: a password needs a user name")
    if will and will[2] > 2:
        raise ValueError("mqtt: will QoS must be 0..2")
    if not client_id and not (clean and level == 4):
        raise ValueError("mqtt: without a client id the session cannot be kept")
    flags = 2 if clean else 0
    fields = [client_id]
    if will:
        flags |= 4 | will[2] << 3 | bool(will[3]) << 5
        fields += will[:2]
    for text, flag in ((user, 128), (password, 64)):
        if text is not None:
            flags |= flag
            fields.append(text)
    body = _field(b"MQTT" if level == 4 else b"MQIsdp") + bytes((level, flags, keep_alive_s >> 8, keep_alive_s & 255))
    for text in fields:
        body += _field(text)
    return _packet(0x10, body)

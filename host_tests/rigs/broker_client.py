"""Run under MicroPython by test_real_broker.py and test_tls.py: a client that executes the given
steps against a real broker.

Argument: a JSON file with settings (as settings.json), client (options of ExactlyOnceSession), and
steps (a list of [name, ...]; see the functions below). The outbox is the UNIX board's flash.img in
the current folder. Prints one JSON object per step.
"""

import gc
import json
import sys

import micropython

from board import Board
from outpost.client import Client
from outpost.exactly_once import ExactlyOnceSession
from outpost.state_note import NotedOutbox
from outpost.ticks import elapsed_ms
from socket_link import open_link
from station.settings import check

_LIMIT_MS = 60_000  # limit of a step, in case the test forgets us; under an emulator too
_CODES_MS = 20_000

board = Board()
messages = []
costs = {}


def heap_in_use():
    return gc.mem_alloc() if hasattr(gc, "mem_alloc") else 0  # CPython has no such number


def say(**fields):
    print(json.dumps(fields))
    if hasattr(sys.stdout, "flush"):
        sys.stdout.flush()


def keep(session):
    buf = session.buffer
    at, end = session.payload_at, session.payload_at + session.payload_length
    topic, payload = bytes(buf[2 : 2 + session.topic_length]), bytes(buf[at:end])
    messages.append((topic.decode(), payload.decode(), session.first >> 1 & 3, session.first & 1))


def build(orders):
    settings = check(orders["settings"])
    options = orders["client"]
    for name in ("user", "password"):
        if name in options:
            options[name] = options[name].encode()
    if "will" in options:
        topic, message, qos, retain = options["will"]
        options["will"] = (topic.encode(), message.encode(), qos, retain)
    gc.collect()
    before = heap_in_use()
    links = [open_link(settings)]
    gc.collect()
    costs["link"] = heap_in_use() - before
    links.clear()  # the board has its own
    board.open(settings)
    outbox = NotedOutbox(board.device)
    if outbox.mount():
        outbox.format(board.random_hex())
    kind = ExactlyOnceSession
    if options.get("level") == 5:
        from outpost.level5 import over

        options["aliases"] = [topic.encode() for topic in options.get("aliases", ())]
        kind = over(kind)
    session = kind(outbox, settings["device_id"].encode(), **options)
    session.on_message = keep
    return Client(board.link, session)


def turn(client):
    if not client.poll(board.ticks_ms()):
        board.idle(client)


def until(client, is_done, limit_ms=_LIMIT_MS):
    """Poll until is_done() is true. True: it was in time."""
    start = board.ticks_ms()
    while not is_done():
        if elapsed_ms(board.ticks_ms(), start) > limit_ms:
            return False
        turn(client)
    return True


# --- Steps ---


def connect(client):
    until(client, client.is_connected)
    say(connected=client.is_connected(), session_present=client.session.session_present)


def fail(client, times=1):
    """Poll until connecting has failed that many times. Prints how long the longest poll() took."""
    failures, start, longest = client.failures, board.ticks_ms(), 0
    while client.failures < failures + times and elapsed_ms(board.ticks_ms(), start) < _LIMIT_MS:
        before = board.ticks_ms()
        moved = client.poll(before)
        longest = max(longest, elapsed_ms(board.ticks_ms(), before))
        if not moved:
            board.idle(client)
    session, outbox = client.session, client.session.outbox
    say(
        last_error=client.last_error, return_code=session.return_code, longest_poll_ms=longest,
        connects=session.connects, took_ms=elapsed_ms(board.ticks_ms(), start),
        held=outbox.next_seq - outbox.oldest_seq,
    )  # fmt: skip


def subscribe(client, filters):
    """filters: [[topic filter, QoS]]; QoS -1 unsubscribes."""
    for topic_filter, qos in filters:
        client.session.subscribe(topic_filter.encode(), qos)
    until(
        client, lambda: not [entry for entry in client.session.filters if entry[2] == -1], _CODES_MS
    )
    say(filters=[[entry[0].decode(), entry[2]] for entry in client.session.filters])


def publish(client, topic, count, qos, retain=False, wait=True):
    """Publish the payloads 0, 1, 2 ...; wait: until all are acknowledged."""
    topic = topic.encode()
    number = 0
    while number < count:
        payload = b"%d" % number
        if client.publish(topic, payload, qos, retain) == 0:
            number += 1
        elif not client.poll(board.ticks_ms()):
            board.idle(client)
    done = not wait or until(client, lambda: client.is_drained() and not client.session.out_end)
    say(published=number, done=done)


def flood(client, topic):
    """Publish with QoS 0 until the stream has accepted nothing for 300 ms, because the broker is
    stopped; continue when it accepts bytes again.
    """
    topic, payload, number = topic.encode(), bytes(400), 0
    moved_ms = board.ticks_ms()
    while elapsed_ms(board.ticks_ms(), moved_ms) < 300:
        number += client.publish(topic, payload, 0, length=400) == 0
        if client.poll(board.ticks_ms()):
            moved_ms = board.ticks_ms()
    say(full=client.session.out_end > 0, number=number)
    until(client, lambda: not client.session.out_end)


def take(client, count):
    """Wait until that many messages have arrived since the start, and a moment longer, because
    there might be one too many.
    """
    until(client, lambda: len(messages) >= count)
    start = board.ticks_ms()
    until(client, lambda: elapsed_ms(board.ticks_ms(), start) > 200)
    say(messages=messages)


def idle(client, ms):
    start = board.ticks_ms()
    until(client, lambda: elapsed_ms(board.ticks_ms(), start) > ms)
    say(connected=client.is_connected(), connects=client.session.connects, failures=client.failures)


def told(client):
    """Print what a broker of MQTT 5.0 said in CONNACK."""
    session = client.session
    own = session._own_aliases
    say(
        packet_size=session.server.get(0x27, 0),
        aliases=own._most if own else 0, failures=client.failures,
        receive_maximum=session.server.get(0x21, 0), window=session.window,
    )  # fmt: skip


def refused(client, topic, length):
    """Print the status of a message of that length, and wait a moment to see that nothing
    happens."""
    status = client.publish(topic.encode(), bytes(length))
    start = board.ticks_ms()
    until(client, lambda: elapsed_ms(board.ticks_ms(), start) > 200)
    say(status=status)


def close(client):
    client.close()
    say(closed=True)


def run_locked(client, topic, payload, count):
    while count:
        if client.publish(topic, payload, length=64) == 0:
            count -= 1
        while not client.is_drained():
            if not client.poll(board.ticks_ms()):
                board.idle(client)


def heap(client, count):
    """Publish with QoS 1 and the heap locked, waiting for each acknowledgement. Prints net and
    gross allocation.
    """
    topic, payload = b"outpost/heap/data", bytes(64)
    run_locked(client, topic, payload, 10)
    gc.collect()
    gc.disable()
    gross, net = micropython.mem_total(), gc.mem_alloc()
    micropython.heap_lock()
    run_locked(client, topic, payload, count)
    micropython.heap_unlock()
    net = gc.mem_alloc() - net
    gross = micropython.mem_total() - gross
    gc.enable()
    say(net=net, gross=gross)


def reconnect(client, times):
    """Print what a connection costs on the heap: what it holds after a collection, and what it
    allocates in all.
    """
    held, asked = [0] * (times + 1), [0] * times  # made beforehand: they would grow the heap
    gc.collect()
    held[0] = gc.mem_alloc()
    for number in range(times):
        gross = micropython.mem_total()
        until(client, client.is_connected)
        asked[number] = micropython.mem_total() - gross
        gc.collect()
        held[number + 1] = gc.mem_alloc()
        client.close()
    say(link=costs["link"], held=held, asked=asked)


STEPS = {
    "connect": connect, "fail": fail, "subscribe": subscribe, "publish": publish, "take": take,
    "flood": flood, "idle": idle, "close": close, "heap": heap, "reconnect": reconnect,
    "told": told, "refused": refused,
}  # fmt: skip


def main(path):
    with open(path) as file:
        orders = json.load(file)
    client = build(orders)
    for step in orders["steps"]:
        STEPS[step[0]](client, *step[1:])
    session, outbox = client.session, client.session.outbox
    say(
        acknowledged=session.acknowledged, redelivered=session.redelivered,
        received=session.received, ignored=session.ignored, connects=session.connects,
        held=outbox.next_seq - outbox.oldest_seq,
    )  # fmt: skip


main(sys.argv[1])

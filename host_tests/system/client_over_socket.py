"""Run by test_real_sockets.py under MicroPython and CPython: a client on a real socket, through the
UNIX board's link.

Argument: a JSON object of orders, see ORDERS. Runs until all that `until` names has come about, or
for limit_ms; then prints one JSON object: the counters, the errors in their order, the longest time
that one poll() took.
"""

import io
import json
import sys

from board import Board
from nor_flash import BLOCK_BYTES, NorFlash
from outpost.client import Client
from outpost.exactly_once import ExactlyOnceSession
from outpost.state_note import NotedOutbox
from outpost.streaming import StreamingSession
from outpost.subscribing import SubscribingSession
from socket_link import open_link

ORDERS = {
    "port": 0,
    "publish": 0,  # messages before the start
    "qos": 1,
    "flood": False,  # QoS 0 messages all the time
    "subscribe": 0,  # filters
    "keep_alive_s": 60,
    "response_ms": 10_000,
    "streaming": False,
    "until": {},  # counter: least value
    "limit_ms": 60_000,
}
TOPIC = b"outpost/socket/data"
board = Board()
_MOST_WAIT_MS = 30  # between two connections: the delay has tests of its own


def build(orders, lengths):
    outbox = NotedOutbox(NorFlash(io.BytesIO(b"\xff" * (16 * BLOCK_BYTES)), 16, 256))
    outbox.format(b"01234567")
    link = open_link({"broker_host": "127.0.0.1", "broker_port": orders["port"]})
    kind = StreamingSession if orders["streaming"] else SubscribingSession
    if orders["qos"] == 2:
        kind = ExactlyOnceSession
    options = {"keep_alive_s": orders["keep_alive_s"], "response_ms": orders["response_ms"]}
    session = kind(outbox, b"socket", **options)
    client = Client(link, session)
    session.on_message = lambda m: lengths.append(m.payload_length)
    if orders["streaming"]:
        session.on_piece = lambda m, data, at, count: lengths.append(count)
    for number in range(orders["subscribe"]):
        session.subscribe(b"c/%d/#" % number, 1)
    for number in range(orders["publish"]):
        payload = b"message %d" % number
        assert client.publish(TOPIC, payload, orders["qos"]) == 0
    return client


def passed_ms(since):
    return (board.ticks_ms() - since) & 0x3FFFFFFF


def reached(until, client):
    for name, least in until.items():
        owner = client if hasattr(client, name) else client.session
        value = getattr(owner, name)
        if int(value() if callable(value) else value) < least:
            return False
    return True


def run(client, orders):
    """(errors in their order, longest poll in ms)"""
    start, errors, longest, failures, flood = board.ticks_ms(), [], 0, 0, bytes(400)
    while not reached(orders["until"], client) and passed_ms(start) < orders["limit_ms"]:
        before = board.ticks_ms()
        moved = client.poll(before)
        longest = max(longest, passed_ms(before))
        if client.failures != failures:
            failures = client.failures
            errors.append(client.last_error)
            client._wait_ms = min(client._wait_ms, _MOST_WAIT_MS)
        if orders["flood"]:
            client.publish(TOPIC, flood, 0)
        elif not moved:
            board.idle(client)
    return errors, longest


def main():
    orders = dict(ORDERS)
    orders.update(json.loads(sys.argv[1]))
    lengths = []
    client = build(orders, lengths)
    start = board.ticks_ms()
    errors, longest = run(client, orders)
    counters = ("sent", "acknowledged", "redelivered", "ignored", "skipped", "received")
    report = {name: getattr(client.session, name) for name in counters}
    report.update({"connects": client.session.connects, "errors": errors, "lengths": lengths})
    report.update({"longest_poll_ms": longest, "took_ms": passed_ms(start)})
    codes = [entry[2] for entry in client.session.filters]
    report.update({"drained": client.is_drained(), "codes": codes})
    report["reached"] = reached(orders["until"], client)
    client.close()
    print(json.dumps(report))


main()

"""Run by test_heap_broker.py under MicroPython: QoS 1 publishes through a real socket to a real
broker, the heap locked.

Arguments: port, number of messages. Prints "net gross acknowledged".
"""

import gc
import io
import sys

import micropython

from board import Board
from nor_flash import BLOCK_BYTES, NorFlash
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from socket_link import open_link

TOPIC = b"outpost/heap/data"
PAYLOAD = bytes(64)
board = Board()


def build(port):
    outbox = Outbox(NorFlash(io.BytesIO(b"\xff" * (16 * BLOCK_BYTES)), 16, 256))
    outbox.format(b"01234567")
    link = open_link({"broker_host": "127.0.0.1", "broker_port": port})
    return Client(link, Session(outbox, b"heap", clean=True))


def run(client, count):
    """Publish count messages, and wait for each acknowledgement."""
    while count:
        if client.publish(TOPIC, PAYLOAD) == 0:
            count -= 1
        while not client.is_drained():
            if not client.poll(board.ticks_ms()):
                board.idle(client)


before = gross = net = 0  # here, or the module's own dictionary might grow below
client = build(int(sys.argv[1]))
while not client.is_connected():
    client.poll(board.ticks_ms())
run(client, 10)
gc.collect()
gc.disable()
before = client.session.acknowledged
gross = micropython.mem_total()
net = gc.mem_alloc()
micropython.heap_lock()
run(client, int(sys.argv[2]))
micropython.heap_unlock()
net = gc.mem_alloc() - net
gross = micropython.mem_total() - gross
print(net, gross, client.session.acknowledged - before)

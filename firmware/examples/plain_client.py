"""A plain MQTT client with a will: four messages in RAM, which a power cut loses; none in flash."""

from board import Board
from outpost.client import Client
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.status import FULL
from station.settings import load

board = Board().open(load("settings.json"))  # for its link
will = b"home/kitchen/state", b"offline", 1, True
session = Session(
    RamOutbox(slots=4, record_bytes=128), b"kitchen", clean=True, will=will,
    in_flight_bytes=board.in_flight_bytes,
)  # fmt: skip
client = Client(board.link, session, board.random_bits)


def turn():
    if not client.poll(board.ticks_ms()):
        board.idle(client)


for number in range(10):
    payload = b"%d" % number
    while client.publish(b"home/kitchen/plain", payload, len(payload)) == FULL:
        turn()
while not client.is_drained():
    turn()
client.close()

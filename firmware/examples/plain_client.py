"""A plain MQTT client with a will: four messages in RAM, which a power cut loses; none in flash."""

from board import Board
from outpost.client import Client
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.status import FULL
from station.own_program import session_options, turn
from station.settings import load

TOPIC = b"home/kitchen/plain"

settings = load("settings.json")
board = Board().open(settings)  # for its link
options = session_options(board, settings, TOPIC)
will = b"home/kitchen/state", b"offline", 1, True
session = Session(
    RamOutbox(slots=4, record_bytes=128), b"kitchen", clean=True, will=will,
    **options,
)  # fmt: skip
client = Client(board.link, session, board.random_bits)

for number in range(10):
    payload = b"%d" % number
    while client.publish(TOPIC, payload) == FULL:
        turn(client, board)
while not client.is_drained():
    turn(client, board)
client.close()

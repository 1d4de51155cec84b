"""Ten readings, stored in flash and sent. What publish() accepted arrives, despite power cuts."""

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox, session_options, stored, turn
from station.settings import load

TOPIC = b"home/kitchen/count"

settings = load("settings.json")
board = Board().open(settings)
options = session_options(board, settings, TOPIC)
outbox = open_outbox(board)
session = Session(outbox, b"kitchen", **options)
client = Client(board.link, session, board.random_bits)

for number in range(10):
    payload = b"%d" % number
    stored(client.publish(TOPIC, payload))  # raises when it was not, say, no room

while not client.is_drained():
    turn(client, board)
client.close()

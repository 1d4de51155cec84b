"""A lamp: home/kitchen/lamp/set switches it, home/kitchen/lamp is its state. "quit" ends it."""

from board import Board
from outpost.client import Client
from outpost.status import OK
from outpost.subscribing import SubscribingSession
from station.own_program import open_outbox, session_options, turn
from station.settings import load

SET, STATE = b"home/kitchen/lamp/set", b"home/kitchen/lamp"


class Lamp:
    def __init__(self):
        self.state, self.is_told, self.is_done = b"off", False, False

    def on_message(self, session):
        """Called by poll(): copy what you need and return; publish from the loop."""
        at = session.payload_at
        word = bytes(session.buffer[at : at + session.payload_length])
        if session.is_on(SET) and word in (b"on", b"off"):
            self.state, self.is_told = word, False
        self.is_done = word == b"quit"


settings = load("settings.json")
board = Board().open(settings)
options = session_options(board, settings, STATE)
outbox = open_outbox(board)
lamp = Lamp()
session = SubscribingSession(outbox, b"kitchen", **options)
session.on_message = lamp.on_message
session.subscribe(SET, 1)  # repeated automatically after each reconnect
client = Client(board.link, session, board.random_bits)

while not (lamp.is_done and client.is_drained()):
    if not lamp.is_told:
        lamp.is_told = client.publish(STATE, lamp.state, 1, True) == OK
    turn(client, board)
client.close()

"""A lamp: home/kitchen/lamp/set switches it, home/kitchen/lamp is its state. "quit" ends it."""

from board import Board
from outpost.status import OK
from outpost.subscribing import SubscribingSession
from station.own_program import Program

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


lamp = Lamp()
program = Program(Board(), STATE, SubscribingSession)
program.session.on_message = lamp.on_message
program.session.subscribe(SET, 1)  # repeated automatically after each reconnect

while not (lamp.is_done and program.client.is_drained()):
    if not lamp.is_told:
        lamp.is_told = program.client.publish(STATE, lamp.state, 1, True) == OK
    program.turn()
program.close()

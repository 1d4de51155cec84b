"""A message each 100 ms: it fills its outbox while the broker is away."""

import time

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox
from station.settings import load

board = Board().open(load("settings.json"))
client = Client(board.link, Session(open_outbox(board), b"quick"), board.random_bits)
payload = bytes(100)

while True:
    client.publish(b"quick/data", payload)
    client.poll(time.ticks_ms())
    time.sleep_ms(100)

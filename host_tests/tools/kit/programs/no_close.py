"""Sends messages twice: it sleeps without close(), so the acknowledgements are not stored."""

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox
from station.settings import load

board = Board().open(load("settings.json"))
client = Client(board.link, Session(open_outbox(board), b"garden"), board.random_bits)
client.publish(b"garden/wake", b"awake")
while not client.is_drained():
    if not client.poll(board.ticks_ms()):
        board.idle(client)
board.sleep(60_000)

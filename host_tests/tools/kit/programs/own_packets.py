"""Invents messages: it writes a PUBLISH of its own to the client's stream, past the outbox."""

import time

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox
from station.settings import load

board = Board().open(load("settings.json"))
link, streams = board.link, []


def kept():
    stream = link()
    if stream:
        streams.append(stream)
    return stream


client = Client(kept, Session(open_outbox(board), b"garden"), board.random_bits)
PACKET = b"\x32\x0c\x00\x06garden\x00\x07hi"
due = time.ticks_ms()

while True:
    now = time.ticks_ms()
    client.poll(now)
    if client.is_connected() and time.ticks_diff(now, due) >= 0:
        due = time.ticks_add(now, 60_000)
        streams[-1].write(PACKET, 0, len(PACKET))
    time.sleep_ms(50)

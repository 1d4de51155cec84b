"""Loses its count: it rewrites the file in place. On FAT a cut leaves it empty."""

import time

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox
from station.settings import load

board = Board().open(load("settings.json"))
client = Client(board.link, Session(open_outbox(board), b"meter"), board.random_bits)
try:
    with open("count.txt") as file:
        count = int(file.read() or 0)
except OSError:
    count = 0
due = time.ticks_ms()

while True:
    now = time.ticks_ms()
    if time.ticks_diff(now, due) >= 0:
        due = time.ticks_add(due, 60_000)
        count += 1
        with open("count.txt", "w") as file:
            file.write(str(count))
        text = b"%d" % count
        client.publish(b"meter/count", text)
    if not client.poll(now):
        time.sleep_ms(50)

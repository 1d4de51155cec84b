"""Loses messages: it formats the outbox at each start."""

import time

from board import Board
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from station.settings import load

board = Board().open(load("settings.json"))
outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
outbox.format(board.random_hex(), True)
client = Client(board.link, Session(outbox, b"garden"), board.random_bits)
number, due = 0, time.ticks_ms()

while True:
    now = time.ticks_ms()
    if time.ticks_diff(now, due) >= 0:
        due = time.ticks_add(due, 60_000)
        number += 1
        text = b"%d" % number
        client.publish(b"garden/number", text)
    if not client.poll(now):
        time.sleep_ms(50)

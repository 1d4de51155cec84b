"""Loses samples of a series: after the third one it formats the outbox, in the boot that took them.
Without the button at pin 3 it keeps them, in a record that stays open.
"""

import time

from machine import Pin

from board import Board
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from station.clock import Clock
from station.own_program import open_outbox
from station.settings import load

board = Board().open(load("settings.json"))
outbox = open_outbox(board, over(Outbox))
series = Series(outbox, b"garden/data", b"garden", ((b"soil", b"", 0),))
clock = Clock(board.ticks_ms())

for number in range(3):
    series.add(clock, (number,))
if Pin(3, Pin.IN).value():
    outbox.format(board.random_hex(), True)
while True:
    time.sleep(1)

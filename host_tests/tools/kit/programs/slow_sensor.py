"""Takes long: reading its sensor blocks the loop for 12 s, and the watchdog is on."""

import time

from machine import WDT

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox
from station.settings import load

board = Board().open(load("settings.json"))
client = Client(board.link, Session(open_outbox(board), b"garden"), board.random_bits)
dog = WDT(timeout=8000)
due = time.ticks_ms()

while True:
    dog.feed()
    now = time.ticks_ms()
    if time.ticks_diff(now, due) >= 0:
        due = time.ticks_add(due, 60_000)
        time.sleep(12)  # the sensor
        client.publish(b"garden/slow", b"1")
    if not client.poll(now):
        time.sleep_ms(50)

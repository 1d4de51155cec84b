"""A soil probe, each minute, for ever. A lamp says that a reading could not be stored."""

import time

from machine import ADC, Pin

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox
from station.settings import load

board = Board().open(load("settings.json"))
session = Session(open_outbox(board), b"garden", in_flight_bytes=board.in_flight_bytes)
client = Client(board.link, session, board.random_bits)
probe, lamp = ADC(Pin(34)), Pin(2, Pin.OUT)
due = time.ticks_ms()

while True:
    now = time.ticks_ms()
    if time.ticks_diff(now, due) >= 0:
        due = time.ticks_add(due, 60_000)
        text = b"%d" % probe.read_u16()
        lamp.value(client.publish(b"garden/soil", text) != 0)
    if not client.poll(now):
        time.sleep_ms(50)

"""As garden.py, without an allocation in its loop."""

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
probe = ADC(Pin(34))
TOPIC, text = b"garden/soil", bytearray(5)
due = time.ticks_ms()


def put(number):
    at = 5
    while at:
        at -= 1
        text[at] = 48 + number % 10
        number //= 10


while True:
    now = time.ticks_ms()
    if time.ticks_diff(now, due) >= 0:
        due = time.ticks_add(due, 60_000)
        put(probe.read_u16())
        client.publish(TOPIC, text, length=5)
    if not client.poll(now):
        time.sleep_ms(50)

"""A sensor of your own in the station of the ready program, which adds times, numbers and SenML.

A sensor is any object with name, unit, exponent and read(). With a driver file, you need no program
of your own: boards/sensors/README.md.
"""

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.clock import Clock
from station.own_program import open_outbox, session_options, turn
from station.settings import load
from station.station import Station
from station.telemetry import Pack


class Tank:
    """Percent full, with one decimal: read() returns tenths."""

    name, unit, exponent = b"level", b"%", -1

    def __init__(self):
        self.tenths = 1000

    def read(self):
        self.tenths -= 5
        return self.tenths  # an integer; None: no reading now


settings = load("settings.json")
topic = (settings["topic_prefix"] + "/" + settings["device_id"] + "/data").encode()
board = Board().open(settings)
options = session_options(board, settings, topic)
outbox = open_outbox(board)
device = settings["device_id"].encode()
session = Session(outbox, device, **options)
client = Client(board.link, session, board.random_bits)
now_ms = board.ticks_ms()
clock = Clock(now_ms)
station = Station(client, Pack(device), clock, [Tank()], topic, settings["interval_ms"], now_ms)

while station.published < 3:  # `while True` on a board
    now_ms = board.ticks_ms()
    if not clock.is_set:
        board.set_clock(clock, now_ms)
    station.step(now_ms)
    turn(client, board)
while not client.is_drained():
    turn(client, board)
client.close()

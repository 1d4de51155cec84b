"""A sensor of your own in the station of the ready program, which adds times, numbers and SenML.

A sensor is any object with name, unit, exponent and read(). With a driver file, you need no program
of your own: boards/sensors/README.md.
"""

from board import Board
from station.clock import Clock
from station.own_program import Program
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


program = Program(Board(), b"")  # b"": of the ready program's topics, chosen below
board, settings = program.board, program.settings
topic = (settings["topic_prefix"] + "/" + settings["device_id"] + "/data").encode()
now_ms = board.ticks_ms()
clock, pack = Clock(now_ms), Pack(settings["device_id"].encode())
station = Station(program.client, pack, clock, [Tank()], topic, settings["interval_ms"], now_ms)

while station.published < 3:  # `while True` on a board
    now_ms = board.ticks_ms()
    if not clock.is_set:
        board.set_clock(clock, now_ms)
    station.step(now_ms)
    program.turn()
program.deliver()
program.close()

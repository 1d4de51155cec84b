"""A soil probe, each minute, for ever. A lamp says that a reading could not be stored."""

import time

from machine import ADC, Pin

from board import Board
from station.own_program import Program

program = Program(Board(), b"garden/soil")
probe, lamp = ADC(Pin(34)), Pin(2, Pin.OUT)
due = time.ticks_ms()

while True:
    now = time.ticks_ms()
    if time.ticks_diff(now, due) >= 0:
        due = time.ticks_add(due, 60_000)
        text = b"%d" % probe.read_u16()
        lamp.value(program.client.publish(b"garden/soil", text) != 0)
    if not program.poll():
        time.sleep_ms(50)

"""Hangs: it waits for a button in a loop that polls nothing else."""

from machine import Pin

button = Pin(3, Pin.IN, Pin.PULL_UP)
while button.value():
    pass

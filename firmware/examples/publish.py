"""Ten readings, stored in flash and sent. What publish() accepted arrives, despite power cuts."""

from board import Board
from station.own_program import Program

TOPIC = b"home/kitchen/count"

program = Program(Board(), TOPIC)  # settings.json names the broker
for number in range(10):
    payload = b"%d" % number
    program.publish(TOPIC, payload)  # raises when it was not stored, say, no room
program.deliver()
program.close()

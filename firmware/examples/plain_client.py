"""A plain MQTT client with a will: four messages in RAM, which a power cut loses; none in flash."""

from board import Board
from outpost.ram_outbox import RamOutbox
from outpost.status import FULL
from station.own_program import Program

TOPIC = b"home/kitchen/plain"


def in_ram(board):
    return RamOutbox(slots=4, record_bytes=128)


will = b"home/kitchen/state", b"offline", 1, True
program = Program(Board(), TOPIC, outbox=in_ram, clean=True, will=will)

for number in range(10):
    payload = b"%d" % number
    while program.client.publish(TOPIC, payload) == FULL:
        program.turn()
program.deliver()
program.close()

"""One wake: store a reading in flash; every fourth wake sends all of them. Then deep sleep.

The radio stays off in the other three. `main.py` with the setting `deep_sleep` does the same.
"""

from board import Board
from station.deep_sleep import drain
from station.own_program import Program

TOPIC = b"home/kitchen/wake"
SLEEP_MS, MOST_AWAKE_MS, CONNECT_EVERY = 60_000, 30_000, 4

program = Program(Board(), TOPIC)
outbox, client, board = program.outbox, program.client, program.board

payload = b"%d" % outbox.next_seq  # a reading; numbering continues over sleep and power cuts
status = client.publish(TOPIC, payload)
if status or outbox.next_seq % CONNECT_EVERY == 0:  # a full outbox connects, too
    if not drain(client, board, MOST_AWAKE_MS) and not outbox.oldest_seq:
        program.tell()  # none was ever delivered: what no waiting mends ends the program
program.close()  # stores the acknowledgements, or these messages would be sent again
board.sleep(SLEEP_MS)  # waking is like a reset: the program restarts at its first line

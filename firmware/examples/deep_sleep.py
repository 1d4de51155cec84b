"""A wake: one reading into flash; every fourth wake sends all that is there. Then deep sleep.

The radio stays off in the other three. `main.py` with the setting `deep_sleep` does this, too.
"""

from board import Board
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from outpost.status import OK
from station.settings import load
from station.station import drain

SLEEP_MS, MOST_AWAKE_MS, CONNECT_EVERY = 60_000, 30_000, 4

board = Board().open(load("settings.json"))
outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
if outbox.mount() != OK:
    outbox.format(board.random_hex())
session = Session(outbox, b"kitchen", in_flight_bytes=board.in_flight_bytes)
client = Client(board.link, session, board.random_bits)

payload = b"%d" % outbox.next_seq  # a reading; numbers go on over sleep and power cuts
client.publish(b"home/kitchen/wake", payload, len(payload))
if outbox.next_seq % CONNECT_EVERY == 0:
    drain(client, board.ticks_ms, MOST_AWAKE_MS, board.idle)
client.close()  # the acknowledgements into flash, or they are sent again
board.sleep(SLEEP_MS)  # wakes as from a reset: the program begins at its first line

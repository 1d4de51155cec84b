"""One wake: store a reading in flash; every fourth wake sends all of them. Then deep sleep.

The radio stays off in the other three. `main.py` with the setting `deep_sleep` does the same.
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

payload = b"%d" % outbox.next_seq  # a reading; numbering continues over sleep and power cuts
client.publish(b"home/kitchen/wake", payload, len(payload))
if outbox.next_seq % CONNECT_EVERY == 0:
    drain(client, board.ticks_ms, MOST_AWAKE_MS, board.idle)
client.close()  # stores the acknowledgements, or these messages would be sent again
board.sleep(SLEEP_MS)  # waking is like a reset: the program restarts at its first line

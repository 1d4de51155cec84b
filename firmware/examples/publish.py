"""Ten readings, stored in flash and sent. What publish() accepted arrives, despite power cuts."""

from board import Board
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from outpost.status import OK
from station.settings import load

board = Board().open(load("settings.json"))
outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
if outbox.mount() != OK:
    outbox.format(board.random_hex())
session = Session(outbox, b"kitchen", in_flight_bytes=board.in_flight_bytes)
client = Client(board.link, session, board.random_bits)

for number in range(10):
    payload = b"%d" % number
    status = client.publish(b"home/kitchen/count", payload, len(payload))
    if status != OK:  # for example FULL: nothing was stored
        print("not stored:", status)

while not client.is_drained():
    if not client.poll(board.ticks_ms()):
        board.idle(client)
client.close()

"""With other tasks: one polls the client, one measures. asyncio allocates, poll() does not."""

import asyncio

from board import Board
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from outpost.status import OK
from station.settings import load


async def keep_connected(client, board):
    while True:
        moved = client.poll(board.ticks_ms())
        await asyncio.sleep(0 if moved else 0.005)


async def measure(client):
    for number in range(5):
        payload = b"%d" % number
        if client.publish(b"home/kitchen/task", payload, len(payload)) != OK:
            print("not stored")
        await asyncio.sleep(0.05)


async def main():
    board = Board().open(load("settings.json"))
    outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
    if outbox.mount() != OK:
        outbox.format(board.random_hex())
    session = Session(outbox, b"kitchen", in_flight_bytes=board.in_flight_bytes)
    client = Client(board.link, session, board.random_bits)
    task = asyncio.create_task(keep_connected(client, board))
    await measure(client)
    while not client.is_drained():
        await asyncio.sleep(0.005)
    task.cancel()
    client.close()


asyncio.run(main())

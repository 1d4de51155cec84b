"""With other tasks: one polls the client, one measures. asyncio allocates, poll() does not."""

import asyncio

from board import Board
from outpost.client import Client
from outpost.session import Session
from station.own_program import open_outbox, session_options, stored, tell
from station.settings import load

TOPIC = b"home/kitchen/task"


async def keep_connected(client, board):
    while True:
        known = client.last_error
        moved = client.poll(board.ticks_ms())
        if client.last_error != known:
            tell(client)
        await asyncio.sleep(0 if moved else 0.005)


async def measure(client):
    for number in range(5):
        payload = b"%d" % number
        stored(client.publish(TOPIC, payload))
        await asyncio.sleep(0.05)


async def main():
    settings = load("settings.json")
    board = Board().open(settings)
    options = session_options(board, settings, TOPIC)
    outbox = open_outbox(board)
    session = Session(outbox, b"kitchen", **options)
    client = Client(board.link, session, board.random_bits)
    task = asyncio.create_task(keep_connected(client, board))
    await measure(client)
    while not client.is_drained() and not task.done():
        await asyncio.sleep(0.005)
    if task.done():
        await task  # raises what ended it
    task.cancel()
    client.close()


asyncio.run(main())

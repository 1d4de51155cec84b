"""With other tasks: one polls the client, one measures. asyncio allocates, poll() does not."""

import asyncio

from board import Board
from station.own_program import Program

TOPIC = b"home/kitchen/task"


async def keep_connected(program):
    while True:
        await asyncio.sleep(0 if program.poll() else 0.005)


async def measure(program):
    for number in range(5):
        payload = b"%d" % number
        program.publish(TOPIC, payload)
        await asyncio.sleep(0.05)


async def main():
    program = Program(Board(), TOPIC)
    task = asyncio.create_task(keep_connected(program))
    await measure(program)
    while not program.client.is_drained() and not task.done():
        await asyncio.sleep(0.005)
    if task.done():
        await task  # raises what ended it
    task.cancel()
    program.close()


asyncio.run(main())

"""What asyncio offers: limits, events, locks, groups of tasks, cancelling; each step says when."""

import asyncio
import time

from board import Board
from station.own_program import Program

program = Program(Board(), b"garden/steps")
lock, event = asyncio.Lock(), asyncio.Event()


def say(*words):
    print(time.ticks_ms(), *words)


async def hold(name, ms):
    async with lock:
        say(name, "holds")
        await asyncio.sleep_ms(ms)
    return name


async def fail():
    await asyncio.sleep_ms(7)
    raise ValueError("as planned")


async def wait_for_event():
    await event.wait()
    say("event")


async def for_ever():
    try:
        while True:
            await asyncio.sleep(0.5)
    except asyncio.CancelledError:
        say("cancelled")
        raise


async def limits():
    for ms in (5, 40):
        try:
            say(await asyncio.wait_for_ms(hold("limit", 20), ms))
        except asyncio.TimeoutError:  # noqa: UP041 - MicroPython has no other
            say("too late")
    try:
        await asyncio.wait_for(fail(), 1)
    except ValueError as error:
        say(error)


async def main():
    polling = asyncio.create_task(keep_connected())
    waiting = asyncio.create_task(wait_for_event())
    await limits()
    say(await asyncio.gather(hold("a", 30), hold("b", 10), hold("c", 20)))
    say([type(one) for one in await asyncio.gather(fail(), hold("d", 1), return_exceptions=True)])
    event.set()
    await waiting
    ending = asyncio.create_task(for_ever())
    await asyncio.sleep_ms(1234)
    ending.cancel()
    try:
        await ending
    except asyncio.CancelledError:
        say("ended", ending.done())
    program.publish(b"garden/steps", b"all")
    while not program.client.is_drained():
        await asyncio.sleep_ms(20)
    polling.cancel()
    program.close()


async def keep_connected():
    while True:
        await asyncio.sleep(0 if program.poll() else 0.005)


asyncio.run(main())
say("over")

"""Tasks that are cancelled while they wait, that end unseen, and a loop that is stopped; each step
says when."""

import asyncio
import time

from board import Board
from station.own_program import Program

program = Program(Board(), b"garden/steps")
lock, event, flag = asyncio.Lock(), asyncio.Event(), asyncio.ThreadSafeFlag()
loop = asyncio.get_event_loop()


def say(*words):
    print(time.ticks_ms(), *words)


async def cancelled_after(ms, name, coroutine):
    task = asyncio.create_task(coroutine)
    await asyncio.sleep_ms(ms)
    say(name, "is cancelled:", task.cancel(), task.done())
    try:
        await task
    except asyncio.CancelledError:
        say(name, "ended", task.done(), task.cancel())


async def hold(ms):
    async with lock:
        await asyncio.sleep_ms(ms)
    return ms


async def wait_for_event():
    await event.wait()


async def fail(ms):
    await asyncio.sleep_ms(ms)
    raise ValueError("nobody looks")


async def set_flag(ms):
    await asyncio.sleep_ms(ms)
    flag.set()


def unseen(_loop, context):
    say(context["message"], context["exception"])


async def steps():
    loop.set_exception_handler(unseen)
    holder = asyncio.create_task(hold(50))
    await asyncio.sleep_ms(1)
    await cancelled_after(7, "a waiter for the lock", hold(1))
    say("held", lock.locked(), await holder, lock.locked())
    await cancelled_after(7, "a waiter for the event", wait_for_event())
    await cancelled_after(7, "a waiter within a limit", asyncio.wait_for_ms(wait_for_event(), 90))
    await cancelled_after(7, "a group", asyncio.gather(hold(300), hold(300)))
    try:
        await asyncio.gather(hold(20), fail(5))
    except ValueError as error:
        say("the group failed:", error)
    asyncio.create_task(fail(3))  # noqa: RUF006 - nobody keeps it
    await asyncio.sleep_ms(30)
    setter = asyncio.create_task(set_flag(40))
    await flag.wait()
    say("flag", setter.done(), await asyncio.wait_for(asyncio.create_task(hold(2)), None))
    try:
        lock.release()
    except RuntimeError as error:
        say(error)
    program.publish(b"garden/steps", b"all")
    while not program.client.is_drained():
        if not program.poll():
            await asyncio.sleep_ms(5)
    say("now", asyncio.current_task() is main_task)
    program.close()
    loop.stop()
    await asyncio.sleep_ms(10_000)
    say("never")


main_task = loop.create_task(steps())
loop.run_forever()
say("stopped")
try:
    asyncio.current_task()
except (RuntimeError, AttributeError):
    say("none")

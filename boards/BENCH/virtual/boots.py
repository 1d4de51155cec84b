"""One boot after another: what a board does when its program sleeps, resets, ends or fails.

`start(world)` runs the program from its first line in a fresh RAM, and returns why it ended:
"ended", "error" (an exception that nobody caught), "stuck" (no call into the world for long), or
what the world ended it with: "sleep", "reset", "watchdog", "time", "done". How it loads the program
differs between the Pythons; the rest is here.
"""

AGAIN = ("sleep", "reset", "watchdog")
_RESET_US = 300_000  # until a program's first line: boot ROM, filesystem, main.py


def run(world, start, until_s, done=None):
    """Returns why the last boot ended; "time": the time is over. done(world): ends a boot early."""
    while True:
        world.on(until_s, done)
        world.boots += 1
        why = start(world)
        world.dead = world.dead or "off"  # a finalizer of the program must not go on
        world.hurry()
        if why not in AGAIN:
            return why
        world.cause = why
        if why == "watchdog":
            world.bites.append(world.now_ms())
        world.now_us += world.slept_ms * 1000 if why == "sleep" else _RESET_US
        if world.now_us >= until_s * 1_000_000:
            return "time"
        if done and done(world):
            return "done"

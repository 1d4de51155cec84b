"""Calls a function of a module that stays loaded only for the call: a board takes an update now and
then, and has the heap of its code for other things the rest of the time.

Not for what comes with each command: loading takes some 13 KB for a moment.
"""

from outpost.memory import unload


def of_start(name, *words):
    """Of update_start.py: at a start, and when an update begins or ends."""
    from station import update_start

    try:
        return getattr(update_start, name)(*words)
    finally:
        unload("station.update_start")

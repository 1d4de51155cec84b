"""Calls a function of a module that stays loaded only for the call: a board takes a command or an
update now and then, and has the heap of their code for other things the rest of the time.
"""

from outpost.memory import unload


def of_text(name, *words):
    """Of command_text.py: when a command comes, and for its answer."""
    from station import command_text

    try:
        return getattr(command_text, name)(*words)
    finally:
        unload("station.command_text")


def of_start(name, *words):
    """Of update_start.py: at a start, and when an update begins or ends."""
    from station import update_start

    try:
        return getattr(update_start, name)(*words)
    finally:
        unload("station.update_start")

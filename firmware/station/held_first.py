"""Before settings with another broker are on trial: the messages that the board holds for the old
one. Loaded while there is something to decide.

    "held": "send"     they go out within `within_s`, or the settings are refused
    "held": "refuse"   the same within 10 s, which is enough for those that are under way

The settings are in `trial.json`, and `note.doing` is ["drain", id, base, within_s, 0]. A reset ends
it: the settings are refused. What is measured meanwhile goes to the new broker. Allocation: the
answer.
"""

from micropython import const

from outpost.memory import unload
from outpost.ticks import elapsed_ms

_DONE = const(0)
_REFUSED_COMMAND = const(1)
_TAKEN_BACK = const(2)
_RESTART = const(4)  # in `work`: as in commands.py
_DRAIN = const(64)
_LEAST_S = const(10)


def begin(commands, held):
    """In place of the restart, which follows."""
    commands.station.close_record()
    commands.held_end = commands.station.client.session.outbox.next_seq
    commands.limit_ms = (commands.note.doing[3] if held == "send" else _LEAST_S) * 1000
    commands.work = commands.work & ~_RESTART | _DRAIN


def step(commands, now_ms):
    """Begin the trial when what was held has left, or refuse the settings in the end."""
    doing, outbox = commands.note.doing, commands.station.client.session.outbox
    if outbox.oldest_seq >= commands.held_end:
        doing[0] = "trial"
        commands.note.save()
        commands._restart_soon()
    elif elapsed_ms(now_ms, commands._since_ms) >= commands.limit_ms:
        held = outbox.next_seq - outbox.oldest_seq, commands.station.topic.decode()
        why = "say --held send or --held move: %d messages are held, of %s" % held
        commands._answer(doing[1], "set", _REFUSED_COMMAND, why)
    else:
        return
    commands.work &= ~_DRAIN
    unload("station.held_first")


def ended(doing):
    """Returns (what, result, why) of a command that the last reset ended."""
    unload("station.held_first")
    if doing[0] == "drain":
        return "set", _REFUSED_COMMAND, "a reset came while the held messages were sent"
    if doing[0] == "update":  # the settings that came by cable have no update_key
        return "update", _REFUSED_COMMAND, "ended by cable"
    if doing[0] == "failed":
        return "set", _TAKEN_BACK, doing[2]
    return "restart" if doing[0] == "restart" else "set", _DONE, ""

"""Remote settings on trial: they replace the old ones only when the board has connected with them.
Loaded while there is something to decide.

Until then `settings.json` has the old settings and `trial.json` the new ones. `note.doing` says
which step is due, and each step can be repeated after a power cut:

    ["trial", id, base, within_s, starts]   the board starts with trial.json, three times at most
    ["adopt", id, base]                     trial.json becomes settings.json
    ["failed", id, why]                     the board starts with settings.json

base: CRC of the settings.json with which the trial began. If somebody has changed that file by
cable since, the change wins. Allocation: what the settings take.
"""

import os

from micropython import const

from station.command_note import SETTINGS_PATH, TRIAL_PATH, crc_of, read

_MOST_STARTS_ON_TRIAL = const(3)


def choose(note, settings, load):
    """Returns the settings to start with. load: callable, path to settings; raises ValueError."""
    kind, _, base = note.doing[:3]
    is_there = read(TRIAL_PATH) is not None
    if kind == "adopt" and not is_there:  # it has its new name already
        return settings
    if crc_of(read(SETTINGS_PATH) or b"") != base:
        fail(note, "settings.json was changed on the board meanwhile")
        return settings
    if kind == "adopt":
        os.rename(TRIAL_PATH, SETTINGS_PATH)
        return load(SETTINGS_PATH)
    if note.doing[4] >= _MOST_STARTS_ON_TRIAL or not is_there:
        fail(note, "no connection in %d starts" % note.doing[4])
        return settings
    note.doing[4] += 1
    note.save()
    try:
        return load(TRIAL_PATH)
    except ValueError as error:
        fail(note, str(error))
        return settings


def adopt(note):
    """Adopt the settings. Raises OSError; the next start continues where this one ended."""
    note.doing = ["adopt"] + note.doing[1:3]
    note.save()
    os.rename(TRIAL_PATH, SETTINGS_PATH)


def fail(note, why):
    """The old settings stay; the answer follows when the outbox is open."""
    note.doing = ["failed", note.doing[1], why]
    note.save()
    try:
        os.remove(TRIAL_PATH)
    except OSError:
        pass

"""The program that a board runs: composition only. `board` is boards/<BOARD>/board.py's object."""

import os
import sys


def is_updating():
    try:
        os.stat("update/phase")
        return True
    except OSError:
        return False


def settle_update():
    """Put the files of an update in place, or back, before one of them is imported. True: the
    program runs on trial. A fault here does not stop the board: it runs with the files it has."""
    if not is_updating():
        return False
    try:
        from station import update_start

        return update_start.start()
    except Exception as error:
        print("update:", repr(error), file=sys.stderr)
        return False


# Not for the tools, which import this module to test a board.
on_trial = settle_update() if __name__ == "__main__" else False

_BUILT_IN = (
    "array",
    "binascii",
    "errno",
    "io",
    "json",
    "machine",
    "os",
    "random",
    "select",
    "socket",
    "struct",
    "time",
)


def find_built_in():
    """Put MicroPython's own modules into sys.modules until all is imported. Returns the names that
    were not there.

    MicroPython searches the filesystem first at each import of one: 6 ms each on an RP2040. With an
    empty sys.path it does not, and what sys.modules has is found at once.
    """
    found, places = [], sys.path[:]
    if sys.implementation.name != "micropython":
        return found
    sys.path.clear()
    for name in _BUILT_IN:
        try:
            if name not in sys.modules:
                sys.modules[name] = __import__(name)
                found.append(name)
        except ImportError:  # another port
            pass
    sys.path.extend(places)
    return found


def forget_built_in(names):
    """Afterwards a user's package may replace one of them, as MicroPython's rules allow."""
    for name in names:
        sys.modules.pop(name, None)


found = find_built_in()

# Now, because a module that cannot be imported is no fault of the settings
import station.assembly  # noqa: F401
from board import Board
from outpost.memory import unload

board = Board()


def load_settings(path="settings.json"):
    """The settings. Their module, 9 KB of heap, is unloaded again. Raises ValueError."""
    from station.settings import load

    try:
        return load(path)
    finally:
        unload("station.settings")


def open_commands(settings):
    from station import assembly

    return assembly.open_commands(board, settings, is_updating())


def build(settings, commands=None):
    """Put everything together, on an open board. Returns the station, with its client. The module
    that does it, 5 KB of heap, is unloaded again. Raises ValueError."""
    from station import assembly

    try:
        return assembly.build(board, settings, commands)
    finally:
        unload("station.assembly")


def run(station):
    """Measure and send until the board says stop; then send what is left."""
    client = station.client
    board.started(client)
    while not board.stopping():
        now_ms = board.ticks_ms()
        board.keep_time(station.clock, now_ms)
        if station.step(now_ms):
            board.published(station)
        if not client.poll(now_ms):
            board.idle(client)
        station.tell_state()
        board.feed_watchdog()
    station.close_record()
    while not client.is_drained():
        if not client.poll(board.ticks_ms()):
            board.idle(client)
        board.feed_watchdog()
    if station.state:
        station.state.leave()
        client.poll(board.ticks_ms())
    client.close()
    board.stopped(client)


def take_back(commands, error):
    """True when settings or an update are on trial: the next start has the old ones."""
    if commands or not on_trial:
        return commands and commands.take_back(error)
    from station.update_start import give_up

    return give_up("it does not take the settings: " + str(error))


def main():
    """Faulty settings: one line that names the key. Other faults: the board keeps the reason."""
    if not on_trial:  # a trial counts its starts itself, with the watchdog on, and may not pause
        board.begin()
    commands = None
    try:
        settings = load_settings()
        commands = open_commands(settings)
        if commands:
            settings = commands.choose(settings, load_settings)
        board.open(settings)
        station = build(settings, commands)
        forget_built_in(found)
        if settings["deep_sleep"]:
            from station.deep_sleep import wake
        else:
            wake = None
    except (ValueError, ImportError) as error:
        if isinstance(error, ImportError):  # a module of settings that came another way
            error = "%s: `outpost update` or `flash` brings it" % error
        print(error, file=sys.stderr)
        if take_back(commands, error):
            return board.restart()
        return board.give_up()
    if wake:
        return wake(station, board, settings)
    return run(station)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        board.release_watchdog()
        raise
    except Exception as error:  # stored messages are safe in the outbox
        board.crashed(error)

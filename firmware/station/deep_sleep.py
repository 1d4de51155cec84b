"""Deep sleep between measurements: each wake measures and stores; every k-th one also connects.

Only the outbox is kept across the sleep, and nothing else is needed. The message whose number is a
multiple of k is the one that connects, so the very first one does. A message that is refused
because the outbox is full connects as well. Every other wake leaves the radio alone, and costs one
program of flash. A wake that connects costs one more, for the acknowledgements.

A power cut in the wake that should have connected delays the connection to the next multiple.

**The law of the long wake.** What shows that the server does not take a message (`suspects.py`) is
known in RAM alone, and most wakes are too short for it. So one wake in 16, by chance, lasts for up
to 10 minutes, as long as the server leaves 16 messages waiting. That is enough to set at least one
aside, and few enough to spare the battery when the server takes nothing.

Loaded only when `deep_sleep` is set.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_FULL = const(-1)
_LEAST_MS = const(100)  # ESP32 treats a sleep of 0 as one without end
_LONG_MS = const(600_000)
_MANY = const(16)  # messages, as wide as the window is


def wake(station, board, settings):
    """One wake. Ends in board.sleep(), or returns when the board says stop and all is delivered."""
    client, until = station.client, _poller(station, board, settings["wake_limit_ms"])
    client.session.outbox.erase_ahead = _not_now
    board.started(client)
    is_due = _is_due(station, board, settings["connect_every"])
    if is_due:
        # connect first, so that this reading has its time, and TLS can check dates
        until(lambda: station.clock.is_set)
    _settle(station.sensors, board, client)
    first = client.session.outbox.next_seq
    _measure(station, board)
    is_due = is_due or _has_passed(first, client.session.outbox, settings["connect_every"])
    if is_due or station.is_alarm or station.status == _FULL:
        station.close_record()
        until(client.is_drained)
        if station.status == _FULL:
            _measure(station, board)  # the refused measurement again: there may be room now
            station.close_record()
        _tell_unheard(client.session, settings)
        _listen(station, board, until)
    client.close()  # programs only if no record has the latest acknowledgements
    board.stopped(client)
    if not board.stopping() or not client.is_drained():
        board.sleep(_rest_ms(station.clock, board.ticks_ms(), settings["interval_ms"]))


def drain(client, board, limit_ms):
    """For a program of your own: poll until all is delivered, or this wake is over. True when all
    is."""
    is_over = _end_of_wake(client.session, board, limit_ms)
    while not client.is_drained() and not is_over():
        board.feed_watchdog()
        if not client.poll(board.ticks_ms()):
            board.idle(client)
    return client.is_drained()


def _end_of_wake(session, board, limit_ms, may_be_long=True):
    """Returns is_over(): the time of this wake, which has just begun, is over."""
    start_ms = board.ticks_ms()
    may_be_long = may_be_long and board.random_hex()[:1] == b"0"

    def is_over():
        passed_ms = elapsed_ms(board.ticks_ms(), start_ms)
        if passed_ms < limit_ms:
            return False
        return passed_ms >= _LONG_MS or not (may_be_long and _is_stuck(session))

    return is_over


def _poller(station, board, wake_limit_ms):
    """Returns until(is_done): poll until is_done() is true, or the time of this wake is over."""
    client, limit_ms = station.client, _limit_ms(station.commands, wake_limit_ms)
    is_over = _end_of_wake(client.session, board, limit_ms, limit_ms == wake_limit_ms)

    def until(is_done):
        while not is_done() and not is_over():
            board.feed_watchdog()
            board.keep_time(station.clock, board.ticks_ms())
            if not client.poll(board.ticks_ms()):
                board.idle(client)
            station.tell_state()

    return until


def _limit_ms(commands, wake_limit_ms):
    """Returns the limit of a wake. Settings on trial may have less time than others."""
    return (
        min(wake_limit_ms, commands.limit_ms) if commands and commands.is_trial else wake_limit_ms
    )


def _is_stuck(session):
    """True when this wake has connected, and the server leaves many messages waiting."""
    return session.connects and session.outbox.next_seq - session.base >= _MANY


def _is_due(station, board, connect_every):
    """Does this wake connect? Settings on trial must prove that they can."""
    if board.stopping() or (station.commands and station.commands.is_trial):
        return True
    return station.client.session.outbox.next_seq % connect_every == 0


def _has_passed(first, outbox, connect_every):
    """Did a later message of this wake get a number that connects? The next wake would not know."""
    return (outbox.next_seq - 1) // connect_every > first // connect_every


def _tell_unheard(session, settings):
    if settings["mode"] == "collector":
        from station.unheard import after_wake

        after_wake(session, settings["interval_ms"])


def _listen(station, board, until):
    """Take the commands that the server has kept, if this board takes any."""
    if station.commands and not board.stopping():
        station.commands.listen(until)


def _not_now():
    """Replaces erase_ahead(): the sleep forgets what is erased, so each connection would erase."""
    return False


def _measure(station, board):
    station.clock.now(board.ticks_ms())
    if station.measure():
        board.published(station)
        while station.publish_rest():
            board.published(station)


def _settle(sensors, board, client):
    """Some sensors (DS18B20) return at the second reading what the first one started."""
    settle_ms = max([getattr(sensor, "settle_ms", 0) for sensor in sensors])
    if not settle_ms:
        return
    for sensor in sensors:
        if getattr(sensor, "settle_ms", 0):  # another one may pause after a slow reading
            sensor.read()
    start_ms = board.ticks_ms()
    while elapsed_ms(board.ticks_ms(), start_ms) < settle_ms:
        board.feed_watchdog()
        board.idle(client)


def _rest_ms(clock, now_ms, interval_ms):
    """Returns the milliseconds until one interval after this wake began."""
    clock.now(now_ms)
    return max(interval_ms - clock.up_ms, _LEAST_MS)

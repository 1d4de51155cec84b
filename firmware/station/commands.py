"""Commands over MQTT, each done once and answered once, also across power cuts. Loaded only when
`commands` is set. `command_note.py` has the argument for each cut, COMMANDS.md what users need.

A command is a QoS 1 message on `<prefix>/<device>/command`:

    {"id":"k3v9q2","do":"restart"}
    {"id":"k3v9q3","do":"report","until":1763694000}
    {"id":"k3v9q4","do":"set","settings":{"interval_ms":5000},"within_s":300}
    {"id":"k3v9q5","do":"stay_awake","minutes":10}
    {"id":"k3v9q6","do":"update","of":"1f03c9aa"}      updatable.py

Its answer is a message of the board's stream like any other, on `<prefix>/<device>/data`: a reading
`command`, 0 done, 1 refused, 2 taken back, with the labels cmd (the id), what and why. A command
that is sent again is not done again: its result goes to `<prefix>/<device>/answer`, QoS 0.

Must not know a socket or a port. Allocation: taking a command, at most 24,000 bytes for a
moment (test_heap_commands.py); none while nothing comes.
"""

import json

from micropython import const

from outpost.memory import unload
from outpost.ticks import elapsed_ms
from station.command_note import NOTE_PATH, SETTINGS_PATH, TRIAL_PATH, Note, crc_of, read, replace
from station.command_text import KNOWN, parse, plain, settings_fault, too_late

_OK = const(0)
_BUSY = const(-3)
_DONE = const(0)
_REFUSED_COMMAND = const(1)
_IN_PROGRESS = const(3)
_OWES = const(1)  # in `work`: an answer must be stored, and takes the next number
_TRIAL = const(2)  # settings are on trial
_RESTART = const(4)  # a reset is due
_REPEAT = const(8)  # a result must be sent again
_DRAIN = const(64)  # messages that are held go out before that
_STUCK = const(16)  # no note can be written: what was begun waits for the next start
_COMMAND_BYTES = const(512)  # of a command
_MOST_WHY = const(100)
_RESTART_MS = const(500)  # for the acknowledgement to go out
_QUIET_MS = const(500)  # nothing came for this long: the server has no more commands
_RETRY_MS = const(1000)
_MINUTE_MS = const(60_000)
_WITHIN_S = const(300)
_GRANTED = const(2)
# Keys that name the board and its flash, or that could lock out their sender.
_FIXED = const(("device_id", "topic_prefix", "outbox_blocks", "commands", "update_key"))


class NotNow(Exception):
    """The command stays with the server, and comes again with the next connection."""


class Commands:
    """Call choose() before the board is opened, then attach(), step() whenever `work` is not 0, and
    listen() before a sleep. Also a sensor: `commands_ignored`, when that has changed."""

    name, unit, exponent = b"commands_ignored", b"", 0
    station: "Anything" = None
    _client: "Anything" = None
    _entry: "Anything" = None  # of the subscription, in session.filters

    def __init__(self, board, base):
        self._board = board
        self.note = Note(NOTE_PATH)
        self.topic, self._answer_topic = base + b"/command", base + b"/answer"
        self.work = 0
        # Messages that are not commands: not JSON, no id, retained; too long: session.skipped.
        self.ignored = self._told = 0
        self._since_ms = 0  # when a reset became due, a trial began, or the answer was last tried
        self.limit_ms = 0  # of the trial, from the start on
        self._heard_ms = 0
        self._awake_ms = self._awake_since_ms = 0
        self._again = None  # the payload that repeats a result
        self.held_end = 0  # those that are held, and go out first, are before this number
        self._reported = 0  # how many of a report's readings are in its answer, or None

    def read(self):
        told, self._told = self._told, self.ignored
        return None if told == self.ignored else self.ignored

    # --- Start ---

    def choose(self, settings, load):
        """Returns the settings to start with: on trial, or adopted. load: callable, path."""
        doing = self.note.doing
        if not doing or doing[0] not in ("adopt", "trial"):
            return settings
        from station import trial

        try:
            return trial.choose(self.note, settings, load)
        except OSError:  # the filesystem is full
            self.note.doing = None
            self.work = _STUCK
            return settings
        finally:
            unload("station.trial")

    def parts(self, station):
        """Returns (session class without a collector, subclass of `station`, more options of any
        session): room for the longest command; one that cannot be taken now stays at the server."""
        from outpost.subscribing import SubscribingSession
        from station.commanded_station import over

        rx_bytes = len(self.topic) + 4 + _COMMAND_BYTES
        return SubscribingSession, over(station), {"rx_bytes": rx_bytes, "unacknowledged": 16}

    def take_back(self, error):
        """True when the settings are on trial: the next start has the old ones."""
        return self._fail("they do not start: " + str(error)) if self._is_trial() else False

    def attach(self, station, settings):
        """Subscribe, and finish what a reset or a power cut interrupted. Raises ValueError."""
        session = station.client.session
        if session.outbox.renumbers:
            raise ValueError("settings: key 'commands' needs another 'when_full'")
        self.station, self._client, self._settings = station, station.client, settings
        station.commands = self
        session.on_message = self._on_message
        session.subscribe(self.topic, 1)
        self._entry = session.filters[-1]
        self._since_ms = self._heard_ms = self._board.ticks_ms()
        try:
            self._recover(session.outbox)
        except OSError:  # the filesystem is full: the board still measures
            self.work = _STUCK

    def _recover(self, outbox):
        pending, doing = self.note.pending, self.note.doing
        if pending:
            if pending[5] != outbox.stream.decode():  # formatted since: numbers of another stream
                self._answer(*pending[:5])
            elif outbox.next_seq == pending[6]:
                self.work |= _OWES
                self.settle()
            else:
                self.note.pending = None
        elif self._is_trial():
            self.limit_ms = doing[3] * 1000
            self.work |= _TRIAL
        elif doing:
            from station import held_first

            self._answer(doing[1], *held_first.ended(doing))

    def _is_trial(self):
        return bool(self.note.doing) and self.note.doing[0] == "trial"

    # --- Taking a command ---

    def _on_message(self, session):
        """Its return acknowledges the command, so all that must survive is in flash by then."""
        if not session.is_on(self.topic):
            return
        self._heard_ms = self._board.ticks_ms()
        if session.first & 1:  # retained: it comes with each SUBSCRIBE
            self.ignored += 1
            return
        if self.work & _TRIAL:
            self._adopt()  # a command has arrived, so the trial is passed
        if self.work & (_RESTART | _OWES | _STUCK | _TRIAL | _DRAIN):
            raise NotNow
        at = session.payload_at
        data = bytes(session.buffer[at : at + session.payload_length])
        try:
            self._take(data, session.first & 8)
        except Exception:
            self.note.load()  # RAM again has what flash has
            if self.note.pending or self.note.doing:
                self._restart_soon()  # the next start finishes it
            raise

    def _take(self, data, is_repeat):
        command, fault = parse(data)
        if command is None:
            self.ignored += 1
            return
        command_id, content = command["id"], crc_of(data)
        result = self.note.find(command_id, content)
        if result >= 0:
            if not is_repeat:  # sent again by the sender, not by the server
                self._tell_again(command_id, result)
            return
        self.note.add(command_id, content, _IN_PROGRESS)
        self.note.pending = None
        what = command.get("do")
        what = what if isinstance(what, str) and what in KNOWN else ""
        if result < -1:
            fault = "this id was another command's"
        elif not fault:
            clock = self.station.clock
            clock.now(self._board.ticks_ms())
            fault = too_late(command, clock) or getattr(self, "_" + what)(command_id, command)
        if fault:
            self._answer(command_id, what, _REFUSED_COMMAND, fault)

    # Each returns "" or why it is refused.

    def _report(self, command_id, command):
        self._answer(command_id, "report", _DONE)

    def _restart(self, command_id, command):
        """Any reset counts as the restart. The next start answers."""
        self.note.doing = ["restart", command_id]
        self.note.save()
        self._restart_soon()

    def _stay_awake(self, command_id, command):
        if not self._settings["deep_sleep"]:
            return "this board does not sleep"
        self._answer(command_id, "stay_awake", _DONE, "", command["minutes"])

    def _set(self, command_id, command):
        old = read(SETTINGS_PATH) or b""
        given, wanted = json.loads(old), command["settings"]
        for key, value in wanted.items():
            if key in _FIXED:
                return "key '" + key + "' is set by cable alone"
            if value is None:
                given.pop(key, None)
            else:
                given[key] = value
        fault = settings_fault(given)
        if fault:
            return fault
        replace(TRIAL_PATH, json.dumps(given).encode())
        if list(wanted) == ["interval_ms"] and wanted["interval_ms"] is not None:
            self.note.doing = ["adopt", command_id, crc_of(old)]
            self.station.interval_ms = self._settings["interval_ms"] = given["interval_ms"]
            return self._adopt()
        held, within_s = command.get("held"), command.get("within_s", _WITHIN_S)
        self.note.doing = ["drain" if held else "trial", command_id, crc_of(old), within_s, 0]
        self.note.save()
        self._restart_soon()
        if held:
            from station import held_first

            held_first.begin(self, held)

    def _update(self, command_id, command) -> "Anything":
        return "this board takes no updates: its settings have no 'update_key'"

    # --- Answers ---

    def _answer(self, command_id, what, result, why="", minutes=0):
        """The note stores which number the answer will have, so that a start can find out whether
        it was stored."""
        self.station.close_record()  # an open one has the next number
        outbox = self._client.session.outbox
        self.note.doing = None
        self.note.pending = [
            command_id, what, result, plain(why)[:_MOST_WHY], minutes,
            outbox.stream.decode(), outbox.next_seq,
        ]  # fmt: skip
        self.note.set_result(command_id, result)
        self.note.save()
        self.work |= _OWES
        self._since_ms = self._board.ticks_ms()  # ticks of a week ago are of no use
        self.settle()

    def settle(self):
        """Store the answer. False: it still waits for room."""
        pending, station = self.note.pending, self.station
        if pending[1] == "stay_awake" and not pending[2]:
            self._awake_ms = pending[4] * _MINUTE_MS
            self._awake_since_ms = self._board.ticks_ms()
        outbox, values = self._client.session.outbox, None
        if pending[1] == "report" and not pending[2]:
            values = [sensor.read() for sensor in station.sensors]
        station.sample_seq = -1
        length = self._encode(pending, values)
        held = outbox.oldest_seq
        outbox.reserve(len(station.topic) + length)
        if outbox.oldest_seq != held:  # making room dropped old messages: say so in this one
            length = self._encode(pending, values)
        station.status = station.client.publish(station.topic, station.pack.buffer, length=length)
        if station.status != _OK:
            return False
        station.published += 1
        station.publish_later(values, self._reported)
        self.note.pending = None
        self.work &= ~_OWES
        self._board.published(station)
        return True

    def _encode(self, pending, values):
        station = self.station
        pack = station.pack
        station.clock.now(self._board.ticks_ms())
        pack.begin(self._client.session.outbox, station.clock)
        head = ',"n":"command","v":%d,"cmd":"%s","what":"%s"' % (pending[2], pending[0], pending[1])
        room = len(pack.buffer) - pack.length - len(head) - len(',"why":""}]')
        pack.put_record(
            head + (',"why":"' + pending[3][: max(room, 0)] + '"' if pending[3] else "")
        )
        self._reported = station.add_report(values or ())
        return pack.end()

    def _tell_again(self, command_id, result):
        """Bypasses the outbox, because the answer itself is stored once. One at a time waits."""
        self._again = ('{"cmd":"%s","v":%d,"again":1}' % (command_id, result)).encode()
        self.work |= _REPEAT

    # --- The loop ---

    def step(self, now_ms):
        """Do what `work` requires. Ends in board.restart() when a reset is due."""
        if self.work & _OWES and elapsed_ms(now_ms, self._since_ms) >= _RETRY_MS:
            self._since_ms = now_ms
            self.settle()
        if self.work & _REPEAT:
            again = self._again or b""
            if self._client.publish(self._answer_topic, again, 0) != _BUSY:
                self.work &= ~_REPEAT
        if self.work & (_DRAIN | _TRIAL):
            self._try(now_ms)
        if self.work & _RESTART and elapsed_ms(now_ms, self._since_ms) >= _RESTART_MS:
            self._client.close()
            self._board.restart()

    def _try(self, now_ms):
        if self.work & _DRAIN:
            from station import held_first

            held_first.step(self, now_ms)
        elif self.is_granted():
            self._adopt()
        elif elapsed_ms(now_ms, self._since_ms) >= self.limit_ms:
            self._fail("no connection within %d s" % (self.limit_ms // 1000))
            self._restart_soon(_RESTART_MS)

    def is_granted(self):
        """True when the server accepts this board, and its subscription to commands."""
        return self._client.is_connected() and 0 <= self._entry[2] <= _GRANTED

    def _restart_soon(self, earlier_ms=0):
        self._since_ms = self._board.ticks_ms() - earlier_ms
        self.work |= _RESTART

    def _adopt(self):
        """Replace the old settings by those that were tried, or that need no trial."""
        from station import trial

        trial.adopt(self.note)
        unload("station.trial")
        self.work &= ~_TRIAL
        self._answer(self.note.doing[1], "set", _DONE)

    def _fail(self, why):
        from station import trial

        trial.fail(self.note, why)
        unload("station.trial")
        self.work &= ~_TRIAL
        return True

    # --- Sleep ---

    @property
    def is_trial(self):
        return bool(self.work & _TRIAL)

    def listen(self, until):
        """Before a sleep, while connected: take the commands kept by the server, and stay awake as
        long as requested. until: callable, polls until its argument is true or the wake is over."""
        until(self._has_heard)
        while self.work & (_TRIAL | _RESTART | _DRAIN) or self._is_awake():
            self._turn()
        while self.station.publish_rest():  # of a report, or of the last turn
            self._board.published(self.station)
        self.station.close_record()
        until(self._client.is_drained)

    def _has_heard(self):
        now_ms = self._board.ticks_ms()
        if self.work:
            self.step(now_ms)
        if not self._client.is_connected() or self._entry[2] < 0:
            self._heard_ms = now_ms
        return elapsed_ms(now_ms, self._heard_ms) >= _QUIET_MS

    def _is_awake(self):
        waited_ms = elapsed_ms(self._board.ticks_ms(), self._awake_since_ms)
        return waited_ms < self._awake_ms and not self._board.stopping()

    def _turn(self):
        """One pass of the loop, as on a board that does not sleep."""
        station, board = self.station, self._board
        board.feed_watchdog()
        now_ms = board.ticks_ms()
        board.keep_time(station.clock, now_ms)
        if station.step(now_ms):
            board.published(station)
        if not self._client.poll(now_ms):
            board.idle(self._client)

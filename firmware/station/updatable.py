"""Commands of a board whose firmware can be updated over MQTT. The files arrive in addition to
commands, and `update` starts their trial, as `set` does for settings. Loaded only when `update_key`
is set. UPDATE_FORMAT.md has the messages, `update_start.py` the argument for each cut.

Allocation: as commands.py; while files arrive, also that of update_take.py.
"""

import binascii
import os

from micropython import const

from outpost.memory import unload
from outpost.ticks import elapsed_ms
from station.commands import Commands
from station.passing import of_start

_DONE = const(0)
_REFUSED_COMMAND = const(1)
_TAKEN_BACK = const(2)
_OWES = const(1)  # work: as in commands.py
_TRIAL = const(2)
_RESTART = const(4)
_REPEAT = const(8)
_STUCK = const(16)
_TIDY = const(32)  # the folder of a decided update is removed, a file per pass
_WITHIN_S = const(300)
_RETRY_MS = const(1000)
_MARK = const(b"update ")
_FOLDER = const("update")  # as in update_start.py


class UpdatableCommands(Commands):
    """See Commands."""

    def __init__(self, board, base, settings):
        Commands.__init__(self, board, base)
        self._key = binascii.unhexlify(settings["update_key"])
        self._device = settings["device_id"]
        self._taking = None  # while an update arrives
        self._tried_ms = -1  # ticks at which the flash refused to store the passed trial

    # --- Start ---

    def _recover(self, outbox):
        kind, name, rest = of_start("read_phase")
        if kind == "trial" and not self._is_update():  # the note was lost
            self.note.doing, self.note.pending = ["update", name, _WITHIN_S], None
        if self.note.pending or not self._is_update():
            Commands._recover(self, outbox)
        else:
            self._go_on(kind, rest, *self.note.doing[1:])
        if kind in ("kept", "failed"):
            self.work |= _TIDY

    def _go_on(self, kind, rest, command_id, within_s):
        if kind == "trial":
            self.limit_ms = within_s * 1000
            self.work |= _TRIAL
        elif kind == "failed":
            self._refuse_again()
            self._answer(command_id, "update", _TAKEN_BACK, rest)
        elif kind == "kept":
            self._answer(command_id, "update", _DONE)
        elif kind:  # files, back: the start could not move them; the next one tries again
            self.work |= _STUCK
        elif of_start("there", _FOLDER + "/plan"):  # the power was cut between note and phase
            self._begin(command_id, within_s)
        else:
            self._answer(command_id, "update", _REFUSED_COMMAND, "its files are gone")

    def _refuse_again(self):
        from station import update_record

        update_record.refuse_again()
        unload("station.update_record")

    def _is_update(self):
        return bool(self.note.doing) and self.note.doing[0] == "update"

    def _is_trial(self):
        if self._is_update():
            return of_start("read_phase")[0] == "trial"
        return Commands._is_trial(self)

    # --- Messages ---

    def _on_message(self, session):
        """A part of an update that cannot be taken now is acknowledged, because its sender asks
        what is missing, and because it must not take the place of a command."""
        if self.work & (_RESTART | _OWES | _STUCK | _TRIAL) and session.is_on(self.topic):
            at = session.payload_at
            if bytes(session.buffer[at : at + len(_MARK)]) == _MARK:
                return
        Commands._on_message(self, session)

    def _take(self, data, is_repeat):
        if not data.startswith(_MARK):
            return Commands._take(self, data, is_repeat)
        if self.work & _TIDY or not self._key:
            return  # the sender asks again
        try:
            answer = self._taken().take(data)
        except (ValueError, IndexError):
            self.ignored += 1
            return
        if answer:
            self._again = answer
            self.work |= _REPEAT

    def _taken(self):
        if self._taking is None:
            from station.update_take import Taking

            self._taking = Taking(self._key, self._device, self._board.feed_watchdog)
        return self._taking

    def _update(self, command_id, command):
        if self.work & _TIDY:
            return "another update is being tidied up"
        if not self._key:
            return Commands._update(self, command_id, command)
        try:
            fault = self._taken().plan(command["of"])
        except OSError as error:
            return "flash: " + str(error)
        if fault is None:
            self._taking = None
            unload("station.update_take")
            unload("station.update_record")
            self._answer(command_id, "update", _DONE, "nothing to change")
        elif not fault:
            within_s = command.get("within_s", _WITHIN_S)
            self.note.doing = ["update", command_id, within_s]
            self.note.save()
            self._begin(command_id, within_s)
        return fault

    def _begin(self, command_id, within_s):
        of_start("write_phase", "files", command_id, str(within_s))
        self._restart_soon()

    # --- The loop ---

    def step(self, now_ms):
        Commands.step(self, now_ms)
        if self.work & _TIDY and not self.work & (_OWES | _RESTART):
            self._tidy()

    def _tidy(self):
        """Remove the phase last: until then each start does the same again, also when the flash
        refuses."""
        names = [name for name in of_start("own_names") if name != "phase"]
        if not names:
            self._remove_empty_folders()
        try:
            os.remove(_FOLDER + "/" + (names[0] if names else "phase"))
            if not names:
                self.work &= ~_TIDY
                os.rmdir(_FOLDER)
        except OSError:  # of rmdir: a file of the user's is in it
            self.work &= ~_TIDY

    def _remove_empty_folders(self):
        from station import update_record

        try:
            update_record.library_folders(True)
        except OSError:  # empty, it harms nobody
            pass
        unload("station.update_record")

    def _adopt(self):
        if not self._is_update():
            return Commands._adopt(self)
        now_ms = self._board.ticks_ms()
        if self._tried_ms >= 0 and elapsed_ms(now_ms, self._tried_ms) < _RETRY_MS:
            return
        command_id = self.note.doing[1]
        try:
            of_start("write_phase", "kept", command_id)
        except OSError:  # still on trial; try again in a second
            self._tried_ms = now_ms
            return
        self.work = self.work & ~_TRIAL | _TIDY
        self._answer(command_id, "update", _DONE)

    def _fail(self, why):
        if not self._is_update():
            return Commands._fail(self, why)
        of_start("give_up", why)
        self.work &= ~_TRIAL
        return True

"""Commands of a board whose firmware can be updated over MQTT. The files arrive in addition to
commands, and `update` starts their trial, as `set` does for settings. Loaded only when `update_key`
is set. UPDATES.md beside this file has the argument for each cut.

Allocation: as commands.py; while files arrive, also that of update_take.py.
"""

import binascii
import os

from micropython import const

from station.commands import Commands
from station.update_start import FOLDER, PLAN_PATH, read_phase, there, write_phase

_DONE = const(0)
_REFUSED_COMMAND = const(1)
_TAKEN_BACK = const(2)
_OWES = const(1)  # work: as in commands.py
_TRIAL = const(2)
_RESTART = const(4)
_REPEAT = const(8)
_TIDY = const(32)  # the folder of an update that is decided goes, a file at each turn
_WITHIN_S = const(300)
_MARK = b"update "


class UpdatableCommands(Commands):
    """See Commands."""

    def __init__(self, board, base, settings):
        Commands.__init__(self, board, base)
        self._key = binascii.unhexlify(settings["update_key"])
        self._device = settings["device_id"]
        self._taking = None  # while an update arrives

    # --- Start ---

    def _recover(self, outbox):
        kind, name, rest = read_phase()
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
            self._answer(command_id, "update", _TAKEN_BACK, rest)
        elif kind == "kept":
            self._answer(command_id, "update", _DONE)
        elif there(PLAN_PATH):  # the power was cut between note and phase
            self._begin(command_id, within_s)
        else:
            self._answer(command_id, "update", _REFUSED_COMMAND, "its files are gone")

    def _is_update(self):
        return bool(self.note.doing) and self.note.doing[0] == "update"

    def _is_trial(self):
        if self._is_update():
            return read_phase()[0] == "trial"
        return Commands._is_trial(self)

    # --- Messages ---

    def _take(self, data, is_repeat):
        if not data.startswith(_MARK):
            return Commands._take(self, data, is_repeat)
        if self.work & _TRIAL:
            self._adopt()  # what arrives here has passed the trial
        if self.work & _TIDY:
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
        fault = self._taken().plan(command["of"])
        if fault is None:
            self._answer(command_id, "update", _DONE, "nothing to change")
        elif not fault:
            within_s = command.get("within_s", _WITHIN_S)
            self.note.doing = ["update", command_id, within_s]
            self.note.save()
            self._begin(command_id, within_s)
        return fault

    def _begin(self, command_id, within_s):
        write_phase("files", command_id, str(within_s))
        self._restart_soon()

    # --- The loop ---

    def step(self, now_ms):
        Commands.step(self, now_ms)
        if self.work & _TIDY and not self.work & (_OWES | _RESTART):
            self._tidy()

    def _tidy(self):
        """The phase goes last: until then a start does the same again."""
        names = [name for name in os.listdir(FOLDER) if name != "phase"]
        os.remove(FOLDER + "/" + (names[0] if names else "phase"))
        if not names:
            os.rmdir(FOLDER)
            self.work &= ~_TIDY

    def _adopt(self):
        if not self._is_update():
            return Commands._adopt(self)
        command_id = self.note.doing[1]
        write_phase("kept", command_id)
        self.work = self.work & ~_TRIAL | _TIDY
        self._answer(command_id, "update", _DONE)

    def _fail(self, why):
        if not self._is_update():
            return Commands._fail(self, why)
        write_phase("back", self.note.doing[1], why)
        self.work &= ~_TRIAL
        return True

"""The steps of an update: look, transfer the files, put them on trial, report."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from outpost_tools.boards.port import kinds
from outpost_tools.boards.port.progress import Progress
from outpost_tools.boards.send import wording
from outpost_tools.boards.send.delivery import Answer as Result
from outpost_tools.boards.send.delivery import Delivery
from outpost_tools.boards.send.line import Access
from outpost_tools.boards.settings.settings_file import Settings
from outpost_tools.boards.update import contents, image
from outpost_tools.boards.update.transfer import Answer, NoAnswer, Refused, Transfer
from outpost_tools.errors import ToolError
from outpost_tools.machine import source_tree
from outpost_tools.machine.firmware import firmware_version
from outpost_tools.messages import name_rules

_RESTARTS_S = 60  # for the trial's two restarts, in addition to the time to connect


@dataclass
class Course:
    """The update of one board. kind: the path of the user's own board folder; None: the kind that
    the board reports."""

    access: Access
    settings: Settings
    kind: str | None
    timeout_s: float
    within_s: int
    progress: Progress
    is_flat: bool = False  # all modules of the library in one folder
    _rooms: int = field(default=-1, init=False)  # number that the board reports

    @property
    def device(self) -> str:
        return self.settings.full["device_id"]

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.settings.full["update_key"])

    def look(self) -> tuple[int, str]:
        """Return the exit status, and what an update would send. Raises ToolError."""
        transfer, made = self._bring(is_dry=True)
        size = sum(len(made.contents[number].data) for number in transfer.needed)
        names = "".join(f"\n    {made.contents[number].path}" for number in transfer.needed)
        return 0, (
            f"would take {len(transfer.needed)} of {len(made.contents)} files, {size:,} bytes; "
            f"nothing was changed{names}"
        )

    def run(self) -> tuple[int, str]:
        """Return the exit status and the result. Raises ToolError."""
        _, made = self._bring()
        self.progress.note(f"all files are there; on trial, at most {self.within_s} s")
        result = self._put_on_trial(made.tag)
        return (1 if result.result else 0), str(result)

    def _bring(self, *, is_dry: bool = False) -> tuple[Transfer, image.Image]:
        """Transfer the files. If a board without rooms lacks the flash for them, it gets the flat
        layout. Raises ToolError."""
        self.progress.note("asking the board what it has")
        with self.progress.bar("sending", "B") as show:
            transfer = Transfer(self.access, self.device, self.key, self.timeout_s, show)
            try:
                return transfer, transfer.run(self._image_for, is_dry=is_dry)
            except Refused as error:
                if "blocks of flash" not in str(error) or self.is_flat or self._rooms:
                    raise
        self.is_flat = True
        return self._bring(is_dry=is_dry)

    def _image_for(self, answer: Answer) -> image.Image:
        """Recreate the list that the board has, if that list is still right, so that files which
        arrived for it need not be sent again. A new list is always dated after the last update,
        even if the clock here is slow. Raises ToolError."""
        root = source_tree.repository()
        if not answer.board:
            raise ToolError(f"{self.device}: was not installed by `outpost flash`; do that once")
        if not name_rules.is_device(answer.board):
            raise ToolError(
                f"{self.device}: says that it is a {answer.board!r}, which is not a board's name"
            )
        kind = kinds.load(root, self.kind or answer.board)
        if kind.name != answer.board:
            raise ToolError(f"{self.device}: is a {answer.board}, and --board is a {kind.name}")
        architecture = contents.architecture_of(self.device, answer.mpy)
        self.progress.note(f"a {kind.name} with {answer.version}; compiling for {architecture}")
        self._rooms = answer.rooms
        layouts = [self.is_flat or answer.rooms < 0, True][: 1 if answer.rooms else 2]
        made = [contents.collect(root, kind, architecture, self.settings, is_flat=one)
                for one in dict.fromkeys(layouts)]  # fmt: skip

        def signed(files: list[image.Content], made_s: int) -> image.Image:
            return image.make(
                files, self.key, device=self.device,
                board=answer.board, version=firmware_version(), made_s=made_s,
                form=min(answer.form, image.FORM),
            )  # fmt: skip

        for files in made:
            known = signed(files, answer.made_s)
            if known.tag == answer.tag:
                return known
        return signed(made[0], max(int(time.time()), answer.installed_s + 1))

    def _put_on_trial(self, tag: str) -> Result:
        command_id = wording.new_id()
        limit_s = self.timeout_s + self.within_s + _RESTARTS_S
        command = {
            "id": command_id, "do": "update", "of": tag, "within_s": self.within_s,
            "until": int(time.time() + limit_s),  # we do not wait longer than that
        }  # fmt: skip
        payload = json.dumps(command, separators=(",", ":")).encode()
        delivery = Delivery(self.access, {self.device: (command_id, payload)})
        delivery.run(limit_s, is_waiting=True, tell=lambda _name, _answer: None)
        if self.device not in delivery.answers:
            raise NoAnswer(f"on trial, but no answer within {limit_s:g} s; ask again later")
        return delivery.answers[self.device]

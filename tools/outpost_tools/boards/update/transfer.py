"""Transfers an image to a board: asks what it has, sends what it lacks, asks again.

Only the board's answers count, not the broker's acknowledgements: a broker that was killed, or
whose queue was full, may have lost messages, and the answer to the next question shows this. What
arrived in an earlier try stays on the board; the list recreated for it is identical byte for byte.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outpost_tools.boards.send.line import Access, Line
from outpost_tools.boards.update.image import NO_TAG, Image, missing, question, sign
from outpost_tools.errors import ToolError

_MESSAGES_AT_ONCE = 200  # between questions; mosquitto queues 1,000 for a board that is away
_FIRST_REPEAT_S = 5.0  # of a question; doubled up to the longest
_LONGEST_REPEAT_S = 60.0
_MOST_ASKED = 1 << 29  # fits a small integer on a board
_MOST_ROUNDS = 20  # of sending without progress
_NOTHING_ARRIVES = f"sent {_MOST_ROUNDS} times, and nothing arrives; does the broker drop messages?"


class Refused(ToolError):
    """The board refuses the update."""


class NoAnswer(ToolError):
    """The board did not answer in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a board reports about itself and about an update. mpy: `sys.implementation._mpy`.
    installed_s: when its last update was made. tag, made_s: of the list that the board has; tag is
    "" if it has none. need: "list", or the files that it needs, for missing(). why: the reason why
    it refuses, or "". rooms: the number of folders inside its library, which a list may name; -1:
    its firmware is from before these folders. form: the form of list that it accepts."""

    board: str
    version: str
    mpy: int
    installed_s: int
    tag: str
    made_s: int
    need: str
    why: str
    rooms: int = -1
    form: int = 1


def answer_in(payload: bytes, key: bytes, tag: str, asked: int) -> Answer | None:
    """Return the answer in a message on a board's answer topic, or None for any other message.
    Raises Refused if the answer is signed with another key, because it decides what we sign
    next."""
    text, _, signature = payload.partition(b"\n")
    try:
        found: dict[str, Any] = json.loads(text)
        if found["asked"] != asked or found["update"] != (tag or NO_TAG):
            return None
        answer = Answer(
            str(found["board"]), str(found["version"]), int(found["mpy"]),
            int(found["installed"]), str(found["list"]), int(found["made"]),
            str(found.get("need", "")), str(found.get("why", "")), int(found.get("rooms", -1)),
            int(found.get("form", 1)),
        )  # fmt: skip
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not hmac.compare_digest(sign(key, text).encode(), signature):
        raise Refused(
            "refused: the answer is not signed with the update_key of these settings; does the "
            "board have them?"
        )
    return answer


class Transfer:
    """The transfer to one board. timeout_s: how long to wait for an answer. show: called with the
    bytes that have arrived, and the bytes in all."""

    def __init__(
        self,
        access: Access,
        device: str,
        key: bytes,
        timeout_s: float,
        show: Callable[[int, int], None],
    ) -> None:
        self._device, self._timeout_s, self._show = device, timeout_s, show
        self.needed: list[int] = []  # files that the board did not have
        self._key, self._tag = key, ""
        self._asked = secrets.randbelow(_MOST_ASKED)  # so that an old answer does not match
        self._question = b""
        self._answer: Answer | None = None
        self._line = Line(access, [device], self._repeat, self._on_message)

    def run(self, image_for: Callable[[Answer], Image], *, is_dry: bool = False) -> Image:
        """Return when the board has the whole image (is_dry: when `needed` is known). image_for:
        returns the image for a board that gave this answer. Raises ToolError, including Refused and
        NoAnswer."""
        self._line.open()
        try:
            answer = self._ask("")
            image = image_for(answer)
            if is_dry and answer.tag not in ("", image.tag):
                raise Refused("another update is in progress there, which this would discard")
            self._bring(image, is_dry)
            return image
        finally:
            self._line.close()

    def _bring(self, image: Image, is_dry: bool) -> None:
        best, rounds, is_first = (1, 0), 0, True
        while rounds < _MOST_ROUNDS:
            numbers = self._missing(image)
            if numbers is None:
                messages, state = list(image.list_messages()), (1, 0)
            else:
                if is_first:
                    self.needed, is_first = numbers, False
                if is_dry or not numbers:
                    return
                left = sum(len(image.contents[number].data) for number in numbers)
                total = sum(len(image.contents[number].data) for number in self.needed)
                self._show(max(total - left, 0), total)
                messages = [one for number in numbers for one in image.file_messages(number)]
                messages, state = messages[:_MESSAGES_AT_ONCE], (0, left)
            rounds = 0 if state < best else rounds + 1
            best = min(best, state)
            self._send(messages)
        raise NoAnswer(_NOTHING_ARRIVES)

    def _missing(self, image: Image) -> list[int] | None:
        """Return the numbers of the files that the board lacks, or None if it lacks the list
        itself. Raises NoAnswer or Refused."""
        need = self._ask(image.tag).need
        if need == "list":
            return None
        try:
            numbers = missing(need)
        except ValueError:
            raise Refused(f"refused: it asks for {need!r}, which is not valid") from None
        return [number for number in numbers if number < len(image.contents)]

    def _send(self, messages: list[bytes]) -> None:
        sent = {self._line.publish(self._device, message) for message in messages}
        until = time.monotonic() + self._timeout_s
        while not sent <= self._line.acknowledged and time.monotonic() < until:
            self._line.turn()

    def _ask(self, tag: str) -> Answer:
        """Ask what the board has. Raises NoAnswer if no answer comes in time, Refused if the board
        refuses."""
        self._asked += 1
        self._answer, self._tag = None, tag
        self._question = question(tag, self._asked)
        repeat_s, until = _FIRST_REPEAT_S, time.monotonic() + self._timeout_s
        repeat_at = time.monotonic() + repeat_s
        self._repeat()
        while self._answer is None:
            now = time.monotonic()
            if now >= until:
                raise NoAnswer(
                    f"no answer within {self._timeout_s:g} s. Is it on, with commands and "
                    "update_key in its settings? A sleeping board answers at its next connection: "
                    "--timeout 3600"
                )
            if now >= repeat_at:
                repeat_s = min(2 * repeat_s, _LONGEST_REPEAT_S)
                repeat_at = now + repeat_s
                self._repeat()
            self._line.turn()
        if self._answer.why and tag:
            raise Refused(f"refused: {self._answer.why}")
        return self._answer

    def _repeat(self) -> None:
        """Send the question again if it is unanswered. Also called after each connection."""
        if self._question and self._answer is None and self._line.connected:
            self._line.publish(self._device, self._question)

    def _on_message(self, _board: str, message) -> None:
        if not message.retain and self._answer is None:
            self._answer = answer_in(message.payload, self._key, self._tag, self._asked)

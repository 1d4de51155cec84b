"""Other people's messages for the republisher, read by a mapping (sources/).

Law: a source with `home_assistant = true` has its devices in Home Assistant already, by an
integration of its own. Their values are on the plain topics like all others, and are not announced
to Home Assistant, which would show each of them twice. (Its own statestream, announced, would also
bring forth new entities without end.) What was announced before the file had the key stays until
`outpost republish --retire`.

A retained message is the last known value, and makes nothing current. A word that a device is
offline does what a board's will does: its values are no longer current until a new one comes.
Copies do no harm, because only the newest value counts. Nothing below our own prefix is read here.

Bounded: bounds.Names refuses new names beyond the limits of the file, and there are at most
MOST_DEVICES, fewer than newest.MOST_BOARDS, so a flood leaves room for boards.
"""

from __future__ import annotations

from outpost_tools.messages.reasons import Reasons
from outpost_tools.readings.sources.as_board import as_board
from outpost_tools.readings.sources.belongs import is_foreign
from outpost_tools.readings.sources.bounds import DEVICES, Names
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.idents import ident
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.readings.sources.result import Ignored, Message, Refused, State
from outpost_tools.servers.republish.newest import MOST_BOARDS, Newest

MOST_DEVICES = MOST_BOARDS // 2


class Others:
    """refused: how many messages were not read, by reason, since this was last cleared."""

    def __init__(self, mapping: Mapping, prefix: str) -> None:
        limits = mapping.limits
        self.refused = Reasons()
        self._mapping, self._own = mapping, f"{prefix}/"
        self._names = Names(min(limits.devices, DEVICES), limits.metrics)
        self._in_home_assistant = {one.name for one in mapping.sources if one.given.home_assistant}
        self._devices: set[str] = set()

    @property
    def filters(self) -> list[str]:
        """The topic filters to subscribe to."""
        return self._mapping.topics

    def has(self, topic: str, payload: bytes) -> bool:
        is_ours = topic.startswith(self._own)
        return not is_ours and is_foreign(self._mapping, topic.encode(), payload)

    def hear(
        self, newest: Newest, topic: str, payload: bytes, now: float, *, is_retained: bool
    ) -> None:
        found = decode(self._mapping, topic.encode(), payload, int(now * 1000), is_retained)
        if isinstance(found, State):
            if not found.is_online:
                newest.heard_offline(ident(found.device))
        elif isinstance(found, Refused):
            self.refused.note(found.reason, found.source)
        elif not isinstance(found, Ignored) and not found.is_last_known and self._fits(found):
            newest.take_other(
                as_board(found, now), now, is_described=found.source not in self._in_home_assistant
            )

    def _fits(self, found: Message) -> bool:
        reason = self._names.refusal(found)
        if not reason and found.device not in self._devices:
            if len(self._devices) >= MOST_DEVICES:
                reason = f"a new device, and there are {MOST_DEVICES} already"
            else:
                self._devices.add(found.device)
        if reason:
            self.refused.note(reason, found.source)
        return not reason

    def said(self) -> str:
        """What was refused since the last call, in words; "" if nothing was."""
        if not self.refused:
            return ""
        first = ", ".join(f"{reason} ({count})" for reason, count in self.refused.most_common(5))
        self.refused.clear()
        return f"--sources: not read: {first}"

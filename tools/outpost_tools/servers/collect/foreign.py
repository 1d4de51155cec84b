"""Other people's messages in the collector: which topics, and which copies are dropped.

The frames hold topic and bytes as they came. Nothing is decoded here, and nothing is confirmed: a
payload that looks like a message of one of our boards is not stored under another topic, because a
later start would read its key from the log and confirm numbers that no board has sent
(readings/sources/belongs.py).

**Copies.** A broker sends a message again with DUP if it does not know that we acknowledged it. The
law: a message is dropped if it has DUP, and identifier, topic and bytes equal those of the last
message stored under that identifier. DUP alone says nothing: it is also set if the first attempt
never reached us. What is not told apart: a copy, and a new message with the same identifier, topic
and bytes whose first attempt was lost. What was taken counts as stored: nothing is acknowledged
before all that was taken earlier is durable, and if this process ends before, a start knows only
what is durable.

The log keeps the identifiers over a restart (log.py), so that after a kill each message is in the
log once. Where they are is up to the kind of log: identifiers.py, store_log.py; these name their
exceptions, after which a copy may be stored. The tables recognise it if it has an identifier or a
time of its own. If the broker has lost our session, its identifiers mean nothing and are forgotten.

The file `foreign.filters` in the log's folder keeps the topic filters, so that the next start
unsubscribes from what the mapping no longer has: the session at the broker would remember it.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.packets import DUP
from outpost_tools.readings.sources import topics
from outpost_tools.readings.sources.belongs import has_key
from outpost_tools.servers.collect.identifiers import digest
from outpost_tools.servers.collect.log import Log

if TYPE_CHECKING:
    from outpost_tools.readings.sources.mapping import Mapping

_TOPICS_REMEMBERED = 100_000
_FILTERS = "foreign.filters"
_NO_IDS = (b"", bytes(2))


class Foreign:
    """mapping: None: there is none any more, and earlier filters are left. prefix: our boards'
    topics, which no mapping can take. copies, imitations: how many were dropped."""

    def __init__(self, mapping: Mapping | None, prefix: str, log: Log) -> None:
        """Raises ToolError if the mapping wants our boards' topics; OSError."""
        self._log, self._own = log, f"{prefix}/".encode()
        self._ignored = [] if mapping is None else mapping.ignored
        self._wanted = [] if mapping is None else [topics.parse(one) for one in mapping.topics]
        _check(mapping, prefix)
        self.filters = [one.filter for one in self._wanted]
        self._noted = self._filters_before()
        self.left = [one for one in self._noted if one not in self.filters]
        self._known: dict[bytes, bool] = {}
        # packet identifier -> hash of the last message taken
        self._taken = log.identifiers() if self.filters or self.left else {}
        self.copies = self.imitations = 0

    # --- What to store ---

    def takes(self, topic: bytes) -> bool:
        """Whether messages on this topic are stored: what the mapping subscribes to, but for its
        `ignore` and for our own topics."""
        found = self._known.get(topic)
        if found is None:
            if len(self._known) >= _TOPICS_REMEMBERED:
                self._known.clear()
            found = self._known[topic] = self._decide(topic)
        return found

    def _decide(self, topic: bytes) -> bool:
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return False
        is_wanted = any(one.match(text) is not None for one in self._wanted)
        is_ignored = any(one.match(text) is not None for one in self._ignored)
        return is_wanted and not is_ignored and not topic.startswith(self._own)

    def take(self, kind: int, topic: bytes, packet_id: bytes, payload: bytes) -> bytes | None:
        """The hash of a message, which must now be stored; b"" if it has no identifier, because
        QoS 0 is never sent again. None: it must not be stored."""
        if has_key(topic, payload):
            self.imitations += 1
            return None
        if packet_id in _NO_IDS:
            return b""
        found = digest(topic, payload)
        if kind & DUP and self._taken.get(packet_id) == found:
            self.copies += 1
            return None
        self._taken[packet_id] = found
        return found

    def forget(self) -> None:
        """The broker has no session of ours: its identifiers begin again."""
        if self._taken:
            self._taken.clear()
            self._log.forget_identifiers()

    def note(self, filters: list[str]) -> None:
        """The broker may have these filters in our session, and no others. Call it before
        SUBSCRIBE, with those that are left, and without them after UNSUBACK."""
        if filters == self._noted:
            return
        with contextlib.suppress(OSError):
            self._log.folder.put(_FILTERS, json.dumps(filters).encode())
            self._noted = filters

    def _filters_before(self) -> list[str]:
        try:
            found = json.loads(self._log.folder.get(_FILTERS))
        except (FileNotFoundError, ValueError):
            return []
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _check(mapping: Mapping | None, prefix: str) -> None:
    """Raises ToolError if a source reads nothing but our boards' topics."""
    for one in mapping.readers if mapping is not None else []:
        if one.pattern.text.startswith(f"{prefix}/"):
            raise ToolError(
                f"--sources: {one.name!r}: topics below {prefix}/ are those of Outpost's boards, "
                "which are read without a mapping; give another topic, or another --prefix"
            )

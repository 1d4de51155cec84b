"""Why messages could not be read, counted. Pure."""

from __future__ import annotations

from collections import Counter

MOST = 20
OTHERS = "other reasons"


class Reasons(Counter[str]):
    """How many messages were refused, by reason. A reason may have a text of the sender's in it, so
    there are at most MOST, and OTHERS."""

    def note(self, reason: str, source: str = "") -> None:
        """source: of other people's messages, "" if none has the topic."""
        reason = f"{source}: {reason}" if source else reason
        self[reason if reason in self or len(self) < MOST else OTHERS] += 1

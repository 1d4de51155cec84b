"""The part of an outbox that messages are set aside with: what they are kept on is loaded with the
first of them, and unloaded after the last.

Must not know why they are set aside, or where the shelf is: RAM (`ram_shelf.py`), flash
(`shelf.py`). Allocation: the import, and what a shelf does.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import unload

_FULL = const(-1)
_EMPTY = const(-7)


class SettingAside:
    """A base of every outbox."""

    lent = ()

    def __init__(self):
        self.aside = 0  # messages on the shelf
        self._shelf = None

    def set_aside(self, seq: int) -> int:
        """Copy held message seq to the shelf, durably where the outbox is; it stays held. OK; FULL:
        no room there, no block that could be lent, or no memory; EMPTY, BUSY, STORAGE."""
        return self._shelf.put(seq) if self._open_shelf() else _FULL

    def is_aside(self, seq: int) -> bool:
        return self.aside > 0 and self._shelf.has(seq)

    def load_aside(self, index: int) -> int:
        """As load(), message `index` of the shelf, 0 to aside - 1; loaded_seq is -1. OK, EMPTY."""
        return self._shelf.load(index) if self.aside else _EMPTY

    def release_aside(self, index: int) -> int:
        """Message `index` leaves the shelf, durably. OK, EMPTY, BUSY, STORAGE."""
        if not self.aside:
            return _EMPTY
        status = self._shelf.release(index)
        self._close_shelf()
        return status

    def tidy_shelf(self) -> None:
        """Give back the blocks that a power cut left lent, if nothing is on them."""
        if not self.aside and self._open_shelf():
            self._shelf.tidy()
            self._close_shelf()

    def _close_shelf(self):
        if not self.aside:
            self._shelf = None
            unload(self._shelf_module)

    def _open_shelf(self):
        """False: there is no memory for it now."""
        try:
            if not self._shelf:
                self._shelf = self._new_shelf()
        except (ImportError, MemoryError):
            self.aside = 0
        return self._shelf is not None

"""A folder that behaves as a bucket at fault: it refuses, is slow, loses its answer after the work,
or does the work after its client is gone.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from outpost_tools.store.base import Store, StoreError
from outpost_tools.store.local import LocalStore


@dataclass
class Faults:
    """before, after: how many of the next calls fail before the work, or after it. gate: calls
    wait for it. late: creations that the service has accepted, and will do at land()."""

    before: int = 0
    after: int = 0
    slow_s: float = 0.0
    is_late: bool = False
    gate: threading.Event = field(default_factory=threading.Event)
    late: list = field(default_factory=list)
    created: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    def land(self) -> None:
        for store, name, data in self.late:
            LocalStore.create(store, name, data)
        self.late.clear()


@dataclass(frozen=True)
class FaultyFolder(LocalStore):
    faults: Faults = field(default_factory=Faults)

    def __truediv__(self, name: str) -> Store:
        return FaultyFolder(self.path / name, self.faults)

    @property
    def is_local(self) -> bool:
        return False

    def create(self, name: str, data: bytes) -> bool:
        faults = self.faults
        if name.startswith("segment-"):
            faults.gate.wait()
            time.sleep(faults.slow_s)
            faults.created.append(name)
            if faults.is_late:
                faults.late.append((self, name, data))
                raise StoreError(f"{self}/{name}: no answer")
        self._fail("before")
        done = super().create(name, data)
        self._fail("after")
        return done

    def put(self, name: str, data: bytes) -> None:
        self._fail("before")
        super().put(name, data)
        self._fail("after")

    def _fail(self, when: str) -> None:
        left = getattr(self.faults, when)
        if left:
            setattr(self.faults, when, left - 1)
            raise StoreError(f"{self}: failed {when} the work")

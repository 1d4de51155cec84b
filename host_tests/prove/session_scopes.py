"""What the explorer runs to a fixpoint: the limits of each scope, and what the server may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scope:
    """held: the most messages at a time. total: in one history; None: without a limit. inbound: the
    server's messages that are open at a time. cuts: power cuts in one history; None: any number.
    fails: flash may refuse a note.

    fine: the client continues after its packets have begun to be lost, otherwise that ends the
    connection; it may send before the 16 ms of a tick have passed, otherwise each step is a tick;
    its CONNECT may be lost. exact: a state includes what the code sets before it reads it.
    """

    name: str
    session: str = "ExactlyOnceSession"
    held: int = 3
    total: int | None = None
    window: int = 16
    qos: tuple[int, ...] = (1, 2)
    inbound: int = 0
    inbound_qos: tuple[int, ...] = (1, 2)
    level: int = 4
    clean: bool = False
    at_release: bool = False
    forgets: bool = True
    reorders: bool = True
    repeats: bool = True
    fails: bool = False
    fine: bool = False
    exact: bool = False
    cuts: int | None = None
    chip: bool = False
    first_seq: int = 0

    def options(self) -> dict[str, Any]:
        """Options of the session. There is no keep alive, because the end of the network is an
        action."""
        common = {"window": self.window, "keep_alive_s": 0, "level": self.level}
        if self.session == "DurableSession":
            common |= {"topic": b"w", "timeout_ms": 1000}
        return {**common, "clean": self.clean}


def _scopes() -> tuple[Scope, ...]:
    both = ((4, "3.1.1"), (3, "3.1"))
    found = []
    for level, name in both:
        found += [
            Scope(f"QoS 2 and 1 out, any history, MQTT {name}", held=1, level=level, fine=True),
            Scope(f"three messages out, MQTT {name}", total=3, level=level, forgets=False),
            Scope(f"two out, lost sessions, MQTT {name}", held=2, total=2, level=level),
            Scope(f"in and out, any history, MQTT {name}", held=1, inbound=1, level=level),
            Scope(f"two at a time in, any history, MQTT {name}", held=0, inbound=2, level=level),
        ]
    return (
        *found,
        Scope("nothing is folded", held=1, exact=True, forgets=False, fine=True),
        Scope("a server that hands on at PUBREL", held=1, at_release=True, fine=True),
        Scope("clean sessions", held=2, total=2, clean=True, inbound=1),
        Scope("flash refuses notes", held=1, inbound=1, fails=True),
        Scope("a window of two", held=3, total=3, window=2, forgets=False),
        Scope("packet identifiers wrap", held=3, total=3, first_seq=65_533, forgets=False),
        Scope("QoS 1 out, any history", session="Session", held=3, qos=(1,)),
        Scope("QoS 1 both ways, any history", "SubscribingSession", held=2, qos=(1,),
              inbound=2, inbound_qos=(1,)),
        Scope("collector mode, any history", "DurableSession", held=1, qos=(1,)),
        Scope("collector mode, two messages", "DurableSession", total=2, qos=(1,), forgets=False),
        Scope("the firmware's outbox on a chip", held=2, total=2, forgets=False, chip=True),
    )  # fmt: skip


SCOPES = _scopes()
# Together under a minute on a quiet core; they cover each kind of fault.
SHORT = (
    Scope("QoS 2 and 1 out, any history, MQTT 3.1.1", held=1, fine=True),
    Scope("QoS 2 and 1 out, any history, MQTT 3.1", held=1, level=3, fine=True),
    Scope("two messages out", held=2, total=2, forgets=False),
    Scope("one message out, lost sessions", held=1, total=1),
    Scope("in, any history", held=0, inbound=1, fine=True),
    Scope("QoS 1 out, any history", session="Session", held=2, qos=(1,)),
    Scope("collector mode", "DurableSession", held=1, qos=(1,)),
    Scope("the firmware's outbox on a chip", held=1, total=1, forgets=False, chip=True),
)
# These take hours.
LONG = (
    Scope("three messages out, lost sessions", total=3),
    Scope("QoS 2 and 1 out, two at a time, any history", held=2),
    Scope("QoS 2 and 1 out, three at a time, any history", held=3, forgets=False),
    Scope("in and out, two at a time each", held=2, total=2, inbound=2),
    Scope("collector mode, three messages", "DurableSession", total=3, qos=(1,), forgets=False),
)

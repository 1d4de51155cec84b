"""What kills a mutant of the sessions: small scopes of the explorer, then the unit tests.
`mutants.py` runs this.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

from mutant_changes import Mutant
from session_explorer import Explorer
from session_firmware import classes
from session_scopes import Scope

MODULES = (
    "session", "text", "ticks", "exactly_once", "subscribing", "durable",
)  # fmt: skip
TESTS = (
    "test_session", "test_ticks", "test_session_bounds", "test_session_base", "test_session_house",
    "test_session_reader", "test_subscribing", "test_subscribing_bounds", "test_durable",
    "test_durable_steps", "test_queued", "test_progress", "test_progress_day",
    "test_refused_filters", "test_level5_subscribing",
    "test_exactly_once", "test_exactly_once_state", "test_streaming", "test_in_flight",
    "test_connection_life", "test_suspects", "test_suspects_steps", "test_retry",
    "test_retry_steps", "test_client", "test_scripted_server", "test_conformance_client",
    "test_defects",
)  # fmt: skip

_HANG_S = 30  # seconds of CPU per scope
_MOST_STATES = 12_000
_ID_WRAPS = 131_069  # identifiers 65,535 and 1, and a number of more than 16 bits

_ONE = Scope("one out", held=1, total=1, forgets=False)
_QOS_2 = (
    _ONE,
    Scope("one in", held=0, inbound=1),
    replace(_ONE, name="one out, 3.1", level=3),
    Scope("one in, 3.1", held=0, inbound=1, level=3),
    Scope("clean", held=1, total=1, inbound=1, clean=True),
    Scope("one out, lost sessions", held=1, total=1),
    Scope("refused notes", held=1, total=1, fails=True, qos=(2,)),
    Scope("refused notes in", held=0, inbound=1, fails=True, inbound_qos=(2,)),
    Scope("two in", held=0, inbound=2, inbound_qos=(2,), forgets=False),
    Scope("two out, numbers wrap", held=2, total=2, first_seq=_ID_WRAPS, forgets=False),
)
_QOS_1 = (
    Scope("QoS 1 out", "Session", held=2, total=2, qos=(1,), forgets=False),
    Scope("QoS 1 out, window 1", "Session", held=3, total=3, window=1, qos=(1,), forgets=False),
    Scope("QoS 1 out, three", "Session", held=3, total=3, qos=(1,), first_seq=_ID_WRAPS),
    Scope("QoS 1 in", "SubscribingSession", held=1, total=1, qos=(1,), inbound=2, inbound_qos=(1,)),
)
SCOPES = {
    "exactly_once": _QOS_2,
    "session": (*_QOS_1, *_QOS_2),
    "subscribing": (_QOS_1[-1], *_QOS_2),
    "text": (*_QOS_1[:1], *_QOS_2[:2]),
    "ticks": (*_QOS_1[:1], *_QOS_2[:2]),
    "durable": (
        Scope("collector mode", "DurableSession", held=2, total=2, qos=(1,), forgets=False),
        Scope("collector mode, lost sessions", "DurableSession", held=1, total=1, qos=(1,)),
    ),
}


def _hangs(*_: Any) -> None:
    raise TimeoutError("hangs")


def killer(mutant: Mutant) -> str:
    """Returns the scope that kills it, and how; "": none."""
    signal.signal(signal.SIGVTALRM, _hangs)
    try:
        broken = classes({mutant.module: mutant.tree()})
        for scope in SCOPES[mutant.module]:
            signal.setitimer(signal.ITIMER_VIRTUAL, _HANG_S)
            result = Explorer(scope, broken).run(_MOST_STATES, 3600)
            if result.violation:
                return f"{scope.name}: {result.violation}"
    except Exception as error:  # whatever it is: the module is broken, and this shows it
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""

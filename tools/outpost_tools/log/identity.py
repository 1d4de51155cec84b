"""Which log this is: a number in a file of a collector's folder, drawn once.

Segment numbers alone do not say whose they are: a new disk begins at 0 again, and two fleets may
use one collector id. The pipeline notes the number in its tables (plan.py), so that a collector
with --confirm-tables knows whether the segments that they have are its own.

`since`: segments from this number on were written when the file was there already. Tables that
have one of them and did not note the number have read another log.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from outpost_tools.store.base import Store

NAME = "identity.json"


class Identity(NamedTuple):
    number: int
    since: int


def read(folder: Store) -> Identity | None:
    """None: the log has none, or none that can be read. Raises OSError."""
    try:
        said = json.loads(folder.get(NAME))
        return Identity(int(said["number"]), int(said["since"]))
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def ensure(folder: Store, since: int) -> Identity:
    """The log's identity, or a new one. Raises OSError."""
    return read(folder) or renew(folder, since)


def renew(folder: Store, since: int = 0) -> Identity:
    """A new one: from now on, this is another log. since 0: only new tables can be of it. Raises
    OSError."""
    made = Identity(1 + int.from_bytes(os.urandom(7), "big"), since)
    folder.put(NAME, json.dumps(made._asdict()).encode())
    return made

"""Whether a bucket can be trusted: of two that create one file, the second must be refused.

Some servers that speak S3 take the condition and ignore it. Two writers would then overwrite each
other's commits, and nobody would be told: so a bucket is asked before anything is stored there.
"""

from __future__ import annotations

import uuid

from outpost_tools.errors import ToolError
from outpost_tools.store.base import Store

FOLDER = ".outpost-probe"


def check(store: Store) -> None:
    """Creates a file, tries to create it again, reads it and deletes it. Raises ToolError where the
    second is not refused or the file reads differently, and StoreError."""
    if store.is_local:
        return
    place, name = store / FOLDER, uuid.uuid4().hex
    is_first = place.create(name, b"first")
    try:
        is_second = place.create(name, b"second")
        said = place.get(name)
    finally:
        place.delete([name])
    if not is_first or is_second or said != b"first":
        raise ToolError(
            f"{store}: this server creates a file that exists already, though told not to, so two "
            "writers would lose each other's commits; use one with conditional writes"
        )

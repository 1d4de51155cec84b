"""From what a user wrote to a Store: a path, or a URL whose scheme is known."""

from __future__ import annotations

import os
import re
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.store.base import Store
from outpost_tools.store.local import LocalStore

# Those that both obstore and Delta know. Not s3a: Delta reads it, Hadoop's clients write it in
# other ways.
SCHEMES = ("s3", "gs", "az", "abfs", "abfss")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//?)([^/]*)/?(.*)", re.DOTALL)
_UNSAFE = re.compile(r"[%#?\\\x00-\x1f]")  # Delta takes an address, obstore a name
_HAS_USER = {"abfs", "abfss"}  # container@account.host


Place = Store | Path | str


def at(place: Place) -> Store:
    """Raises ToolError for a URL of an unknown scheme, without a bucket, or with a folder that
    Delta would read differently."""
    if isinstance(place, Store):
        return place
    text = os.fspath(place)
    found = _URL.fullmatch(text)
    if found is None:
        return LocalStore(Path(text))
    scheme, slashes, bucket, prefix = found.groups()
    if scheme.lower() not in SCHEMES:
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise ToolError(f"{text}: not a place that Outpost can store in; give a path, or {known}")
    if slashes != "//" or not bucket or ("@" in bucket and scheme not in _HAS_USER):
        raise ToolError(f"{text}: write it as {scheme}://BUCKET/FOLDER, without user or password")
    if _UNSAFE.search(prefix):
        raise ToolError(f"{text}: not in the name of a folder: % # ? \\ (its readers differ)")
    return _objects(f"{scheme.lower()}://{bucket}", prefix)


def _objects(bucket: str, prefix: str) -> Store:
    from outpost_tools.machine import needs  # late: only a bucket needs packages

    needs.check("store")
    from outpost_tools.store.objects import ObjectStore

    return ObjectStore(bucket, "/".join(filter(None, prefix.split("/"))))


def argument(text: str) -> Store:
    """For argparse: at(), whose errors argparse would hide."""
    import argparse

    try:
        return at(text)
    except ToolError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

"""A bucket as Arrow reads it: its own filesystems, in C++.

One whose files are Python objects can abort the program at its end, when a thread of Arrow's lets
go of the last of them.
"""

from __future__ import annotations

import functools
import os
from typing import Any


@functools.cache
def of_bucket(bucket: str, prefix: str) -> Any:
    """The folder as a filesystem of pyarrow. bucket: its URL."""
    from pyarrow import fs  # late: the collector needs none

    scheme, _, name = bucket.partition("://")
    if scheme == "s3":
        found = fs.S3FileSystem(**_s3_settings())
    elif scheme == "gs":
        found = fs.GcsFileSystem()
    else:
        name, _, host = name.partition("@")
        account = host.partition(".")[0] or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        found = fs.AzureFileSystem(account, os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"))
    return fs.SubTreeFileSystem(f"{name}/{prefix}".rstrip("/"), found)


def _s3_settings() -> dict[str, Any]:
    """Of the environment, what Arrow does not look up by itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    found: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        scheme, _, host = endpoint.partition("://")
        found |= {"scheme": scheme, "endpoint_override": host.rstrip("/")}
    return found

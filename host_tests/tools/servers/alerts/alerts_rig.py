"""Receivers of alerts on loopback (HTTP by the standard library, SMTP by aiosmtpd), an alerts.toml,
and a clock that a test sets.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.smtp import SMTP, AuthResult

from outpost_tools.machine import children
from outpost_tools.servers.alerts.store import Store, path_beside

NOW_S = 1_795_000_000.0
WAIT_S = 120
USER, PASSWORD = "me", "open sesame"


class Clock:
    """Both of them: the one that people set, and the steady one."""

    def __init__(self):
        self.now_s, self.steady_s = NOW_S, 1000.0

    def now(self):
        return self.now_s

    def now_ms(self):
        return int(self.now_s * 1000)

    def steady(self):
        return self.steady_s

    def passes(self, seconds):
        self.now_s += seconds
        self.steady_s += seconds

    def is_set(self, by_s):
        self.now_s += by_s


class Hook:
    """A server of webhooks. answer(handler): what it does with a request; default: 200."""

    def __init__(self, *, answer=None, context=None, port=0):
        self.requests = []  # (path, headers, body)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append((self.path, dict(self.headers), body.decode()))
                if outer.answer is None:
                    self.status(200)
                else:
                    outer.answer(self)

            def status(self, code, **headers):
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.answer = answer
        self._server = ThreadingHTTPServer(("127.0.0.1", port or children.free_port()), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}/secret-path?key=hidden"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def documents(self):
        return [json.loads(body) for _, _, body in self.requests]

    def alerts(self):
        """(state, text) of all that came, in order."""
        return [(one["state"], one["text"]) for made in self.documents() for one in made["alerts"]]


class Mail:
    """aiosmtpd, a real SMTP server: TLS at once or by STARTTLS, one user. letters: what it took.
    refuse: an answer to each letter, in place of taking it."""

    def __init__(self, folder, *, security, name="server", refuse=""):
        self.letters, self.tries = [], []
        self._refuse = refuse
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        is_tls = security == "tls"
        self._loop = asyncio.new_event_loop()

        def factory():
            return SMTP(
                self, loop=self._loop, authenticator=self._authenticate, auth_required=True,
                auth_require_tls=not is_tls,  # it knows of no TLS that began before it
                tls_context=None if is_tls else context, require_starttls=not is_tls,
            )  # fmt: skip

        self.port = children.free_port()
        made = self._loop.create_server(
            factory, "127.0.0.1", self.port, ssl=context if is_tls else None
        )
        self._server = self._loop.run_until_complete(made)
        self._loop.set_exception_handler(lambda *_: None)  # clients that break off, as they should
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    async def _end(self):
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _authenticate(self, _server, _session, _envelope, _mechanism, data):
        self.tries.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=self.tries[-1] == (USER, PASSWORD), handled=False)

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802
        if self._refuse:
            return self._refuse
        self.letters.append(envelope)
        return "250 taken"


def secret(folder, name, text):
    path = folder / name
    path.touch(0o600)
    path.write_text(f"{text}\n")
    return path


def toml(folder, text):
    """The file alerts.toml with it."""
    path = folder / "alerts.toml"
    path.touch(0o600)
    path.write_text(text)
    return path


def stored(folder, settings, said=None, *, is_wanted=lambda _key: True):
    """The store of a folder, as after a start; close_store() lets another one have it."""
    say = print if said is None else said.append
    keys = [one.key for one in settings.channels]
    return Store(path_beside(folder / "alerts.toml"), keys, is_wanted, say)


def close_store(store):
    os.close(store._held)

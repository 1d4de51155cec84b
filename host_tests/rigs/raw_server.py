"""A server that knows no protocol: it answers whatever comes first, and closes."""

import contextlib
import socket
import threading
from contextlib import contextmanager

HOST = "127.0.0.1"


@contextmanager
def raw(answer, *, context=None, waits=True):
    """Its port. answer: bytes, or a function of what came; None: it keeps the connection, and says
    nothing. context: for TLS. waits: for something to come first."""
    listener = socket.create_server((HOST, 0))

    def talk(link):
        with contextlib.suppress(OSError), link:
            if context is not None:
                link = context.wrap_socket(link, server_side=True)
            if answer is None:
                while link.recv(1000):
                    pass
                return
            data = link.recv(1000) if waits else b""
            link.sendall(answer(data) if callable(answer) else answer)
            if not data or answer:
                link.settimeout(1)
                link.recv(1000)

    def run():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()

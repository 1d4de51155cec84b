"""The client's link on a desktop, from a board's settings: TCP (outpost/plain_link.py), with TLS if
the settings say so.

Knows no board and no flash, so that programs that need only the link (benchmarks) can use it.
"""

import sys

from host_clock import ticks_ms
from outpost.plain_link import connected, plain_link

_IS_MICROPYTHON = sys.implementation.name == "micropython"


def yes():
    return True


def open_link(settings, time_is_set=yes):
    """The callable with which the client opens its stream.

    time_is_set: callable, false while the dates of certificates cannot be checked. Raises
    ValueError: one line that names the key.
    """
    host, name = settings.get("broker_host"), settings.get("server_name")
    if not host:
        raise ValueError("settings: key 'broker_host' is missing; add it")
    port = settings.get("broker_port", 8883 if settings.get("tls") else 1883)

    def open_socket():
        return connected(host, port)

    if settings.get("tls"):
        return _secure(settings, name or host, open_socket, time_is_set)
    return plain_link(host, port)


def _secure(settings, name, open_socket, time_is_set):
    from support.tls_link import TlsLink, client_context

    if _IS_MICROPYTHON:
        context = client_context(settings)
    else:
        from cpython_tls import client_context as cpython_context

        context = cpython_context(settings)
    return TlsLink(open_socket, context, name, time_is_set, ticks_ms)

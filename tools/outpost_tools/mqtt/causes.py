"""Why an MQTT connection to an address fails, in words and with what to do, for all commands. Knows
sockets and TLS, but not its callers.

MQTT names no cause if the other end is not an MQTT server, or uses TLS and we do not. But whatever
answers can be recognised by its first bytes. If it sent none, we probe it with short connections: a
TLS handshake, a WebSocket upgrade, a plain CONNECT. None of them logs in.
"""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass

from outpost_tools.machine import exposure, interpreters

_LOOK_S = 2.0  # for each answer
_BYTES = 512
_CONNACK, _DISCONNECT = b"\x20", b"\xe0"  # first bytes
_ALERT = b"\x15\x03"  # a TLS record: alert, of any version
_UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
_GREETINGS = (
    (b"SSH-", "an SSH server"),
    (b"INFO {", "the port for NATS's own clients, not the one for MQTT (usually 1883)"),
    (b"220", "a mail or FTP server"),
    (b"RFB ", "a VNC server"),
    (b"AMQP", "an AMQP server"),
)


@dataclass(frozen=True, slots=True)
class Ways:
    """What to change, in the words of a command: to use TLS, to leave it out, to present a client
    certificate, to trust the server's certificate."""

    secure: str
    plain: str
    certificate: str
    authority: str


OPTIONS = Ways(
    "use --credentials, --ca-file or --tls", "leave --tls and --ca-file out",
    "give --cert and --key, or credentials of `outpost broker add`",
    "see --ca-file; if `outpost broker` made its certificate, use --credentials",
)  # fmt: skip
SETTINGS = Ways(
    "set 'tls' and 'ca_file', or use --credentials", "set tls = false",
    "set 'client_cert_file' and 'client_key_file'", "see 'ca_file' and 'server_name'",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """context: for TLS; None: we connect without TLS."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    ways: Ways = OPTIONS

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


def of_error(error: OSError, place: Place) -> str:
    """Why connect() failed with this error, and what to do."""
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens there: {_start(place)}, or correct the address"
    if isinstance(error, socket.gaierror):
        return "the name is not known: correct it, or give the address"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not verify ({error.verify_message}): {place.ways.authority}"
    if place.context is not None and _is_of_handshake(error):
        if found := _without_tls(place):
            return found
        if isinstance(error, ssl.SSLError) and _is_alert(error):
            return f"it refuses our TLS ({_reason(error)}): {place.ways.certificate}"
    if isinstance(error, TimeoutError):
        return "no answer: is that machine on, and no firewall in between?"
    return error.strerror or str(error)


def of_end(place: Place, began_with: bytes = b"", error: OSError | None = None) -> str:
    """Why no CONNACK came on a connection that was made; "" if probing finds no reason either.
    began_with: the bytes that came instead. error: the error that ended the stream."""
    if not began_with and not isinstance(error, ssl.SSLError) and place.context is not None:
        error = _alert_after(place)  # our write may have failed before we read the alert
    if isinstance(error, ssl.SSLError) and _is_alert(error):
        return f"it ends our TLS connection ({_reason(error)}): {place.ways.certificate}"
    if began_with[:1] in (_CONNACK, _DISCONNECT):
        return ""
    if not began_with and place.context is None and _speaks_tls(place.address):
        began_with = _ALERT
    if began_with.startswith(_ALERT):
        return f"it speaks TLS, and we do not: {place.ways.secure}"
    upgraded = b"" if began_with and not _is_http(began_with) else _upgrade(place)
    return _named(upgraded or began_with, place)


def look(place: Place) -> str:
    """What is wrong, seen from here, at an address that another machine could not use; "" if a
    broker answers as it should."""
    try:
        with socket.create_connection(place.address, timeout=_LOOK_S) as link:
            if place.context is not None:
                place.context.wrap_socket(link, server_hostname=place.host).close()
    except OSError as error:
        return of_error(error, place)
    answer = _answer(place, _connect())
    if answer[:1] == _CONNACK:
        return ""
    if place.context is not None:  # the other machine may have a client certificate, which we lack
        return _named(answer or _upgrade(place), place)
    return of_end(place, answer)


def unverified() -> ssl.SSLContext:
    """A context that accepts any server. Use it only for probing, where no secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _named(answer: bytes, place: Place) -> str:
    if answer.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101")):
        return (
            "it is the broker's WebSocket port, and we speak plain MQTT: use its MQTT port "
            f"(usually {8883 if place.context else 1883})"
        )
    if _is_http(answer):
        return (
            "an HTTP server answers there, no MQTT broker: correct the port (usually 1883, or 8883 "
            "with TLS)"
        )
    for greeting, name in _GREETINGS:
        if answer.startswith(greeting):
            return f"{name} answers there, no MQTT broker: correct the port"
    if answer:
        return f"what answers there is no MQTT broker (it sent {answer[:12]!r}): correct the port"
    return ""


def _without_tls(place: Place) -> str:
    """What answers without TLS at a place where the TLS handshake failed; "" if nothing does."""
    plain = Place(place.host, place.port, None, place.ways)
    answer = _answer(plain, _connect())
    if answer[:1] == _CONNACK:
        return f"it speaks MQTT without TLS: {place.ways.plain}, or use its TLS port (usually 8883)"
    return _named(_upgrade(plain) or answer, plain) if answer else ""


def _start(place: Place) -> str:
    """How to start the broker, with a command that exists on this machine."""
    if not exposure.is_loopback(place.host):
        return "is the broker running on that machine, and does it listen on more than localhost?"
    if place.context is not None:
        return (
            "start the broker (`outpost run HOME`, or mosquitto with the folder's mosquitto.conf)"
        )
    found = interpreters.find_mosquitto()
    if found is None:
        return f"start the broker (`outpost fetch mosquitto`, then mosquitto -p {place.port})"
    return f"start the broker ({' '.join(found)} -p {place.port})"


def _is_of_handshake(error: OSError) -> bool:
    return isinstance(error, ssl.SSLError | ConnectionError | TimeoutError)


def _is_alert(error: ssl.SSLError) -> bool:
    return "ALERT" in (error.reason or "")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _is_http(data: bytes) -> bool:
    return data.startswith(b"HTTP/")


def _speaks_tls(address: tuple[str, int]) -> bool:
    """True if a ServerHello or an alert of TLS comes back."""
    try:
        with (
            socket.create_connection(address, timeout=_LOOK_S) as link,
            unverified().wrap_socket(link, server_hostname=address[0]),
        ):
            return True
    except ssl.SSLError as error:
        return _is_alert(error)
    except (OSError, ValueError):
        return False


def _alert_after(place: Place) -> OSError | None:
    """The error of a TLS connection on which we send nothing; None if there is none. TLS 1.3
    refuses a client's certificate only after the handshake."""
    assert place.context is not None
    try:
        with (
            socket.create_connection(place.address, timeout=_LOOK_S) as link,
            place.context.wrap_socket(link, server_hostname=place.host) as secure,
        ):
            secure.recv(1)
    except OSError as error:
        return error
    return None


def _upgrade(place: Place) -> bytes:
    return _answer(place, _UPGRADE % place.host.encode("idna"))


def _answer(place: Place, question: bytes) -> bytes:
    """The first bytes that come back; empty after a timeout, at the end of the stream, or without a
    connection."""
    try:
        with socket.create_connection(place.address, timeout=_LOOK_S) as link:
            if place.context is None:
                link.sendall(question)
                return link.recv(_BYTES)
            with place.context.wrap_socket(link, server_hostname=place.host) as secure:
                secure.sendall(question)
                return secure.recv(_BYTES)
    except (OSError, ValueError):
        return b""


def _connect() -> bytes:
    """CONNECT of MQTT 3.1.1 for a clean session without a user."""
    name = b"outpost-look-" + os.urandom(4).hex().encode()
    body = b"\0\4MQTT\4\2\0\x0a" + len(name).to_bytes(2, "big") + name
    return bytes((0x10, len(body))) + body

"""TLS for the board's link: a stream to a server that has proved who it is, or none at all.

The proof is its certificate, with the host name.

A module of its own, so that boards without TLS do not pay. The context is built once, at set-up,
and serves every connection.

The handshake does not block either: each call of the link goes one step and returns None, until it
is done or the deadline has passed. MicroPython has no call for "handshake, but do not wait", and
mbedTLS goes on with one inside read and write; only a write shows when it is over, by taking
something. So the first byte of CONNECT, the same in every MQTT version, is what is written: nothing
leaves the board before the server is verified, and the stream leaves that byte out of its first
write. What takes time is arithmetic, which no deadline can cut: one step may last 1 to 3 s on a
board of 133 MHz (not measured here).

A write that gave None must be repeated with the same bytes (mbedTLS holds the encrypted record):
the client does so. Knows no socket, no file but the certificates, no clock. Allocation: connecting
only. What it costs: boards/README.md.
"""

from micropython import const

from outpost.session import elapsed_ms

_TIMED_OUT = const(-22)
_LINK_LOST = const(-23)
_TLS_UNTRUSTED = const(-30)
_TLS_EXPIRED = const(-31)
_TLS_REFUSED = const(-32)
_NO_TIME = const(-33)
# mbedTLS's numbers
_VERIFY_FAILED = const(-0x2700)
_FATAL_ALERT = const(-0x7780)
_CONNECTION_EOF = const(-0x7280)
# Error numbers: the server's alert may be lost when it closes while we write.
_EPIPE = const(32)
_ECONNRESET = const(104)
_CONNECT = b"\x10"


def client_context(settings):
    """What verifies the server, and shows the client's certificate if there is one.

    Raises ValueError: one line with the key.
    """
    import tls  # pyright: ignore[reportMissingImports] - not in the stubs of every port

    context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    context.verify_mode = tls.CERT_REQUIRED  # pyright: ignore - not in the stubs
    ca = read(settings, "ca_file")
    try:
        context.load_verify_locations(ca)
    except ValueError:
        raise _useless(settings, "ca_file")
    if settings.get("client_cert_file"):
        certificate, key = read(settings, "client_cert_file"), read(settings, "client_key_file")
        try:
            context.load_cert_chain(certificate, key)
        except ValueError as error:
            raise _useless(
                settings, "client_key_file" if "key" in error.args[0] else "client_cert_file"
            )
    if settings.get("alpn"):
        set_protocols = getattr(context, "set_alpn_protocols", None)  # 1.25 has none
        if not set_protocols:
            raise ValueError(
                "settings: key 'alpn': this MicroPython's TLS cannot send it; leave it out, and "
                "use a port of the broker's that needs none (8883)"
            )
        set_protocols([settings["alpn"]])
    return context


def read(settings, key):
    """The file that a key of the settings names (bytes). Raises ValueError."""
    name = settings.get(key) or ""
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError:
        fault = "' names '" + name + "', which cannot be read; put the file there"
        raise ValueError("settings: key '" + key + fault)


def _useless(settings, key):
    what = "key" if "key_" in key else "certificate"
    return ValueError(
        "settings: key '"
        + key
        + "' names '"
        + settings[key]
        + "', which is no "
        + what
        + "; make it DER, not PEM"
    )


def status_of(fault):
    """The status that an exception of the handshake stands for.

    mbedTLS's text has a line for each thing wrong.
    """
    reason = fault.args[0] if fault.args else _LINK_LOST
    if isinstance(reason, str):
        for line in reason.strip().split("\n"):
            if "validity" not in line:
                return _TLS_UNTRUSTED
        return _TLS_EXPIRED
    if reason == _VERIFY_FAILED:  # a build without the texts
        return _TLS_UNTRUSTED
    return (
        _TLS_REFUSED if reason in (_FATAL_ALERT, _CONNECTION_EOF, _EPIPE, _ECONNRESET) else reason
    )


class TlsLink:
    """The client's `link`: returns a stream, or None while the handshake lasts.

    Raises OSError(status or error number).

    open_socket: callable; returns a connected non-blocking socket or raises OSError. context: has
    wrap_socket(). time_is_set: callable, false as long as no certificate's dates can be judged.
    ticks_ms: callable.
    """

    def __init__(
        self, open_socket, context, server_name, time_is_set, ticks_ms, deadline_ms=10_000
    ):
        self._open_socket, self._context, self._server_name = open_socket, context, server_name
        self._time_is_set, self._ticks_ms, self._deadline_ms = time_is_set, ticks_ms, deadline_ms
        self._stream = None
        self._since_ms = 0

    def __call__(self):
        stream, self._stream = self._stream or self._begin(), None
        with stream:
            is_verified = stream.shake_hands()
            if (
                not is_verified
                and elapsed_ms(self._ticks_ms(), self._since_ms) >= self._deadline_ms
            ):
                raise OSError(_TIMED_OUT)
        if is_verified:
            return stream
        self._stream = stream
        return None

    def _begin(self):
        if not self._time_is_set():
            raise OSError(_NO_TIME)
        sock = self._open_socket()
        self._since_ms = self._ticks_ms()
        try:
            secure = self._context.wrap_socket(
                sock, server_hostname=self._server_name, do_handshake_on_connect=False
            )
        except OSError:  # no memory
            sock.close()
            raise
        return _Stream(secure, sock)


class _Stream:
    """The client's stream contract.

    After a handshake that failed, MicroPython's TLS socket no longer closes the one below it.
    """

    def __init__(self, secure, sock):
        self._secure, self._socket = secure, sock
        self._ahead = 0  # bytes of the first packet that are out already

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, traceback):
        """An exception closes the stream and leaves as OSError(status).

        Not `except ... as`: that makes the caller's frame longer than 11 words, so each turn of a
        handshake would allocate it.
        """
        if fault and isinstance(fault, (OSError, ValueError)):
            self.close()
            raise OSError(status_of(fault))

    def shake_hands(self):
        """One step. True when the server is verified."""
        self._ahead = self._secure.write(_CONNECT, 0, 1)
        return self._ahead

    def write(self, buf, offset, length):
        if self._ahead:
            self._ahead = 0
            return 1
        return self._secure.write(buf, offset, length)

    def readinto(self, buf):
        return self._secure.readinto(buf)

    def close(self):
        self._secure.close()
        self._socket.close()

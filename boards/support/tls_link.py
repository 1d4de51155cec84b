"""TLS for the board's link: a stream to a server whose identity is verified, or none at all.

Both the certificate and the host name in it are verified.

A separate module, so that boards without TLS do not load it. The context is built once, at set-up,
and serves every connection.

The handshake does not block either: each call of the link performs one step and returns None, until
the handshake is complete or the deadline has passed. MicroPython has no non-blocking call for the
handshake; mbedTLS continues it inside read and write, and only a write shows that it is complete,
by accepting a byte. So the link writes the first byte of CONNECT, the same in every MQTT version:
nothing leaves the board before the server is verified, and the stream omits that byte from its
first write. A deadline cannot interrupt the arithmetic: one step may take 1 to 3 s at 133 MHz (not
measured here).

A write that returned None must be repeated with the same bytes (mbedTLS holds the encrypted
record); the client does so. Knows no socket, no file but the certificates, no clock. Allocates when
it connects. For the cost, see boards/PORTING.md.
"""

from micropython import const

from outpost.ticks import elapsed_ms

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
# Error numbers: the server's alert may be lost if it closes while we write.
_EPIPE = const(32)
_ECONNRESET = const(104)
_CONNECT = const(b"\x10")


def client_context(settings):
    """The context that verifies the server, and sends the client's certificate if there is one.

    Raises ValueError: one line that names the key.
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
    """The contents (bytes) of the file that a settings key names. Raises ValueError."""
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
        + "', which is not a "
        + what
        + "; make it DER, not PEM"
    )


def status_of(fault):
    """The status for an exception of the handshake.

    mbedTLS's text has a line for each fault.
    """
    reason = fault.args[0] if fault.args else _LINK_LOST
    if isinstance(reason, str):
        for line in reason.strip().split("\n"):
            if "validity" not in line:
                return _TLS_UNTRUSTED
        return _TLS_EXPIRED
    if reason == _VERIFY_FAILED:  # a build without these texts
        return _TLS_UNTRUSTED
    return (
        _TLS_REFUSED if reason in (_FATAL_ALERT, _CONNECTION_EOF, _EPIPE, _ECONNRESET) else reason
    )


class TlsLink:
    """The client's `link`: returns a stream, or None during the handshake.

    Raises OSError(status or error number).

    open_socket: callable; returns a connected non-blocking socket or raises OSError. context: has
    wrap_socket(). time_is_set: callable; false while the dates of certificates cannot be checked.
    ticks_ms: callable.
    """

    def __init__(
        self, open_socket, context, server_name, time_is_set, ticks_ms, deadline_ms=10_000
    ):
        # a final dot is legal in a host's name, but not in SNI and certificates (RFC 6066)
        name = server_name[:-1] if server_name.endswith(".") else server_name
        self._open_socket, self._context, self._server_name = open_socket, context, name
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
        self._ahead = 0  # bytes of the first packet that are already sent

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, traceback):
        """An exception closes the stream and is raised again as OSError(status).

        Not `except ... as`: the caller's frame would exceed 11 words, and each step of a handshake
        would allocate it.
        """
        if fault and isinstance(fault, (OSError, ValueError)):
            self.close()
            raise OSError(status_of(fault))

    def shake_hands(self):
        """One step. True once the server is verified."""
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

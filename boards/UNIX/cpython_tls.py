# type: ignore - CPython only, and checked against MicroPython's stubs
"""TLS if CPython runs the board: its `ssl` behind those parts of the interface of MicroPython's
`tls` that `boards/support/tls_link.py` needs.

A CA certificate may be PEM or DER here; the client's certificate and key must be PEM, because
CPython reads no other form.
"""

import ssl

from support.tls_link import read

_DATES = (9, 10)  # OpenSSL's numbers for "not valid yet" and "expired"
_FATAL_ALERT = -0x7780  # mbedTLS's numbers
_CONNECTION_EOF = -0x7280


def client_context(settings):
    """Like client_context() of tls_link. Raises ValueError: one line that names the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
    ca = read(settings, "ca_file")
    try:
        context.load_verify_locations(cadata=ca.decode() if ca.startswith(b"-----") else ca)
    except (OSError, ValueError):
        raise ValueError(
            f"settings: key 'ca_file' names '{settings['ca_file']}', which is not a certificate"
        )
    if settings.get("client_cert_file"):
        try:
            context.load_cert_chain(settings["client_cert_file"], settings["client_key_file"])
        except OSError as error:
            raise ValueError(
                "settings: keys 'client_cert_file' and 'client_key_file' must name matching PEM "
                f"files under CPython; {error}"
            )
    if settings.get("alpn"):
        context.set_alpn_protocols([settings["alpn"]])
    return _Context(context)


class _Context:
    def __init__(self, context):
        self._context = context

    def wrap_socket(self, sock, server_hostname, do_handshake_on_connect):
        return _Socket(
            self._context.wrap_socket(
                sock, False, do_handshake_on_connect, server_hostname=server_hostname
            )
        )


class _Socket:
    """Performs the handshake inside write(), and raises the same faults as mbedTLS."""

    def __init__(self, secure):
        self._secure = secure
        self._is_verified = False

    def write(self, buf, offset, length):
        try:
            if not self._is_verified:
                self._secure.do_handshake()
                self._is_verified = True
            return self._secure.send(memoryview(buf)[offset : offset + length])
        except ssl.SSLError as error:
            return _nothing_or_raise(error)

    def readinto(self, buf):
        try:
            return self._secure.recv_into(buf)
        except ssl.SSLError as error:
            return _nothing_or_raise(error)

    def close(self):
        self._secure.close()


def _nothing_or_raise(error):
    if isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError)):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        raise ValueError("validity" if error.verify_code in _DATES else error.verify_message)
    raise OSError(_FATAL_ALERT if "ALERT" in (error.reason or "") else _CONNECTION_EOF)

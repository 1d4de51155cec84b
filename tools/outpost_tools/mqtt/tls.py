"""TLS for connections to a broker. It always verifies the certificate and the name."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError


class Context(ssl.SSLContext):
    """Removes a final dot from the host name: it is legal there, but not part of the name in the
    certificate and in SNI (RFC 6066, section 3). server_name: the name to verify, if it is not that
    of the host to which the socket connects."""

    server_name = ""

    def wrap_socket(self, *words: Any, **options: Any) -> ssl.SSLSocket:
        name = self.server_name or options.get("server_hostname") or ""
        return super().wrap_socket(*words, **{**options, "server_hostname": without_dot(name)})


def context(cafile: str | None = None, cadata: str | None = None) -> Context:
    """Without arguments, trusts the system's authorities. Raises OSError (ssl.SSLError is one),
    ValueError or TypeError.

    Not ssl.create_default_context(): since Python 3.13 it refuses a CA without key usage and
    certificates without an authority key identifier, which many recipes for a private CA produce.
    Boards accept them.
    """
    made = Context(ssl.PROTOCOL_TLS_CLIENT)
    if cafile or cadata is not None:
        made.load_verify_locations(cafile=cafile, cadata=cadata)
    else:
        made.load_default_certs()
    return made


def of_options(
    ca_file: Path | None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Always verifies certificate and host name. ca_file None: the system's authorities.

    Raises ToolError.
    """
    try:
        made = context(cafile=str(ca_file) if ca_file else None)
    except (OSError, ssl.SSLError) as error:
        raise ToolError(
            f"--ca-file {ca_file}: {error}; a file of PEM certificates is needed"
        ) from None
    if certificate is not None:
        try:
            made.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise ToolError(
                f"--cert {certificate}: {error}; a PEM certificate, and its key by --key, are "
                "needed"
            ) from None
    return made


def without_dot(name: str) -> str:
    return name.removesuffix(".")

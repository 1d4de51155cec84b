"""The user's own certificates, for `outpost broker init`: all three are checked before any is used,
because each credentials file, and so each board, gets the authority's certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from outpost_tools.errors import ToolError
from outpost_tools.mqtt import certificates as boards

_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


def read(authority: Path, certificate: Path, key: Path) -> tuple[str, str, str]:
    """Their texts, PEM. Raises ToolError if they do not belong together, or one is not what its
    option requires."""
    certificate_text, key_text = _text(certificate), _text(key)
    signer = _parsed(authority, _text(authority), boards.certificate)
    chain = _parsed(certificate, certificate_text, _chain)
    own_key = _parsed(key, key_text, boards.private_key)
    if not boards.belong_together(chain[0], own_key):
        raise ToolError(f"--key {key}: is not the key of --cert {certificate}; give its own")
    if not any(_is_by(signer, one) for one in chain):
        raise ToolError(
            f"--ca-file {authority}: has not signed --cert {certificate}; give the authority that "
            "did, and put intermediate certificates into the file of --cert"
        )
    # only the certificate: Python's TLS accepts no comment that is not ASCII
    return signer.public_bytes(Encoding.PEM).decode(), certificate_text, key_text


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ToolError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if "-----BEGIN" not in text:
        raise ToolError(f"{path}: not a PEM file; convert it with openssl")
    return text


def _parsed(path: Path, text: str, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(text.encode())
    except ValueError as error:
        raise ToolError(f"{path}: {str(error).removeprefix('which ')}") from None


def _chain(data: bytes) -> list[x509.Certificate]:
    """The broker's certificate, then those that lead to the authority. Raises ValueError."""
    parts = data.split(_CERTIFICATE)
    boards.certificate(_CERTIFICATE + parts[1] if len(parts) > 1 else data)
    return x509.load_pem_x509_certificates(data)


def _is_by(signer: x509.Certificate, one: x509.Certificate) -> bool:
    try:
        one.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return one == signer
    return True

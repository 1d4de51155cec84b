"""Reads certificates and keys in PEM or DER, and converts them to what boards accept: DER, one per
file, without a password.

Faults are raised as ValueError: what is wrong, then what to do. The text never quotes the file.
"""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_PEM = b"-----BEGIN"
_PEM_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


def certificate(data: bytes) -> x509.Certificate:
    """Read one certificate that has not expired. Raises ValueError."""
    try:
        if data.lstrip().startswith(_PEM) or _PEM_CERTIFICATE in data:
            found = _from_pem(data)
        else:
            found = x509.load_der_x509_certificate(data)
    except ValueError as error:
        if error.args and str(error.args[0]).startswith("which "):
            raise
        raise ValueError("which is not a certificate; give one in PEM or DER") from None
    if found.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
        raise ValueError(
            f"which expired on {found.not_valid_after_utc:%Y-%m-%d}; give a current one"
        )
    return found


def _from_pem(data: bytes) -> x509.Certificate:
    count = data.count(_PEM_CERTIFICATE)
    if not count and b"PRIVATE KEY-----" in data:
        raise ValueError("which holds a private key, not a certificate; give the certificate")
    if count > 1:
        raise ValueError(
            f"which holds {count} certificates, and a board takes one; keep the one that is needed"
        )
    return x509.load_pem_x509_certificate(data)


def private_key(data: bytes) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    """Read an RSA or EC key without a password. Raises ValueError."""
    is_pem = _PEM in data
    load = serialization.load_pem_private_key if is_pem else serialization.load_der_private_key
    try:
        key = load(data, None)
    except TypeError:  # how the library says that a password is needed
        raise ValueError(
            "which is encrypted, and a board cannot ask for its password; decrypt it: openssl pkey "
            "-in FILE -out PLAIN"
        ) from None
    except Exception:  # ValueError, or the library's own for an unknown algorithm
        if is_pem and b"PRIVATE KEY-----" not in data:
            raise ValueError("which holds no private key; give the key") from None
        raise ValueError(
            "which is not a private key; give one in PEM or DER, without a password"
        ) from None
    if not isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise ValueError(
            "which is neither an RSA nor an EC key, and boards know no others; make an EC key "
            "(P-256)"
        )
    return key


def der_of_certificate(found: x509.Certificate) -> bytes:
    return found.public_bytes(Encoding.DER)


def der_of_key(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def belong_together(
    found: x509.Certificate, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
) -> bool:
    return found.public_key() == key.public_key()

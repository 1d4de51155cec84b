"""Our own certificate authority, and the broker's certificate signed by it. Keys are EC P-256,
which every board's TLS supports; each board gets the authority's certificate.

The authority is valid for 20 years, because changing it means visiting every board. The broker's
certificate is valid for 10: `outpost broker init DIR --new-certificate` replaces it without that.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from outpost_tools.mqtt.tls import without_dot

_DAY = datetime.timedelta(days=1)
AUTHORITY_DAYS = 20 * 365
SERVER_DAYS = 10 * 365


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: str
    key: str


def authority() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Outpost broker authority")
    made = _builder(name, name, key, AUTHORITY_DAYS).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    made = made.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    return _pair(made.sign(key, hashes.SHA256()), key)


def server(signer: Pair, names: list[str]) -> Pair:
    """names: host names and addresses with which clients reach the broker, the main one first."""
    names = [without_dot(one) for one in names]
    parent = x509.load_pem_x509_certificate(signer.certificate.encode())
    parent_key = serialization.load_pem_private_key(signer.key.encode(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    made = _builder(_name(names[0][:64]), parent.subject, key, SERVER_DAYS)
    extensions = (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_general(one) for one in names]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(parent_key.public_key()), False),
    )
    for extension, critical in extensions:
        made = made.add_extension(extension, critical=critical)
    return _pair(made.sign(parent_key, hashes.SHA256()), key)


def _builder(subject, issuer, key, days: int) -> x509.CertificateBuilder:
    """Valid from yesterday, because a board's clock may be a little slow."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(**on: bool) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: on.get(name, False) for name in names})


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    kind = serialization.PrivateFormat.PKCS8
    return Pair(
        certificate.public_bytes(pem).decode(), key.private_bytes(pem, kind, plain).decode()
    )

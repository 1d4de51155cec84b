"""Certificates for test_tls.py, made with the `openssl` command in a temporary folder: a CA, good
and bad servers, a client.

They are valid from yesterday, because the clock of a machine under test may be slow, and
short-lived, because no one should trust them.
"""

from __future__ import annotations

import datetime
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = "DNS:localhost,IP:127.0.0.1"
_CONFIG = """\
[ca]
default_ca = here
[here]
dir = .
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def openssl() -> str | None:
    return shutil.which("openssl")


def made_or_skip(folder: Path) -> Path:
    """Returns the folder with all certificates. Skips the test without openssl."""
    if openssl() is None:
        pytest.skip("missing: the command openssl; on Debian: apt install openssl")
    make_all(folder)
    return folder


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [openssl() or "openssl", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr


def _time(days: float) -> str:
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)).strftime(
        "%y%m%d%H%M%SZ"
    )


def key(folder: Path, name: str) -> None:
    _run(
        folder,
        "genpkey",
        "-algorithm",
        "EC",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-out",
        f"{name}.key",
    )
    _run(folder, "pkey", "-in", f"{name}.key", "-outform", "DER", "-out", f"{name}.key.der")


def certificate(
    folder: Path, name: str, ca: str, *, names: str = NAMES, start: float = -1, end: float = 2
) -> None:
    """Makes name.pem, name.der, name.key and name.key.der, signed by `ca` (self-signed if that is
    its name). start, end: days from now.
    """
    key(folder, name)
    subject = name if name != "server" else "localhost"
    _run(
        folder,
        "req",
        "-new",
        "-key",
        f"{name}.key",
        "-subj",
        f"/CN={subject}",
        "-out",
        f"{name}.csr",
    )
    is_ca = names == ""
    extension = (
        "basicConstraints=critical,CA:TRUE"
        if is_ca
        else f"basicConstraints=CA:FALSE\nsubjectAltName={names}"
    )
    (folder / f"{name}.ext").write_text(extension + "\n")
    signer = (
        ["-selfsign", "-keyfile", f"{name}.key"]
        if ca == name
        else ["-cert", f"{ca}.pem", "-keyfile", f"{ca}.key"]
    )
    _run(
        folder, "ca", "-batch", "-config", "ca.cnf", "-rand_serial", "-notext", *signer,
        "-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext",
        "-startdate", _time(start), "-enddate", _time(end),
    )  # fmt: skip
    _run(folder, "x509", "-in", f"{name}.pem", "-outform", "DER", "-out", f"{name}.der")


def make_all(folder: Path) -> None:
    """Makes ca, other-ca; server, wrong-name, expired, not-yet, self-signed, unknown-ca; client,
    other-client.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.cnf").write_text(_CONFIG)
    (folder / "index.txt").write_text("")
    (folder / "index.txt.attr").write_text("unique_subject = no\n")
    certificate(folder, "ca", "ca", names="")
    certificate(folder, "other-ca", "other-ca", names="")
    certificate(folder, "server", "ca")
    certificate(folder, "wrong-name", "ca", names="DNS:broker.example")
    certificate(folder, "expired", "ca", start=-9, end=-1)
    certificate(folder, "not-yet", "ca", start=1, end=2)
    certificate(folder, "self-signed", "self-signed")
    certificate(folder, "unknown-ca", "other-ca")
    certificate(folder, "client", "ca", names="DNS:board")
    certificate(folder, "other-client", "other-ca", names="DNS:board")

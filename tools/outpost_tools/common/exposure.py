"""Who else can read a password: other users of this machine, or those on the way to the broker. It
says so, and goes on. Knows files and addresses, no network.
"""

from __future__ import annotations

import ipaddress
import stat
import sys
from pathlib import Path


def tell(warning: str) -> None:
    """On stderr, unless it is empty."""
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)


def to_readers(path: Path, option: str) -> str:
    """What to say of a file with secrets that others than its owner can read; "" when all is
    well, or it cannot be looked at."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    if not stat.S_ISREG(mode) or not mode & (stat.S_IRGRP | stat.S_IROTH):
        return ""
    return f"{option} {path}: others can read it, and it holds a password; chmod 600 {path}"


def is_loopback(host: str) -> bool:
    """Of an address, or `localhost`; another name may be anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def on_the_way(address: tuple[str, int], remedy: str) -> str:
    """What to say of a password that goes to this address without TLS; "" on loopback."""
    host = address[0]
    if is_loopback(host):
        return ""
    return (
        f"the password goes to {host}:{address[1]} in plain text, for all on the way to read; "
        f"{remedy}"
    )

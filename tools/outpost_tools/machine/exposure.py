"""Who else can read a password: other users of this machine, or machines on the way to the broker.
It only warns. Knows files and addresses, no network.
"""

from __future__ import annotations

import ipaddress
import stat
import sys
from pathlib import Path


def tell(warning: str) -> None:
    """Prints it on stderr, unless it is empty."""
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)


def to_readers(path: Path, option: str) -> str:
    """A warning if users other than its owner can read a file with secrets; "" if they cannot, or
    if that cannot be checked."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    if not stat.S_ISREG(mode) or not mode & (stat.S_IRGRP | stat.S_IROTH):
        return ""
    return f"{option} {path}: others can read it, and it holds a password; chmod 600 {path}"


def is_loopback(host: str) -> bool:
    """True for a loopback address and for `localhost`. Any other name may be on another machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def on_the_way(address: tuple[str, int], remedy: str) -> str:
    """A warning if a password goes to this address without TLS; "" on loopback."""
    host = address[0]
    if is_loopback(host):
        return ""
    return (
        f"the password goes to {host}:{address[1]} in plain text, so others on the network "
        f"can read it; {remedy}"
    )

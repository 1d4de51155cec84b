"""mosquitto of our own: TLS, a user and rights for each board, by what `outpost broker` makes."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

from outpost_tools.broker import making
from outpost_tools.broker.folder import Folder
from outpost_tools.common import exposure, interpreters
from outpost_tools.common.broker import broker_user
from outpost_tools.common.errors import ToolError
from outpost_tools.home.ports import Wanted

# An address of the documentation range: to connect a UDP socket sends nothing, and tells which
# address of ours goes outside.
_ELSEWHERE = ("192.0.2.1", 9)


def listener(path: Path, hosts: list[str], port: int | None) -> Wanted:
    """What mosquitto will listen on. Raises ToolError."""
    folder = Folder(path)
    wish = _wish(folder, hosts, port)
    about = folder.about() if folder.is_made else None
    host = wish.listen or (about.listen if about else "")
    return Wanted("the broker", "--port", host, port or (about.port if about else making.PORT))


class OwnBroker:
    """command: of mosquitto. notes: what is to be said about its address."""

    def __init__(self, path: Path, hosts: list[str], port: int | None) -> None:
        """Makes the folder, or brings it up to date. Raises ToolError."""
        found = interpreters.find_mosquitto()
        if found is None:
            raise ToolError(
                "mosquitto is not installed: `outpost fetch mosquitto` brings it (no root), or apt "
                "install mosquitto; with a broker of your own give --broker or --credentials"
            )
        self.folder = Folder(path)
        wish = _wish(self.folder, hosts, port)
        making.make(self.folder, wish)
        about = self.folder.about()
        self.address = f"{about.hosts[0]}:{about.port}"
        self.command = [*found, "-c", str(self.folder.configuration)]
        self.notes = [] if hosts else _notes(about.hosts)


def _wish(folder: Folder, hosts: list[str], port: int | None) -> making.Wish:
    hosts = hosts or (folder.about().hosts if folder.is_made else []) or _hosts()
    is_here = all(exposure.is_loopback(host) for host in hosts)
    return making.Wish(tuple(hosts), port, "127.0.0.1" if is_here else None, user=broker_user())


def _hosts() -> list[str]:
    """By which boards reach us: the address first, because few boards know a name of the house."""
    own = own_address()
    name = socket.gethostname()
    return list(dict.fromkeys([own or "127.0.0.1", name, f"{name}.local", "127.0.0.1"]))


def own_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return None
        return str(probe.getsockname()[0])


def _notes(hosts: list[str]) -> list[str]:
    own = own_address()
    if own is None or own in hosts or not _is_address(hosts[0]) or exposure.is_loopback(hosts[0]):
        return []
    return [
        f"this machine's address is {own} now, and boards were given {hosts[0]}: let the router "
        f"give it the old one again, or say --host {own} and provision the boards again"
    ]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

"""Our own mosquitto with TLS, and a user and rights for each board, as made by `outpost broker`."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

from outpost_tools.boards.broker import making
from outpost_tools.boards.broker.folder import Folder
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import broker_user
from outpost_tools.machine import exposure, interpreters
from outpost_tools.servers.home.ports import Wanted

# An address of the documentation range. Connecting a UDP socket sends nothing, but shows which of
# our addresses is used for traffic to the outside.
_ELSEWHERE = ("192.0.2.1", 9)


def listener(path: Path, hosts: list[str], port: int | None) -> Wanted:
    """Returns the address and port on which mosquitto will listen. Raises ToolError."""
    folder = Folder(path)
    wish = _wish(folder, hosts, port)
    about = folder.about() if folder.is_made else None
    host = wish.listen or (about.listen if about else "")
    return Wanted("the broker", "--port", host, port or (about.port if about else making.PORT))


class OwnBroker:
    """command: the command line of mosquitto. notes: lines to print about its address."""

    def __init__(self, path: Path, hosts: list[str], port: int | None) -> None:
        """Creates the folder, or updates it. Raises ToolError."""
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
    """The names by which boards reach us. The address comes first, because few boards can resolve
    the name of a machine in the home network."""
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
        f"assign the old one again, or give --host {own} and provision the boards again"
    ]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

"""The options of a command that serves a page: its address, who may see it, the names that it
answers to.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine import exposure
from outpost_tools.terminal.command_line import address, first_line

PAGE_PORT = 8180  # of the live page


def add_page(parser: argparse.ArgumentParser) -> None:
    """Adds options for the page's address, and for who may see it."""
    group = parser.add_argument_group("the page")
    group.add_argument(
        "--listen",
        type=address,
        default=("127.0.0.1", PAGE_PORT),
        metavar="HOST:PORT",
        help=f"default 127.0.0.1:{PAGE_PORT}; any address but this machine's needs --password-file",
    )
    group.add_argument("--user", default="outpost", help="with --password-file; default outpost")
    group.add_argument(
        "--password-file", metavar="FILE", type=Path, help="its first line is the password"
    )
    group.add_argument(
        "--cert", metavar="FILE", type=Path, help="certificate for HTTPS, with --key (PEM)"
    )
    group.add_argument("--key", metavar="FILE", type=Path, help="private key of --cert (PEM)")


def page_password(args: argparse.Namespace) -> str:
    """The page's password; "" if there is none. Raises ToolError."""
    if (args.cert is None) != (args.key is None):
        raise ToolError("--cert and --key go together")
    password = first_line(args.password_file, "--password-file") if args.password_file else ""
    host, port = args.listen
    if not password and not exposure.is_loopback(host):
        raise ToolError(
            f"--listen {host}:{port}: everybody on the network could read the values: give "
            "--password-file, or listen on 127.0.0.1"
        )
    if password and args.cert is None:
        exposure.tell(exposure.on_the_way(args.listen, "give --cert and --key for HTTPS"))
    return password


def add_http_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http-name",
        action="append",
        default=[],
        type=str.lower,
        metavar="NAME",
        help="answer HTTP that asks for this host name too, as a proxy may pass it on; may be "
        "repeated; default: only 127.0.0.1 and localhost",
    )

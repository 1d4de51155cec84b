"""The options with which a command reaches a broker, and what they mean: user, password, TLS,
topic prefix. Imports nothing heavy before an option is used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine import exposure
from outpost_tools.terminal.command_line import address, first_line


def add_login(group: argparse._ArgumentGroup) -> None:
    """Adds options for the user at a broker, and for verifying that it is the right broker."""
    group.add_argument("--user", help="user name at the broker")
    group.add_argument(
        "--password-file", metavar="FILE", type=Path, help="its first line is the password"
    )
    group.add_argument(
        "--tls", action="store_true", help="verify the broker with the system's authorities"
    )
    group.add_argument(
        "--ca-file",
        metavar="FILE",
        type=Path,
        help="verify the broker with these authorities (PEM); includes --tls",
    )


def add_operator(
    parser: argparse.ArgumentParser, *, is_required: bool = True
) -> argparse._ArgumentGroup:
    """Adds options for the broker, for commands that send to boards. Returns the group of options
    that go with --broker."""
    where = parser.add_mutually_exclusive_group(required=is_required)
    where.add_argument("--broker", metavar="HOST:PORT", type=address, help="address of the broker")
    where.add_argument(
        "--credentials",
        metavar="PATH",
        type=Path,
        help="the folder of `outpost broker init`, or an operator's file from it",
    )
    group = parser.add_argument_group("with --broker")
    add_login(group)
    return group


def check_topic(option: str, text: str) -> None:
    """Checks a topic prefix, because paho or the broker would refuse a wrong one at each
    connection. Raises ToolError."""
    from outpost_tools.messages import name_rules

    if not name_rules.is_topic(text):
        raise ToolError(
            f"{option} {text!r}: a topic without '+', '#' and empty levels is needed, and none of "
            "the broker's own, such as $SYS"
        )


def only_with_broker(args: argparse.Namespace, source: str, *more: str) -> None:
    """Refuses options of add_login(), and `more`, that `source` sets already. Raises ToolError."""
    names = ("user", "password_file", "tls", "ca_file", *more)
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]
    if given:
        raise ToolError(f"{', '.join(given)}: only with --broker, not with {source}")


def tls_of(args: argparse.Namespace):
    """The TLS context for the options of add_login(); None: plain TCP. Raises ToolError."""
    from outpost_tools.mqtt import tls

    return tls.of_options(args.ca_file) if args.tls or args.ca_file else None


def login(args: argparse.Namespace) -> tuple[str, str | None] | None:
    """User and password from the options of add_login(), for --broker; None: no user. Raises
    ToolError."""
    if args.user is None:
        if args.password_file is not None:
            raise ToolError("--password-file needs --user")
        return None
    if args.password_file is None:
        return args.user, None
    password = first_line(args.password_file, "--password-file")
    if not (args.tls or args.ca_file):
        exposure.tell(exposure.on_the_way(args.broker, "use --ca-file or --tls"))
    return args.user, password

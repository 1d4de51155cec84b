"""The parser of a subcommand, and the types of its arguments. Knows no subcommand.

A subcommand is one module, `JOB/arguments.py` (or `JOB/arguments/SUBCOMMAND.py` if the job has
several):

    SUMMARY = "one line for the list of subcommands"
    def add_parser(subparsers): ...    adds the parser with add_command() below
    def run(args) -> int: ...          checks the arguments, calls the job, returns the exit status

Such a module contains nothing that other modules need. It imports its job inside these functions,
because the help of `outpost` reads the summaries of all subcommands and must not wait for their
libraries.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path

from outpost_tools.common import exposure
from outpost_tools.common.errors import ToolError

PAGE_PORT = 8180  # of the live page
MOST = 10**9  # in seconds: a wait that every system call accepts; in bytes: the size of one file
Run = Callable[[argparse.Namespace], int]


def add_command(
    subparsers: argparse._SubParsersAction,
    name: str,
    summary: str,
    run: Run,
    *,
    description: str | None = None,
    examples: str | None = None,
) -> argparse.ArgumentParser:
    """The parser of `name`, which calls `run`.

    description: the text of --help; default: the summary.
    """
    parser = _added(subparsers, name, summary, description, examples)
    parser.set_defaults(func=run)
    return parser


def add_group(
    subparsers: argparse._SubParsersAction,
    name: str,
    summary: str,
    package: str,
    members: tuple[str, ...],
    *,
    description: str | None = None,
    examples: str | None = None,
) -> None:
    """The parser of `name`, with the modules `members` of `package` as its subcommands."""
    parser = _added(subparsers, name, summary, description, examples)
    inner = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    for member in members:
        importlib.import_module(f"{package}.{member}").add_parser(inner)


def _added(subparsers, name, summary, description, examples) -> argparse.ArgumentParser:
    return subparsers.add_parser(
        name,
        help=summary,
        description=description or f"{summary[0].upper()}{summary[1:]}.",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


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


# --- Types of arguments: each raises ArgumentTypeError, which argparse turns into exit status 2 ---


def address(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    is_port = port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536
    if not colon or not host or not is_port or not is_host(host):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _number(kind: type, is_good: Callable[[float], bool], wanted: str) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not is_good(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
        return value

    return convert


def positive(kind: type) -> Callable[[str], float]:
    return _number(kind, lambda value: 0 < value <= MOST, f"a number above 0, up to {MOST}")


def at_least(least: int) -> Callable[[str], float]:
    return _number(int, lambda value: value >= least, f"a whole number from {least} on")


def between(kind: type, least: float, most: float) -> Callable[[str], float]:
    wanted = "a whole number" if kind is int else "a number"
    return _number(
        kind, lambda value: least <= value <= most, f"{wanted} from {least:g} to {most:g}"
    )


def seconds(text: str) -> float:
    """A time to wait for a board: above 0, at most an hour."""
    return _number(
        float, lambda value: 0 < value <= 3600, "a number of seconds, above 0 and up to 3600"
    )(text)


# --- Checks of arguments: each raises ToolError ---


def is_host(text: str) -> bool:
    """Whether a resolver accepts the name or address. For "192.168.1..10" it would raise
    UnicodeError, which is not an OSError."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def check_topic(option: str, text: str) -> None:
    """Checks a topic prefix, because paho or the broker would refuse a wrong one at each
    connection. Raises ToolError."""
    from outpost_tools.common import name_rules

    if not name_rules.is_topic(text):
        raise ToolError(
            f"{option} {text!r}: a topic without '+', '#' and empty levels is needed, and none of "
            "the broker's own, such as $SYS"
        )


def first_line(path: Path, option: str) -> str:
    """The password in a file. Raises ToolError."""
    try:
        # utf-8-sig: otherwise the byte order mark of Windows editors would be part of the password
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{option} {path}: {error}") from None
    if not lines:
        raise ToolError(f"{option} {path} is empty; its first line is the password")
    exposure.tell(exposure.to_readers(path, option))
    return lines[0]


def only_with_broker(args: argparse.Namespace, source: str, *more: str) -> None:
    """Refuses options of add_login(), and `more`, that `source` sets already. Raises ToolError."""
    names = ("user", "password_file", "tls", "ca_file", *more)
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]
    if given:
        raise ToolError(f"{', '.join(given)}: only with --broker, not with {source}")


def tls_of(args: argparse.Namespace):
    """The TLS context for the options of add_login(); None: plain TCP. Raises ToolError."""
    from outpost_tools.common import tls

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

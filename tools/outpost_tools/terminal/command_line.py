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

from outpost_tools.errors import ToolError
from outpost_tools.machine import exposure

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

"""`outpost broker init`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from outpost_tools.boards.broker.arguments import options
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command, between

SUMMARY = "write mosquitto's configuration, certificates, users and rights to a folder"
_DESCRIPTION = """\
Write a folder with everything that a broker needs: mosquitto.conf (TLS on one port, nothing else),
a certificate authority and a certificate for the broker, users for one collector (collector-1), one
monitor (monitor-1) and the administrator, and their rights. Passwords are random. They are stored
in files that only their owner can read, and are never printed.

If you repeat the command, it keeps every password and key, and writes what changed: another --port
or --host (then the broker gets a new certificate; boards keep theirs), another --user or --plugin.
Restart mosquitto afterwards.
"""
_EXAMPLES = """\
examples:
  outpost broker init fleet --host broker.home --host 192.168.1.10
                                     clients use the first; both are in the certificate
  mosquitto -c fleet/server/mosquitto.conf
  outpost broker init fleet --host broker.example --ca-file ca.pem --cert broker.pem \\
                      --key broker.key            certificates of your own
  outpost broker init fleet --new-certificate     before the old one expires (10 years)

If you run this as root, mosquitto will run as --user, or as the user `mosquitto` if there is one,
and `server` in the folder will belong to that user. On another machine, the broker needs only the
folder `server`, at the same path.
"""
_PREFIX_HELP = "boards publish on PREFIX/<board>/data; default outpost"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "init", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_folder(parser)
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="name or address of the broker; may be repeated",
    )
    parser.add_argument(
        "--port", type=between(int, 1, 65535), metavar="PORT", help="TLS port; default 8883"
    )
    parser.add_argument(
        "--listen", metavar="ADDRESS", help="listen only on this address; default: on all"
    )
    parser.add_argument("--prefix", metavar="PREFIX", help=_PREFIX_HELP)
    parser.add_argument(
        "--user", metavar="USER", help="mosquitto runs as USER; default: you; for root `mosquitto`"
    )
    parser.add_argument(
        "--plugin", metavar="PATH", help="mosquitto_dynamic_security.so; default: search for it"
    )
    group = parser.add_argument_group("your own certificates (PEM), instead of a new authority")
    group.add_argument("--ca-file", metavar="FILE", type=Path, help="certificate of the authority")
    group.add_argument("--cert", metavar="FILE", type=Path, help="certificate of the broker")
    group.add_argument("--key", metavar="FILE", type=Path, help="key of the broker")
    parser.add_argument(
        "--new-certificate",
        action="store_true",
        help="a new certificate for the broker from the same authority",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.boards.broker import making
    from outpost_tools.boards.broker.folder import Folder

    given = [args.ca_file, args.cert, args.key]
    if any(given) and not all(given):
        raise ToolError("--ca-file, --cert and --key go together")
    _check(args)
    folder = Folder(args.folder)
    wish = making.Wish(
        tuple(args.host), args.port, args.listen, args.prefix, args.user, args.plugin,
        given=tuple(given) if all(given) else None, new_certificate=args.new_certificate,
    )  # fmt: skip
    done = making.make(folder, wish)
    print(*done or ["nothing to do: everything is as requested"], sep="\n")
    configuration, path = shlex.quote(str(folder.configuration)), shlex.quote(str(args.folder))
    print(f"next: {_mosquitto()} -c {configuration}; outpost broker add {path} BOARD")
    return 0


def _mosquitto() -> str:
    """As it can be typed: `outpost fetch` installs one outside PATH."""
    import shlex
    import shutil

    from outpost_tools.machine.interpreters import find_mosquitto

    found = find_mosquitto()
    return "mosquitto" if not found or shutil.which("mosquitto") else shlex.join(found)


def _check(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    from outpost_tools.boards.broker.about import is_name, is_word
    from outpost_tools.messages import name_rules

    for text in (*args.host, args.listen or "", args.user or "", args.plugin or ""):
        if not is_word(text):
            raise ToolError(f"{text!r}: printable ASCII without blanks is needed")
    if not all(map(is_name, args.host)):
        raise ToolError("--host: a name or an address is needed")
    if args.prefix is not None and (fault := name_rules.prefix_fault(args.prefix)):
        raise ToolError(f"--prefix {args.prefix!r} {fault}")

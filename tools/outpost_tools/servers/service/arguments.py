"""`outpost service`."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command, address, positive

SUMMARY = "write systemd units and a container recipe: `outpost run`, or collector and pipeline"
_DESCRIPTION = """\
Write files for a service manager, with the paths of this installation. The collector runs as a
service and the pipeline by a timer, both as the user "outpost" on a read-only system where they may
write only to /var/lib/outpost.
"""
_EXAMPLES = """\
examples:
  outpost service --out units --broker 127.0.0.1:1883
  outpost service --out units --credentials /etc/outpost/collector-1.json
                                              a file of `outpost broker`; the user "outpost" must
                                              be able to read it; in a container, mount it
  outpost service --out units --home          one service: `outpost run`
  outpost service --out units --home -- --host 192.168.1.10
                                              what follows "--" goes to `outpost run`
  outpost service --out units --broker broker.example:8883 -- --ca-file /etc/outpost/ca.pem \\
                  --user collector --password-file /etc/outpost/password.txt
                                              what follows "--" goes to `outpost collect`

then, as root:
  cp units/outpost.conf /etc/sysusers.d/ && systemd-sysusers
  cp units/*.service units/*.timer /etc/systemd/system/ && systemctl daemon-reload
  systemctl enable --now outpost-home.service                         with --home; otherwise
  systemctl enable --now outpost-collector.service outpost-pipeline.timer
  systemctl status outpost-collector; curl -s 127.0.0.1:9100/healthz

The user "outpost" must be able to read the command and its libraries: install them below /opt or
/usr/local, not below a home directory.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "service", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", type=Path, help="folder for the files"
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--broker", metavar="HOST:PORT", type=_checked, help="address of the broker")
    group.add_argument(
        "--credentials", metavar="FILE", type=Path, help="credentials file of a collector"
    )
    group.add_argument(
        "--home", action="store_true", help="write one service that runs `outpost run`"
    )
    parser.add_argument(
        "--command",
        metavar="PATH",
        type=Path,
        help="path of the installed `outpost`; default: the one that is running",
    )
    parser.add_argument(
        "--minutes",
        type=positive(int),
        default=5,
        metavar="N",
        help="minutes between two runs of the pipeline; default 5",
    )
    parser.add_argument(
        "more",
        nargs="*",
        metavar="-- ARGUMENT",
        help="arguments for `outpost collect` or `outpost run`",
    )


def _checked(text: str) -> str:
    address(text)
    return text


def run(args: argparse.Namespace) -> int:
    """0 when the files are written. Raises ToolError."""
    from outpost_tools.servers.service.container import containerfile, home_containerfile
    from outpost_tools.servers.service.units import HomeService, Service

    if args.home:
        home = HomeService(_command(args.command), tuple(args.more))
        args.parse(home.command[1:])  # a wrong argument is told now, not by the service
        _write(args.out, home.files() | {"Containerfile": home_containerfile(home)})
        return 0
    where = ("--broker", args.broker)
    if args.credentials is not None:
        where = ("--credentials", str(args.credentials.absolute()))
    service = Service(_command(args.command), where, tuple(args.more), args.minutes)
    args.parse(service.collect[1:])  # the same
    _write(args.out, service.files() | {"Containerfile": containerfile(service)})
    return 0


def _write(out: Path, files: dict[str, str]) -> None:
    """Raises ToolError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolError(f"--out {out}: {error}") from None
    print(f"{out}: {', '.join(files)}; outpost service --help says what to do with them")


def _command(given: Path | None) -> Path:
    """Raises ToolError."""
    path = given or Path(shutil.which(sys.argv[0]) or sys.executable).with_name("outpost")
    if not path.is_file():
        raise ToolError(f"{path}: no such file; give --command, the path of `outpost`")
    return path.absolute()

"""Where the collector connects, with which credentials and topics: from the command line's options,
or from the credentials that `outpost broker` made."""

from __future__ import annotations

import argparse
import ssl
from dataclasses import dataclass

from outpost_tools.errors import ToolError
from outpost_tools.mqtt import credentials, tls
from outpost_tools.mqtt.arguments import login
from outpost_tools.mqtt.credentials import Credentials

DEFAULT_ID = "collector-1"
DEFAULT_PREFIX = "outpost"


@dataclass(frozen=True, slots=True)
class Access:
    """login: user and password. share: the group of a shared subscription. second: the user of the
    connections beside the permanent one; None: they have the same user."""

    address: tuple[str, int]
    collector: str
    prefix: str
    share: str | None
    login: tuple[str, str | None] | None
    tls: ssl.SSLContext | None
    second: Credentials | None = None


def of(args: argparse.Namespace) -> Access:
    """Raises ToolError."""
    if args.credentials is None:
        return _of_options(args)
    name = args.id or (DEFAULT_ID if args.credentials.is_dir() else None)
    found = credentials.find(args.credentials, "collector", name)
    if args.share not in (None, "", found.share):
        raise ToolError(
            f"--share {args.share}: these credentials are for another group; give --share alone"
        )
    share = found.share if args.share is not None else None
    if args.id not in (None, found.client_id):
        raise ToolError(
            f"--id {args.id}: these are the credentials of {found.client_id!r}, and the broker "
            "accepts them with that client identifier alone"
        )
    return Access(
        found.address, found.client_id, found.topic_prefix, share, found.login, found.tls(),
        found.second,
    )  # fmt: skip


def _of_options(args: argparse.Namespace) -> Access:
    context = (
        tls.of_options(args.ca_file, args.cert, args.key) if args.tls or args.ca_file else None
    )
    if context is not None and args.alpn:
        context.set_alpn_protocols([args.alpn])
    collector, prefix = args.id or DEFAULT_ID, args.prefix or DEFAULT_PREFIX
    return Access(args.broker, collector, prefix, args.share, login(args), context)

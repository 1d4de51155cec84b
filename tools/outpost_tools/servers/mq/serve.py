"""Runs a bridge from the checked arguments of `outpost mq bridge`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mqtt import credentials
from outpost_tools.mqtt.arguments import login, tls_of
from outpost_tools.servers.mq import live, sources
from outpost_tools.servers.mq.bridge import Bridge, Source
from outpost_tools.servers.mq.descriptor import Descriptor
from outpost_tools.servers.mq.make import ENCODINGS
from outpost_tools.servers.mq.mapping import Options
from outpost_tools.servers.mq.storage import Files, JsonLines, Lines, Sink
from outpost_tools.terminal.command_line import first_line


def serve(args: argparse.Namespace) -> int:
    """0 after an orderly end, 1 when messages that were taken could not be put, or segments were
    damaged.

    Raises ToolError.
    """
    _check_files(args)
    source = _source(args)
    sink, refused = _sink(args), Lines(_refused(args))
    bridge = Bridge(source, sink, refused, _options(args), until_idle_s=args.until_idle)
    bridge.ending.on_signals()
    try:
        return bridge.run()
    finally:
        sink.close()
        refused.close()


def _options(args: argparse.Namespace) -> Options:
    descriptor = Descriptor(
        encoding=ENCODINGS[args.encoding],
        reply_to_q=args.reply_to_q,
        reply_to_q_mgr=args.reply_to_q_mgr,
    )
    return Options(
        queue=args.queue,
        descriptor=descriptor,
        name_value_ccsid=args.ccsid,
        seq_num=args.seq_num,
        pub_time=args.pub_time,
        usr=args.usr,
        domain=args.domain,
        on_clear=args.on_clear,
    )


def _folder(args: argparse.Namespace) -> Path:
    """The default folder for refused messages and the position."""
    if args.lines is not None:
        return args.lines.parent
    return args.files if args.files is not None else Path(".")


def _refused(args: argparse.Namespace) -> Path:
    return args.refused or _folder(args) / "refused.jsonl"


def _position(args: argparse.Namespace) -> Path:
    return args.position or _folder(args) / "position.json"


def _check_files(args: argparse.Namespace) -> None:
    """Two outputs in one file would overwrite each other. Raises ToolError."""
    files = {"--lines": args.lines, "--refused": _refused(args)}
    if args.segments is not None:
        files["--position"] = _position(args)
    found: dict[Path, str] = {}
    for option, path in files.items():
        if path is not None:
            other = found.setdefault(path.resolve(), option)
            if other != option:
                raise ToolError(f"{other} and {option}: {path} cannot be both; name another file")


def _source(args: argparse.Namespace) -> Source:
    if args.segments is not None:
        return sources.Segments(args.segments, _position(args), follow=args.follow)
    version = 5 if args.mqtt == "5" else 4
    if args.credentials is not None:
        found = credentials.find(args.credentials, "monitor")
        where = found.address, found.client_id, args.filter or [f"{found.topic_prefix}/+/data"]
        return sources.Subscription(
            *where, version=version, credentials=found.login, tls=found.tls()
        )
    return sources.Subscription(
        args.broker,
        args.id or "outpost-mq",
        args.filter or ["outpost/#"],
        version=version,
        credentials=login(args),
        tls=tls_of(args),
    )


def _sink(args: argparse.Namespace) -> Sink:
    if args.lines is not None:
        return JsonLines(args.lines)
    if args.files is not None:
        return Files(args.files)
    file = args.mq_password_file
    password = None if file is None else first_line(file, "--mq-password-file")
    connection = live.Connection(args.put, args.channel, args.connection, args.mq_user, password)
    return live.QueueManager(connection)

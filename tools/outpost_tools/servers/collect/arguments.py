"""`outpost collect`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.arguments import add_login, check_topic, only_with_broker
from outpost_tools.pages.arguments import add_http_names
from outpost_tools.readings.sources.option import add_sources
from outpost_tools.store import at
from outpost_tools.terminal.command_line import add_command, address, positive

SUMMARY = "store messages from the broker, and confirm them to the boards"
_DESCRIPTION = """\
Store the messages of the boards on disk or in a bucket. After fsync or the answer to the PUT,
acknowledge them to the broker and confirm them to the boards.
"""
_EXAMPLES = """\
examples:
  outpost collect --broker 127.0.0.1:1883 --log log                   one collector, plain TCP
  outpost collect --broker broker.example:8883 --log log --ca-file ca.pem \\
                  --user collector --password-file password.txt
  outpost collect --credentials fleet --log log                       made by `outpost broker init`
  outpost collect --broker 127.0.0.1:1883 --log log --sources sources.toml
                                                                      other senders' messages, too
  outpost collect --credentials fleet --log log --id collector-2 --share
  outpost collect --credentials fleet --log s3://bucket/log           no disk
  outpost collect --broker 127.0.0.1:1883 --log log --id c2 --share fleet
                                                                      one of several
  outpost collect --broker 127.0.0.1:1883 --log log --id c2 --share fleet --retire
                                                                      remove c2 again

Each collector of a group has its own --id; their logs stay where the pipeline reads them.
tools/outpost_tools/loopback/mosquitto.conf is a broker configuration with explanations.
"""
_NAME_RULE = "use 1 to 64 letters, digits, '_', '-' or '.', not '.' first"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "collect", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    _add_broker(parser.add_mutually_exclusive_group(required=True))
    _add_log(parser)
    parser.add_argument(
        "--id",
        help="MQTT client identifier; keep it, because the broker's queue belongs to it; default "
        "collector-1",
    )
    parser.add_argument(
        "--prefix", help="topics are PREFIX/<device>/data and .../durable; default outpost"
    )
    add_sources(
        parser,
        "also store the messages of other senders, on the topics in this file; they are not "
        "confirmed",
    )
    _add_protocol(parser)
    parser.add_argument(
        "--new-log",
        action="store_true",
        help="accept a log that is empty or older than the last one; then recreate its tables",
    )
    parser.add_argument("--quiet", action="store_true", help="print no statistics on stderr")
    parser.add_argument(
        "--metrics-port",
        type=positive(int),
        metavar="PORT",
        help="serve Prometheus metrics on 127.0.0.1, and /healthz: 200, or 503 with the reason",
    )
    add_http_names(parser)
    _add_limits(parser.add_argument_group("when to act"))
    _add_group(parser.add_argument_group("several collectors"))
    _add_security(parser.add_argument_group("security"))


def _add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log",
        required=True,
        metavar="PLACE",
        type=at.argument,
        help="segments go to PLACE/ID; a folder, or s3://BUCKET/FOLDER (gs, az), without a disk",
    )
    parser.add_argument(
        "--upload",
        metavar="URL",
        type=at.argument,
        help="copy the sealed segments of a --log on disk to URL/ID",
    )


def _add_protocol(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--confirm-tables",
        metavar="TABLES",
        type=at.argument,
        help="confirm a message only when `outpost pipeline run` has its segment in these tables, "
        "in readings or in quarantine; until then its board keeps it. PUBACK does not wait. Needs "
        "a pipeline that runs over this log (--continuous, or a timer), the extra `tables`, 110 MB "
        "more memory, and boards whose confirm_timeout_ms (10000) is longer than two rounds: "
        "120000 for rounds every 30 s. Not for boards in deep sleep, which wait awake for the "
        "confirmation. All collectors of a group need it",
    )
    parser.add_argument(
        "--confirmation",
        choices=("retained", "queued"),
        default="retained",
        help="how to send confirmations to boards; queued: with QoS 1 to their sessions, for "
        "brokers that refuse RETAIN (the boards need the same setting); default retained",
    )
    parser.add_argument(
        "--level",
        choices=("4", "5"),
        default="4",
        help="MQTT level. 5: MQTT 5.0, for brokers that speak nothing else, and to see properties "
        "of messages (user properties, expiry). Default 4: MQTT 3.1.1, which every broker speaks. "
        "Boards choose their own level",
    )


def _add_broker(group: argparse._MutuallyExclusiveGroup) -> None:
    group.add_argument("--broker", metavar="HOST:PORT", type=address, help="address of the broker")
    group.add_argument(
        "--credentials",
        metavar="PATH",
        type=Path,
        help="the folder of `outpost broker init`, or a collector's file from it: broker, user, "
        "TLS, topics",
    )


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--segment-bytes",
        type=positive(int),
        metavar="N",
        help="seal a segment at this size; default 16 MiB, in a bucket 4 MiB",
    )
    group.add_argument(
        "--segment-seconds",
        type=positive(float),
        metavar="S",
        help="seal a segment at this age; default 5, in a bucket 1 (which is how long a message "
        "may wait for its confirmation)",
    )
    group.add_argument(
        "--confirm-seconds",
        type=positive(float),
        default=0.2,
        metavar="S",
        help="send each device at most one confirmation in this time; default 0.2",
    )


def _add_group(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--share",
        metavar="GROUP",
        nargs="?",
        const="",
        help="share one subscription among all collectors of this group; with --credentials, the "
        "group's name comes from there",
    )
    group.add_argument(
        "--retire",
        action="store_true",
        help="take the messages that the broker still holds for --id, then end its session",
    )


def _add_security(group: argparse._ArgumentGroup) -> None:
    add_login(group)
    group.add_argument(
        "--cert",
        metavar="FILE",
        type=Path,
        help="the collector's certificate, with --key, for a broker that requires one",
    )
    group.add_argument("--key", metavar="FILE", type=Path, help="private key of --cert (PEM)")
    group.add_argument(
        "--alpn", metavar="NAME", help="protocol name for the TLS handshake (AWS IoT on port 443)"
    )


def run(args: argparse.Namespace) -> int:
    """0 after SIGTERM or --retire; 1 when messages that were taken could not be stored, the disk
    was full at the start, or the log was found damaged.

    Raises ToolError.
    """
    _check(args)
    from outpost_tools.servers.collect import start

    try:
        collector = start.collector(args)
    except start.NotNowError as error:  # a service manager tries again, but not after status 2
        print(f"outpost: {error}", file=sys.stderr)
        return 1
    return collector.retire() if args.retire else collector.run()


def _check(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    from outpost_tools.messages import name_rules

    if args.id is not None and not name_rules.is_client(args.id):
        raise ToolError(f"--id {args.id!r}: {_NAME_RULE}")
    _check_security(args)
    if args.upload is not None and (args.upload.is_local or not args.log.is_local):
        raise ToolError("--upload: give a URL, beside a --log that is a folder")
    if args.prefix is not None:
        check_topic("--prefix", args.prefix)
    if args.share == "" and args.credentials is None:
        raise ToolError("--share: name the group")
    if args.share and not name_rules.is_client(args.share):
        raise ToolError(f"--share {args.share!r}: {_NAME_RULE}")


def _check_security(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    if args.credentials is not None:
        only_with_broker(args, "--credentials", "cert", "key", "alpn", "prefix")
    if args.user is None and args.password_file is not None:
        raise ToolError("--password-file needs --user")
    if (args.key is None) != (args.cert is None):
        raise ToolError("--cert and --key go together")
    if (args.cert or args.alpn) and not (args.tls or args.ca_file):
        raise ToolError(f"{'--cert' if args.cert else '--alpn'} needs --tls or --ca-file")

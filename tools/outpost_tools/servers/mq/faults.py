"""Every fault of a series of messages, and of the series as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from outpost_tools.servers.mq import psc
from outpost_tools.servers.mq.check import check, check_sequence, errors
from outpost_tools.servers.mq.header import parse
from outpost_tools.servers.mq.mapping import Outgoing
from outpost_tools.servers.mq.reasons import Fault, MqError


def report(messages: Iterable[Outgoing | MqError]) -> tuple[list[str], bool]:
    """A line for each fault, and whether a message has an error."""
    lines, commands, has_errors = [], [], False
    for number, outgoing in enumerate(messages, 1):
        is_read = not isinstance(outgoing, MqError)
        found = _faults(outgoing, commands) if is_read else [outgoing.fault]
        lines += [f"message {number}: {fault}" for fault in found]
        has_errors = has_errors or bool(errors(found))
    return lines + [str(fault) for fault in check_sequence(commands)], has_errors


def _faults(outgoing: Outgoing, commands: list[psc.Command]) -> list[Fault]:
    """Also adds the message's commands to `commands`, for the rules about several messages."""
    try:
        message = parse(outgoing.data, encoding=outgoing.md.encoding, format=outgoing.md.format)
    except MqError as error:
        return [error.fault]
    for folder in message.folders():
        try:
            commands.append(psc.read(folder.text))
        except MqError:
            continue  # it is another folder, or check() reports its fault
    return check(message, outgoing.md)

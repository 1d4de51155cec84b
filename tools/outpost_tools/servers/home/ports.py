"""Checks that `outpost run` can listen on its ports, before it makes the broker's folder or starts
anything. The message about a port names the option that chooses another one.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass

from outpost_tools.errors import ToolError

_WAIT_S = 10.0  # for the children of an `outpost run` that was killed a moment ago
_TURN_S = 0.1


class Taken(ToolError):
    """Another program has the port, or this machine lacks the address. Either may change later."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """what: the name in messages. option: the one that chooses another port. host: "" means every
    address."""

    what: str
    option: str
    host: str
    port: int

    def problem(self) -> OSError | None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.host, self.port))
                probe.listen(1)
        except OSError as error:
            return error
        return None


def check(wanted: Iterable[Wanted], wait_s: float = _WAIT_S) -> None:
    """Waits up to `wait_s` for a port that is in use. Raises Taken; ToolError for a problem that
    will not go away by itself."""
    until = time.monotonic() + wait_s
    seen: dict[int, Wanted] = {}
    for one in wanted:
        if one.port in seen:
            raise ToolError(
                f"{one.option}: {seen[one.port].what} has port {one.port} already; give another one"
            )
        seen[one.port] = one
        while (problem := one.problem()) and _may_end(problem) and time.monotonic() < until:
            time.sleep(_TURN_S)
        if problem:
            raise _error(one, problem)


def _may_end(problem: OSError) -> bool:
    return problem.errno == errno.EADDRINUSE


def _error(one: Wanted, problem: OSError) -> ToolError:
    where = f"{one.what} cannot have port {one.port}"
    other = f"give another one with {one.option}"
    if problem.errno == errno.EADDRINUSE:
        return Taken(
            f"{where}: another program has it (`ss -ltnp` names it); stop that, or {other}"
        )
    if problem.errno in (errno.EACCES, errno.EPERM):
        return ToolError(f"{where}: ports below 1024 need root; {other}")
    if isinstance(problem, socket.gaierror) or problem.errno == errno.EADDRNOTAVAIL:
        return Taken(f"{where}: {one.host} is not an address of this machine; {other}")
    return ToolError(f"{where}: {problem.strerror}; {other}")

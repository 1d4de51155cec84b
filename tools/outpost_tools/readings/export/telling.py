"""What the user sees on stderr: progress if it takes more than a few seconds, then the account."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from outpost_tools.messages import arrival
from outpost_tools.readings.export.log_files import Log
from outpost_tools.readings.export.run import Account
from outpost_tools.readings.export.selection import Selection
from outpost_tools.text.visible import unguarded, visible

_QUIET_S = 2.0  # a shorter wait needs no bar
_LINE_EVERY_S = 5.0
_REASONS_SHOWN = 10
_DAMAGE_SHOWN = 20
_MIB = 1 << 20


def say(text: str) -> None:
    print(f"outpost export: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of bytes read: a bar on a terminal, otherwise a
    line now and then."""
    if not sys.stderr.isatty():
        yield _Lines(total_bytes).step
        return
    from tqdm import tqdm

    with tqdm(
        total=total_bytes, desc="reading the log", unit="B", unit_scale=True, leave=False,
        delay=_QUIET_S, file=unguarded(sys.stderr),
    ) as bar:  # fmt: skip
        yield bar.update


class _Lines:
    def __init__(self, total_bytes: int) -> None:
        self._total, self._read = total_bytes, 0
        self._began = time.monotonic()
        self._line_at = self._began + _LINE_EVERY_S

    def step(self, size: int) -> None:
        self._read += size
        now = time.monotonic()
        if now < self._line_at:
            return
        self._line_at = now + _LINE_EVERY_S
        say(
            f"{now - self._began:.0f} s: {self._read / _MIB:,.0f} of {self._total / _MIB:,.0f} MiB "
            "read"
        )


def tell(log: Log, account: Account, chosen: Selection) -> bool:
    """Whether something is missing or in doubt: damage, conflicts, clocks, lost segments. Prints
    it all."""
    for note in log.notes:
        say(note)
    _tell_refused(account)
    for trouble in [*log.troubles, *account.damage[:_DAMAGE_SHOWN]]:
        say(visible(trouble))
    if len(account.damage) > _DAMAGE_SHOWN:
        say(f"and {len(account.damage) - _DAMAGE_SHOWN} more damaged pieces")
    if conflicts := account.conflicts:
        names = ", ".join(f"{name} ({count})" for name, count in conflicts.most_common(5))
        say(
            f"{conflicts.total()} messages have the number of another one and different contents, "
            f"so they are left out: {names}{', ...' if len(conflicts) > 5 else ''}. Two boards "
            "with one identity, or a restored flash"
        )
    if not account.rows:
        _tell_nothing(account, chosen)
    elif account.without_time:
        say(f"{account.without_time} readings have no time: their boot's clock was never set")
    by_arrival = sum(n for why, n in account.refused.items() if arrival.is_refusal(why))
    if by_arrival:
        say(
            f"{by_arrival} of them because their times are far from their arrival: the clock of a "
            "board is wrong, or that of the collector's machine was. In the second case, the "
            "tables of `outpost pipeline` get them by `replay --reason time`"
        )
    return bool(log.troubles or account.damage or conflicts or by_arrival)


def _tell_refused(account: Account) -> None:
    """Report what the pipeline would put into quarantine."""
    if not account.refused:
        return
    say(f"{account.refused.total()} frames are not valid messages and were left out:")
    for reason, count in account.refused.most_common(_REASONS_SHOWN):
        say(f"{count:>8}  {visible(reason)}")
    if len(account.refused) > _REASONS_SHOWN:
        say(f"and {len(account.refused) - _REASONS_SHOWN} more reasons")


def _tell_nothing(account: Account, chosen: Selection) -> None:
    if not account.messages:
        whose = f" of {' '.join(chosen.devices)}" if chosen.devices else ""
        say(f"no message{whose} in the log")
    elif chosen.has_times and account.newest_us is not None:
        newest = datetime.datetime.fromtimestamp(account.newest_us // 1_000_000, datetime.UTC)
        say(f"no reading in that time; the newest is from {newest:%Y-%m-%dT%H:%M:%SZ}")
    elif chosen.has_times and account.without_time:
        say("none of the readings has a time: no board's clock was ever set")
    else:
        say("no reading of these metrics")
    if chosen.metrics and account.names and not account.matched:
        near = [one for name in chosen.metrics for one in get_close_matches(name, account.names, 3)]
        names = ", ".join(map(visible, dict.fromkeys(near or sorted(account.names)[:6])))
        say(f"nothing matched --metric {' '.join(chosen.metrics)}; there are: {names}")


def summary(account: Account, where: str, seconds: float) -> str:
    return (
        f"{account.rows:,} readings to {where}; {account.messages:,} messages in the log, "
        f"{account.repeats:,} of them copies; {seconds:.1f} s"
    )

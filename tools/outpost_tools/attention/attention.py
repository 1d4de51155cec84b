"""Which devices need attention, why, in which order, and what to do about it, in the words that the
report and the live page show.

Pure. Every state has its own sign and words, not just a colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outpost_tools.attention import restarts, silence
from outpost_tools.text.words import duration, natural

BEHIND_MESSAGES = 100  # besides what a board collects between two reports
CLOCK_AHEAD_S = 2.0  # clocks set by NTP differ by less


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of trouble; `many` names it for several devices, `todo` says what to do about it."""

    key: str
    sign: str
    many: str
    todo: str = ""
    needs_attention: bool = True


# The most serious first.
KINDS = {
    kind.key: kind
    for kind in (
        Kind(
            "lost",
            "✕",
            "lost messages",
            "The board no longer holds them: they will not come. The report lists the gaps. "
            "Possible causes are a full outbox with a policy that drops messages, and failing "
            "flash: <code>outpost outbox health --live PORT</code> shows which.",
        ),
        Kind(
            "twins",
            "⇄",
            "two boards with one identity",
            "Two boards alternate under this name and stream: a copy of a board, or of its flash, "
            "is running. If two messages have the same number, the tables have the one that came "
            "first; the other is in the table quarantine, with its bytes. Give the copy its own "
            "name (<code>outpost provision</code>) and a new outbox "
            "(<code>outpost outbox new --live PORT</code>).",
        ),
        Kind(
            "restored",
            "↶",
            "numbers used twice",
            "The board went back to numbers that it had used: its flash was restored from an older "
            "image, or a copy replaced it. If two messages have the same number, the tables have "
            "the one that came first; the other is in the table quarantine, with its bytes. Make a "
            "new outbox, with a new stream (<code>outpost outbox new --live PORT</code>).",
        ),
        Kind(
            "pins",
            "⚑",
            "outbox files gone",
            "Files in the board's folder <code>/outbox</code>, which reserve the outbox's flash, "
            "were deleted, moved or overwritten. The board continues with the other blocks, but "
            "will not start again. Save what it holds (<code>outpost outbox export --live PORT "
            "--segments log --id rescue-1</code>), then make a new outbox (<code>outpost outbox "
            "new --live PORT</code>).",
        ),
        Kind(
            "takeover",
            "⇅",
            "disconnected by another client with their name",
            "The broker gives a name to the client that connected last: two boards have the same "
            "<code>device_id</code>, or another program uses it. Give each board its own "
            "(<code>outpost provision</code>). A broker of <code>outpost broker init</code> does "
            "not let a user take another's name.",
        ),
        Kind(
            "refused",
            "⊘",
            "measurements not stored",
            "Measured, but not stored, because the outbox was full or the flash failed. If it is "
            "full: improve the connection, raise <code>interval_ms</code>, or give the outbox "
            "more blocks. If the flash failed: see flash blocks left out.",
        ),
        Kind(
            "cut",
            "✄",
            "times a series was sent without its last samples",
            "The board's flash holds series longer than its program reads: a program with longer "
            "records wrote them. The samples left out are lost when the series is confirmed. "
            "Before that, <code>outpost outbox export --live PORT --segments log --id "
            "rescue-1</code> reads them completely; or give the board its earlier program back "
            "until it holds none of them.",
        ),
        Kind(
            "unheard",
            "⊗",
            "boards that receive no confirmation",
            "Their messages are stored here, but the confirmations do not reach them, so they keep "
            "everything in flash until it is full. May the board's user read "
            "<code>.../durable</code> at the broker, and do board and collector have the same "
            "<code>confirmation</code> setting?",
        ),
        Kind(
            "aside",
            "⊟",
            "messages set aside",
            "The server closed the connection at these messages, so the board set them aside and "
            "continued. <code>outpost outbox aside list --live PORT</code> shows them. Fix the "
            "cause (size limit, topic, rights at the broker), then run <code>aside send</code>; or "
            "discard them with <code>aside give-up</code>.",
        ),
        Kind(
            "notpassed",
            "⊠",
            "messages that the broker takes and does not pass on",
            "The broker takes these messages and does not pass them on: check the board's rights "
            "on the topic, and the size limit. The board set them aside and continued. A board "
            "that was renamed still holds messages with its earlier topic. <code>outpost outbox "
            "aside list --live PORT</code> shows them. <code>aside export --segments</code> takes "
            "them into the tables, then <code>aside give-up</code> frees the board's flash.",
        ),
        Kind(
            "worn",
            "▦",
            "flash blocks left out",
            "Blocks of the board's flash failed. The outbox continues without them; nothing stored "
            "is lost, but it holds less. A single block: watch it. More from week to week: the "
            "flash is worn out, replace the board.",
        ),
        Kind(
            "sensor",
            "⌁",
            "sensors that fail",
            "The board leaves their readings out and sends the others. No answer: check the wires "
            "and the sensor's address. Out of range: check its supply and its location. Not "
            "usable: check its driver file and its settings. <code>outpost selftest --port PORT"
            "</code> reads each once. A sensor that works again reports this by itself.",
        ),
        Kind(
            "clock",
            "◷",
            "clocks ahead",
            "Readings arrived before they were taken, according to their own times. The board's "
            "clock is ahead of the collector's, so the times of its readings are wrong by this "
            "much, and the delivery times shown are too short. Does the board reach its time "
            "server (<code>ntp_host</code>)? Is the collector's own clock right?",
        ),
        Kind(
            "silent",
            "○",
            "silent",
            "Three of the reports that the board announced are missing. Check its power and its "
            "Wi-Fi; <code>outpost monitor --port PORT --look</code> shows why it stopped. Is it no "
            "longer in use? <code>outpost live --log LOG --forget NAME</code> takes it off the "
            "page.",
        ),
        Kind(
            "offline",
            "⊝",
            "other devices offline",
            "The broker or the bridge says that its connection ended. Check its power and its "
            "network.",
        ),
        Kind(
            "quiet",
            "◇",
            "other devices silent",
            "Nothing has come for three times the longest pause of the last week. Check its power "
            "and its network, and whether its bridge runs. Is it no longer in use? <code>outpost "
            "live --log LOG --forget NAME</code> takes it off the page.",
        ),
        Kind(
            "open",
            "◐",
            "gaps that may still close",
            "The board still holds them: wait until it is connected for longer.",
        ),
        Kind(
            "behind",
            "▲",
            "backlog",
            "The board stores faster than it delivers: its connection is too slow or too rare.",
        ),
        Kind(
            "restarts",
            "↻",
            "restarting often",
            "Power: its supply or its cable. Watchdog or crash: <code>outpost monitor --port PORT "
            "--look</code> shows <code>crash.txt</code>. Restarts by a tool, an update or a "
            "command do not count.",
        ),
        Kind("waiting", "…", "not heard since the page started", needs_attention=False),
        Kind("known", "◦", "only last known values", needs_attention=False),
        Kind("noclock", "?", "readings without a time", needs_attention=False),
        Kind("mended", "≈", "flipped bits mended", needs_attention=False),
        Kind("fine", "✓", "fine", needs_attention=False),
    )
}
# About the collectors' logs, not about a device.
DAMAGED = Kind(
    "damaged",
    "☒",
    "damaged pieces of the collector's log",
    "A disk or memory fault changed what the collector had stored. All messages around it were "
    "read; <code>outpost pipeline status</code> counts the damaged ones, and the table quarantine "
    "keeps their bytes with segment and offset. Check the disk. A board resends only what was not "
    "confirmed to it.",
)
# About the collectors themselves, and their machines.
TAKEN_OVER = Kind(
    "taken-over",
    "⇆",
    "times the collector met another client with its id",
    "The broker gives the id to the client that connected last, and with it the waiting messages: "
    "in collector mode boards send them again, in broker mode they may be lost. Look for a second "
    "<code>outpost collect</code> with the same <code>--id</code>; with the users of <code>outpost "
    "broker init</code> no board can do this.",
)
CLOCK_WRONG = Kind(
    "clock-wrong",
    "◷",
    "times the clock of the collector's machine was wrong",
    "Times of arrival from then are wrong. Readings keep the time that their board gave them; "
    "those of boards without a clock have none. Set the clock: a machine without a battery for it "
    "needs NTP (<code>timedatectl</code>) before the collector starts. Messages that were refused "
    "because of it come into the tables by <code>outpost pipeline replay --reason time</code>.",
)
_WEIGHT = {key: weight for weight, key in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Finding:
    key: str
    text: str
    size: float = 0.0  # if two devices have the same finding, the larger one comes first
    parts: tuple[str, ...] = ()  # the single faults, if there are several: `NAME: what`

    @property
    def kind(self) -> Kind:
        return KINDS[self.key]

    @property
    def news(self) -> tuple[str, str]:
        """A value that changes when there is something new to show. The time for which a board has
        been silent does not count."""
        return self.key, "" if self.key in ("silent", "quiet", "waiting") else self.text


def in_order(found: list[tuple[dict, list[Finding]]]) -> list[tuple[dict, list[Finding]]]:
    """Sorts the devices, the worst first. Each has its row and its findings, at least one."""
    return sorted(
        found, key=lambda one: (_WEIGHT[one[1][0].key], -one[1][0].size, natural(one[0]["device"]))
    )


def of_device(
    row: Mapping[str, Any], *, silent_s: float, usual_s: float, listened_s: float | None = None
) -> list[Finding]:
    """The findings about a device, at least `fine`. silent_s: time since it was last seen.
    listened_s: for how much of that time it could have been heard; None: all of it. usual_s: the
    time between two of its messages; 0: not known. Besides the columns of the table `devices`, the
    row has: sensor_faults, in words; clock_ahead_s; report_s, as announced, 0: not announced;
    unwanted, the causes of unwanted restarts (restarts.py)."""
    found = [
        _finding("lost", row["missing_closed"], "{:,} lost"),
        _conflicts(row),
        _finding("pins", row["pins_lost"], "{:,} outbox file(s) gone"),
        _finding("takeover", takeovers(row), "disconnected {:,} time(s)"),
        _finding("refused", row["not_published"], "{:,} not stored"),
        _finding("cut", row["cut_short"], "{:,} series cut short"),
        _finding("unheard", row["unheard"], "{:,} h without a confirmation"),
        _aside(row),
        # a block whose file is gone is also left out, but not because of wear
        _finding("worn", row["left_out"] - row["pins_lost"], "{:,} flash block(s) left out"),
        _sensors(row["sensor_faults"]),
        _clock(row["clock_ahead_s"]),
        _silent(silent_s, listened_s, silence.after_s(row["report_s"], usual_s, row["messages"])),
        _finding("open", row["missing_open"], "{:,} may still come"),
        _finding("behind", row["backlog_last"], "holds {:,}", _many(row["report_s"], usual_s)),
        _restarts(row["unwanted"]),
        _finding("noclock", row["readings_without_time"], "{:,} without time"),
        _finding("mended", row["mended"], "{:,} bit(s) mended"),
    ]
    return [one for one in found if one] or [Finding("fine", "fine")]


def of_other(
    *, is_offline: bool, is_heard: bool, silent_s: float, listened_s: float, after_s: float
) -> list[Finding]:
    """The findings about a device that is no Outpost board, at least one. is_offline: as its will
    or its bridge says. is_heard: it has sent a new reading. after_s: when it counts as silent."""
    if is_offline:
        return [Finding("offline", "offline")]
    if not is_heard:
        return [Finding("known", "no new reading yet")]
    return [_silent(silent_s, listened_s, after_s, "quiet") or Finding("fine", "fine")]


def _finding(key: str, number: int, text: str, least: int = 1) -> Finding | None:
    """A finding if `number` is at least `least`. text: may contain "(s)" for the plural."""
    if number < least:
        return None
    return Finding(key, text.format(number).replace("(s)", "" if number == 1 else "s"), number)


def takeovers(row: Mapping[str, Any]) -> int:
    """0 while messages are set aside, because a server that ends the connection at such a message
    looks to the board like another client with its name."""
    return 0 if row["aside"] else row["takeovers"]


def _aside(row: Mapping[str, Any]) -> Finding | None:
    """not_passed counts from the board's start, so it means nothing once none is set aside."""
    key = "notpassed" if row["not_passed"] else "aside"
    return _finding(key, row["aside"], "{:,} set aside")


def _conflicts(row: Mapping[str, Any]) -> Finding | None:
    if not row["conflicts"]:  # the board itself saw confirmations of numbers beyond its own
        return _finding("restored", row["ahead"], "went back: {:,} confirmed ahead")
    key, what = ("twins", "two boards") if row["two_boards"] else ("restored", "went back")
    return _finding(key, row["conflicts"], what + ": {:,} in conflict")


def _sensors(faults: list[str]) -> Finding | None:
    """faults: in words."""
    return Finding("sensor", "; ".join(faults), len(faults), tuple(faults)) if faults else None


def _clock(ahead_s: float) -> Finding | None:
    if ahead_s <= CLOCK_AHEAD_S:
        return None
    return Finding("clock", f"clock ahead {duration(ahead_s * 1000)}", ahead_s)


def _silent(
    silent_s: float, listened_s: float | None, after_s: float, key: str = "silent"
) -> Finding | None:
    if silent_s <= after_s:
        return None
    text = duration(silent_s * 1000)
    if listened_s is not None and listened_s <= after_s:
        return Finding("waiting", f"last heard {text} ago", silent_s)
    return Finding(key, f"silent for {text}", silent_s)


def _many(report_s: float, usual_s: float) -> int:
    """The number of held messages that is a backlog: more than a board in deep sleep collects until
    it counts as silent."""
    of_a_report = report_s / usual_s if usual_s > 0 else 0.0
    return BEHIND_MESSAGES + int(min(3 * of_a_report, 1e6))


def _restarts(causes: list[int]) -> Finding | None:
    if len(causes) < restarts.OFTEN:
        return None
    return Finding("restarts", restarts.words(causes), len(causes))


def verdict(found: list[tuple[dict, list[Finding]]], *of_theirs: int) -> list[str]:
    """The first sentence of the page, and a few words for each kind of trouble.

    of_theirs: the arguments of of_collectors().
    """
    theirs = of_collectors(*of_theirs)
    own = [f"{kind.sign} {kind.many}: {count:,}" for kind, count in theirs]
    subject = "collector's log" if theirs and theirs[0][0] is DAMAGED else "collector"
    troubled = [one for _, one in found if one[0].kind.needs_attention]
    if own and not troubled:
        return [f"The {subject} needs attention:", *own]
    if not found:
        return ["No device has sent anything yet."]
    if not troubled:
        return [
            f"All {len(found):,} devices are fine." if len(found) > 1 else "The one device is fine."
        ]
    parts = []
    for kind in KINDS.values():
        count = sum(any(f.key == kind.key for f in one) for one in troubled)
        if count and kind.needs_attention:
            parts.append(f"{kind.sign} {kind.many}: {count:,}")
    what = f" and the {subject}" if own else ""
    need = "needs" if len(troubled) == 1 and not own else "need"
    return [f"{len(troubled):,} of {len(found):,} devices{what} {need} attention:", *parts, *own]


def advice(
    found: list[tuple[dict, list[Finding]]], *of_theirs: int
) -> list[tuple[Kind, list[str]]]:
    """What to do, by kind of trouble, with the names of the devices."""
    by_kind = {
        kind: [row["device"] for row, one in found if any(f.key == kind.key for f in one)]
        for kind in KINDS.values()
    }
    theirs = [(kind, []) for kind, _ in of_collectors(*of_theirs)]
    return theirs + [
        (kind, names) for kind, names in by_kind.items() if names and kind.needs_attention
    ]


def of_collectors(
    damaged: int = 0, taken_over: int = 0, clock_wrong: int = 0
) -> list[tuple[Kind, int]]:
    """The kinds of trouble with collectors, with their counts. damaged: pieces of their logs.
    taken_over, clock_wrong: numbers of their notes."""
    counts = ((DAMAGED, damaged), (TAKEN_OVER, taken_over), (CLOCK_WRONG, clock_wrong))
    return [(kind, count) for kind, count in counts if count]

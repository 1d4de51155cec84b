"""What is durable of each stream, and the confirmation that follows from it. Pure: no files, no
network, no clock.

A stream has a `base`: everything below it was confirmed to the board, by us or by another collector
of our group. Above the base there are ranges, kept separately for each collector: the numbers of
the messages in its log, and those that their `held` covers (a board that says held=100 will not
send 0..99 any more). "Durable up to N" means that base..N lie in the union of all these ranges.

Why separate ranges, and not one union: a collector that comes back with an older disk withdraws
what it said (see exchange.py), and in a union we could not tell which numbers those were. What was
confirmed stays confirmed: a confirmation cannot be withdrawn from a board. State grows with the
gaps, not with the messages.

A *confirmation* says "durable up to N": `<stream: 8 hex digits> <N>`. If numbers beyond the first
missing one are durable, a *gap report* follows it on the same topic:

    <stream> <N> <a>-<b> <c>-<d> ...     at most GAP_RANGES ranges, ascending, a > N + 1

N is -1 while number 0 is missing, and then there is no confirmation. The board learns from it which
of its messages did not arrive although later ones did. One report proves nothing: the missing
messages may be in flight, or another collector's statement may be. It commits to nothing either: a
collector that comes back with an older disk withdraws it, like all that is above the base. So a
board may release nothing because of it. It is not retained, because it would replace the
confirmation. It needs no topic and no right of its own: firmware that does not know it takes it for
a garbled confirmation (`parse_confirmation` in firmware/outpost/durable.py), which is ignored and
counted.

We keep at most MAX_STREAMS streams of a device, those used last: a board has one, and gets another
when its outbox is formatted. Forgetting a stream is safe: it then counts as unseen and its numbers
as not durable, so nothing is confirmed that is in no log. A board that still uses it retransmits
what it holds unconfirmed, and its `held` says that the rest was confirmed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from outpost_tools.messages.message import Key
from outpost_tools.messages.ranges import Ranges, beyond, cover, following, trim

MAX_STREAMS = 16  # of a device
GAP_RANGES = 4  # in a gap report, which a board reads in a small buffer


@dataclass(slots=True)
class Stream:
    """The durable numbers of one stream: `own` are those in our log, `others` those that other
    collectors say they have."""

    base: int = 0
    own: Ranges = field(default_factory=list)
    others: dict[str, Ranges] | None = (
        None  # None, most of the time: there are thousands of streams
    )

    @property
    def next(self) -> int:
        """The first number that is not durable anywhere."""
        return following(self.base, self._sets())

    def beyond(self, most: int) -> Ranges:
        """The first ranges that are durable after the first number that is not; at most that
        many."""
        return beyond(self.next, self._sets(), most)

    def _sets(self) -> list[Ranges]:
        return [self.own, *self.others.values()] if self.others else [self.own]

    def add(self, seq: int, held: int) -> None:
        """Add a message that is in our log."""
        cover(self.own, self.base, held - 1)
        cover(self.own, max(seq, self.base), seq)

    def add_of(self, collector: str, ranges: Ranges) -> None:
        """Add the numbers that another collector says it has."""
        self.others = {} if self.others is None else self.others
        theirs = self.others.setdefault(collector, [])
        for first, last in ranges:
            cover(theirs, max(first, self.base), last)

    def raise_base(self, base: int) -> None:
        """Everything below `base` was confirmed; drop what we know below it."""
        if base <= self.base:
            return
        self.base = base
        trim(self.own, base)
        for collector, ranges in list((self.others or {}).items()):
            trim(ranges, base)
            if not ranges:
                self.forget(collector)

    def forget(self, collector: str) -> None:
        if self.others is not None:
            self.others.pop(collector, None)
            self.others = self.others or None


class News(NamedTuple):
    """What one statement says about a stream: everything below `base` is confirmed, and these
    numbers are in the speaker's log."""

    device: str
    stream: str
    base: int
    ranges: Ranges


class Durable:
    """All streams of all devices. The stream that a device used last is the one that gets
    confirmed.

    keep_news: remember what changed until take_news(), for the other collectors. `changed`: the
    devices that changed since the set was last emptied, for the snapshot.
    """

    def __init__(self, *, keep_news: bool = False) -> None:
        self._streams: dict[str, dict[str, Stream]] = {}
        self._latest: dict[str, str] = {}
        self._news: dict[tuple[str, str], Ranges] | None = {} if keep_news else None
        self._forgotten: dict[str, int] = {}
        self.changed: set[str] = set()

    def add(self, key: Key) -> None:
        """Add the key of a message that is on our disk."""
        self.add_all([key])

    def add_all(self, keys: Sequence[Key]) -> None:
        """Add the keys of messages that are on our disk."""
        streams, latest, news = self._streams, self._latest, self._news
        self.changed.update([key[0] for key in keys])
        for device, name, seq, held in keys:
            if latest.get(device) == name:
                stream = streams[device][name]
            else:
                stream = self._turn_to(device, name)
            own = stream.own
            if (
                held <= stream.base and own and own[-1][1] + 1 == seq
            ):  # the next number: most of them
                own[-1][1] = seq
            else:
                stream.add(seq, held)
            if news is not None:
                # Also add a number that is known already: its board retransmits it, so it waits for
                # a confirmation.
                ranges = news.setdefault((device, name), [])
                cover(ranges, stream.base, held - 1)
                cover(ranges, seq, seq)

    def add_ranges(self, device: str, name: str, ranges: Ranges) -> None:
        """As add_all(), of the keys of one stream, as ranges; it is the device's stream now."""
        self.changed.add(device)
        stream = self._turn_to(device, name)
        news = None if self._news is None else self._news.setdefault((device, name), [])
        for first, last in ranges:
            cover(stream.own, max(first, stream.base), last)
            if news is not None:
                cover(news, max(first, stream.base), last)

    def withdraw(self) -> dict[str, dict[str, Ranges]]:
        """Forget our own ranges, but not what was confirmed. Returns them, to be added again; each
        device's stream is the last."""
        found: dict[str, dict[str, Ranges]] = {}
        for device, streams in self._streams.items():
            own = {name: stream.own for name, stream in streams.items() if stream.own}
            if not own:
                continue
            if device in self._latest:
                own[self._latest[device]] = own.pop(self._latest[device], [])
            for name in own:
                streams[name].own = []
            found[device] = own
        self.changed.update(found)
        if self._news is not None:
            self._news.clear()
        return found

    def _turn_to(self, device: str, name: str) -> Stream:
        """From now on this is the device's stream; the one before it was in use until now."""
        if device in self._latest:
            self._stream(device, self._latest[device])
        stream = self._stream(device, name)
        self._latest[device] = name
        return stream

    def add_news(self, collector: str, news: News, *, is_fresh: bool) -> bool:
        """Add what another collector says; True when there is something to confirm.

        is_fresh: its messages arrived just now, so this is the stream that the device uses now.
        """
        self.changed.add(news.device)
        stream = self._stream(news.device, news.stream)
        stream.raise_base(news.base)
        stream.add_of(collector, news.ranges)
        if (is_fresh and news.ranges) or news.device not in self._latest:
            self._turn_to(news.device, news.stream)
        return stream.next > stream.base

    def forget(self, collector: str) -> None:
        """This collector has a new life: what it said before no longer counts.

        What was confirmed stays confirmed.
        """
        for streams in self._streams.values():
            for stream in streams.values():
                stream.forget(collector)

    def take_news(self) -> list[News]:
        """What changed since the last call."""
        changed, self._news = self._news or {}, {}
        return [
            News(device, stream, self._streams[device][stream].base, ranges)
            for (device, stream), ranges in changed.items()
        ]

    def take_forgotten(self) -> dict[str, int]:
        """Device -> how many of its streams were forgotten since the last call."""
        forgotten, self._forgotten = self._forgotten, {}
        return forgotten

    def everything(self) -> Iterator[News]:
        """Everything known here at first hand: bases, and our own ranges.

        Call take_news() first, because the news is included here.
        """
        for device, streams in self._streams.items():
            for stream, state in streams.items():
                if state.base or state.own:
                    yield News(device, stream, state.base, state.own)

    def devices(self) -> list[str]:
        """Every device that can be confirmed."""
        return list(self._latest)

    def confirmation(self, device: str) -> bytes | None:
        """`<stream> <n>`: every seq <= n is durable or will never come. None while there is no such
        number.

        Calling this commits the confirmation: from now on everything up to n counts as confirmed.
        """
        name = self._latest.get(device)
        if name is None:
            return None
        stream = self._streams[device][name]
        following_seq = stream.next
        if following_seq > stream.base:
            stream.raise_base(following_seq)
            self.changed.add(device)
            if self._news is not None:
                self._news.setdefault((device, name), [])
        return b"%s %d" % (name.encode(), following_seq - 1) if following_seq else None

    def gap_report(self, device: str) -> bytes | None:
        """`<stream> <n> <a>-<b> ...`: what is durable beyond the first missing number; n as in
        confirmation(), or -1. None: nothing is. Calling this commits to nothing."""
        name = self._latest.get(device)
        if name is None:
            return None
        stream = self._streams[device][name]
        ranges = stream.beyond(GAP_RANGES)
        if not ranges:
            return None
        words = " ".join(f"{first}-{last}" for first, last in ranges)
        return f"{name} {stream.next - 1} {words}".encode()

    def unconfirmed(self) -> int:
        """How many numbers in our own log are unconfirmed, over all streams."""
        return sum(
            last - first + 1
            for streams in self._streams.values()
            for s in streams.values()
            for first, last in s.own
        )

    def stream_count(self) -> int:
        return sum(len(streams) for streams in self._streams.values())

    def all_devices(self) -> list[str]:
        return list(self._streams)

    def to_json(self, devices: Collection[str] | None = None) -> dict[str, Any]:
        """Only what our own log can prove: bases and our own ranges. None: all devices."""
        devices = self._streams if devices is None else devices
        return {"streams": self.streams_json(devices), "latest": self.latest_json(devices)}

    def streams_json(self, devices: Iterable[str]) -> dict[str, Any]:
        of = self._streams
        return {d: {name: [one.base, one.own] for name, one in of[d].items()} for d in devices}

    def latest_json(self, devices: Iterable[str]) -> dict[str, str]:
        return {d: self._latest[d] for d in devices if d in self._latest}

    @classmethod
    def from_json(cls, data: dict[str, Any], *, keep_news: bool = False) -> Durable:
        """The reverse of to_json().

        Raises LookupError, TypeError, ValueError or AttributeError when `data` is something else.
        """
        durable = cls(keep_news=keep_news)
        durable.replace(data)
        return durable

    def replace(self, data: dict[str, Any]) -> None:
        """Set these devices to what to_json() returned. Raises as from_json(), changing nothing."""
        found = {
            device: {
                stream: Stream(int(base), [[int(a), int(b)] for a, b in ranges])
                for stream, (base, ranges) in streams.items()
            }
            for device, streams in data["streams"].items()
        }
        for device, stream in data["latest"].items():
            if stream not in found[device]:
                raise ValueError(f"stream {stream} of {device} is unknown")
        self._streams |= found
        self._latest |= data["latest"]
        for device in found:
            self._forget_oldest(device)

    def _stream(self, device: str, name: str) -> Stream:
        """Moves the stream to the end: the first one is the one whose last use is longest ago."""
        streams = self._streams.setdefault(device, {})
        stream = streams.get(name)
        if stream is None:
            streams[name] = stream = Stream()
            self._forget_oldest(device, name)
        elif len(streams) > 1:
            streams[name] = streams.pop(name)
        return stream

    def _forget_oldest(self, device: str, new: str | None = None) -> None:
        """Keep MAX_STREAMS; never drop the new one, nor the one that gets confirmed."""
        streams, kept = self._streams[device], (new, self._latest.get(device))
        while len(streams) > MAX_STREAMS:
            name = next(name for name in streams if name not in kept)
            del streams[name]
            if self._news is not None:
                self._news.pop((device, name), None)
            self._forgotten[device] = self._forgotten.get(device, 0) + 1

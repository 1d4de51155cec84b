"""The truth about samples of a series (outpost/series.py): what add() took, and what of it came.

**The law.** The samples that came, and those that the outbox still holds, are in the order of their
records the samples that add() took: none is missing, none is twice, none is new. One whose add()
was interrupted, or failed, may be there or not. A record that came several times counts once, as
the longest of them.
"""

from virtual.series_reader import MAGIC, read


class Samples:
    """stored: [(ms, stream, topic, values, is_sure)], in order."""

    def __init__(self, ledger):
        self._ledger = ledger
        self.stored = []
        self.trying = None

    def copy(self, ledger):
        twin = Samples(ledger)
        twin.stored, twin.trying = self.stored[:], self.trying
        twin.restart()
        return twin

    def restart(self):
        if self.trying:
            self.stored.append(self.trying + (False,))
        self.trying = None

    def begin(self, topic, values, count):
        """An add() begins."""
        ledger = self._ledger
        ledger.enter()
        taken = tuple([values[place] for place in range(count)])
        self.trying = ledger.now_ms(), ledger.stream(), topic, taken
        ledger.leave()

    def end(self, status):
        self._ledger.enter()
        entry, self.trying = self.trying, None
        if [one for one in entry[3] if one is not None]:
            self.stored.append(entry + (status == 0,))
        self._ledger.leave()

    def faults(self, came, held, count=None):
        """([sample that is missing], [sample that nobody stored]) among the first `count` stored.
        came: arrivals; held: [(topic, payload)] of the outbox that is open."""
        stored = self.stored if count is None else self.stored[:count]
        missing, new = [], []
        for stream, topic in _places(stored):
            wanted = [one for one in stored if one[1] == stream and one[2] == topic]
            records = _records(
                [one[2] for one in came if one[6] == stream and one[1] == topic]
                + [one[1] for one in held if one[0] == topic and stream == self._ledger.stream()]
            )
            _compare(wanted, records, missing, new if count is None else [])
        return missing, new


def _places(stored):
    found = []
    for one in stored:
        if (one[1], one[2]) not in found:
            found.append((one[1], one[2]))
    return found


def _records(payloads):
    """The values of all samples, in the order of their records."""
    longest = {}
    for payload in payloads:
        if payload[:1] == bytes([MAGIC]):
            record = read(payload)
            if len(record["samples"]) >= len(longest.get(record["seq"], ())):
                longest[record["seq"]] = record["samples"]
    return [values for seq in sorted(longest) for _, values in longest[seq]]


def _compare(wanted, found, missing, new):
    place = 0
    for values in found:
        at = place
        while at < len(wanted) and wanted[at][3] != values:
            at += 1
        if at == len(wanted):
            new.append(values)
            continue
        missing.extend([one for one in wanted[place:at] if one[4]])
        place = at + 1
    missing.extend([one for one in wanted[place:] if one[4]])

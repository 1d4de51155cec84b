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
    """Append what is missing and what is new: as few as possible, because samples often have the
    same values, and an unsure one may be there or not."""
    wanted, found = wanted[:], found[:]
    while wanted and found and wanted[0][4] and wanted[0][3] == found[0]:
        wanted.pop(0)
        found.pop(0)
    while wanted and found and wanted[-1][4] and wanted[-1][3] == found[-1]:
        wanted.pop()
        found.pop()
    costs = _costs(wanted, found)
    place = number = 0
    while place < len(wanted) or number < len(found):
        cost, is_sure = costs[place][number], place < len(wanted) and wanted[place][4]
        if place < len(wanted) and cost == costs[place + 1][number] + is_sure:
            if is_sure:
                missing.append(wanted[place])
            place += 1
        elif number < len(found) and cost == costs[place][number + 1] + 1:
            new.append(found[number])
            number += 1
        else:
            place += 1
            number += 1


def _costs(wanted, found):
    """costs[i][j]: how many are missing or new at least among wanted[i:] and found[j:]."""
    row = list(range(len(found), -1, -1))
    costs = [row]
    for entry in reversed(wanted):
        after, row = row, [0] * (len(found) + 1)
        row[-1] = after[-1] + entry[4]
        for number in range(len(found) - 1, -1, -1):
            row[number] = min(after[number] + entry[4], row[number + 1] + 1)
            if entry[3] == found[number]:
                row[number] = min(row[number], after[number + 1])
        costs.insert(0, row)
    return costs

"""The collector of collector mode, as far as a board sees it: it confirms what is durable.

On its topic it says, retained, `STREAM NUMBER`: everything up to that number is durable; and, not
retained, `STREAM NUMBER FIRST-LAST ...` when it has messages beyond the first that it lacks, with
-1 when that is number 0 (firmware/outpost/durable.py). All that arrives is durable at once.

A real collector reads stream and number in the message; this one asks the world, which knows whose
outbox is open, and so confirms messages of any content.
"""

_IDS = 65_535
_STREAM_BYTES = 8
_RANGES = 8  # of one report


class Collector:
    def __init__(self):
        self.durable = {}  # stream: [all below this number is durable, numbers beyond it]

    def copy(self):
        twin = Collector()
        for stream, kept in self.durable.items():
            twin.durable[stream] = [kept[0], kept[1].copy()]
        return twin

    def take(self, held, packet_id):
        """A message came. held: of the ledger. Returns [(text, retained)] of what it says."""
        stream, first, end = held
        number = first + (packet_id - 1 - first) % _IDS
        if len(stream) != _STREAM_BYTES:  # an outbox in RAM, which collector mode does not take
            return []
        kept = self.durable.setdefault(stream, [first, set()])
        if number >= end:  # it was released before: what is known is said again
            return self._said(stream, kept)
        kept[0] = max(kept[0], first)
        kept[1].add(number)
        while kept[0] in kept[1]:
            kept[1].remove(kept[0])
            kept[0] += 1
        return self._said(stream, kept)

    def _said(self, stream, kept):
        through = kept[0] - 1
        said = [(b"%s %d" % (stream, through), True)] if through >= 0 else []
        beyond = _ranges([number for number in kept[1] if number > through])
        if beyond:
            words = [b"%d-%d" % one for one in beyond[:_RANGES]]
            said.append((b"%s %d %s" % (stream, through, b" ".join(words)), False))
        return said


def _ranges(numbers):
    """[(first, last)] of the numbers, ascending."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found

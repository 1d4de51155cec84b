"""Power cuts: which ones an effect has, what they leave, and whether the board recovers from one.

A cut in a program or an erase of the flash leaves it in the ways of chip.py. All other effects are
atomic (a file's commit, a packet, a reset), so a cut comes before them; after one means before the
next.

The verdict on a run: nothing that was accepted is lost, nothing comes that was not published,
nothing comes out of order, and the program ends or goes on.
"""

from virtual.chip import ERASE_WAYS, PROGRAM_WAYS

WAYS = ("nothing", "all", "first half", "last half", "random")
BEFORE = "before"
OFF_S = 2  # without power
RECOVERS_S = 3600  # of virtual time, at most
_ANY_VIEW = 4  # each read of an unstable cell may differ


def ways_at(kind, wanted=WAYS):
    """Of one effect."""
    if kind == "program" or kind == "erase":
        table = ERASE_WAYS if kind == "erase" else PROGRAM_WAYS
        return [way for way in wanted if way in table]
    return [BEFORE]


def damaged(world, kind, details, way):
    """The world after that cut, when the power comes back."""
    twin = world.copy()
    if way != BEFORE:
        twin.chip.random.seed(world.effects)
        twin.chip.cut(details[0], details[1], details[2], details[3], way)
        twin.chip.view = _ANY_VIEW
    twin.now_us += OFF_S * 1_000_000
    return twin


class Recovered:
    """done(world) of a run after a cut: the program published or stored something new, and all that
    it had by then has come."""

    def __init__(self, world):
        self._count = world.ledger.count()
        self._wanted = self._came = None

    def __call__(self, world):
        ledger = world.ledger
        if self._wanted is None:
            if ledger.count() <= self._count:
                return False
            self._wanted = len(ledger.accepted), len(ledger.samples.stored)
        came = len(world.broker.came)
        if came == self._came:  # asking takes time
            return False
        self._came = came
        return ledger.have_come(self._wanted[0], self._wanted[1])


ENDS = {
    "error": "the program ended with an exception",
    "stuck": "the program called nothing for long: it hangs",
    "killed": "the interpreter itself ended",
}


def fault_of(world, why, is_cut=False):
    """What is wrong after a run, in words; "": nothing."""
    found = _end(world, why) or _of_messages(world.ledger) or _of_samples(world.ledger)
    if not found and world.broker.violations:
        found = "against the standard: %s" % (world.broker.violations[0],)
    if not found and is_cut and why == "time" and world.ledger.pending():
        found = "not recovered: %d accepted messages have not come" % len(world.ledger.pending())
    return found


def _end(world, why):
    if world.bites and why not in ENDS:
        words = "the watchdog ended the program %d times, first at %d ms"
        return words % (len(world.bites), world.bites[0])
    return ENDS.get(why, "")


def _of_messages(ledger):
    for found, words in (
        (ledger.lost(), "was accepted, never came, and is not in the outbox: lost"),
        (ledger.invented(), "came, and was never published"),
        (ledger.out_of_order(), "came out of order"),
    ):
        if found:
            ms, topic, payload = found[0][:3]
            return "%s %r at %d ms %s" % (topic.decode(), payload[:60], ms, words)
    return ""


def _of_samples(ledger):
    lost, new = ledger.sample_faults()
    if lost:
        ms, _, topic, values, _ = lost[0]
        return "sample %r of %s, stored at %d ms, is lost" % (values, topic.decode(), ms)
    return "sample %r came, and was never stored" % (new[0],) if new else ""

"""Runs a program in a world, and through every power cut of that run.

**The law.** The run itself is never disturbed: each cut is a copy of the world, damaged, which is
followed apart. How a copy is kept apart differs: CPython follows it later (modules of a boot are
private there), MicroPython forks. The cases, their order and their verdicts are the same.

Must not know: how a program is loaded; what a test asks of a world (`reports` hands it over).
"""

from virtual import boots, cuts
from virtual.report import report
from virtual.world import World

PLAN = {
    "ways": cuts.WAYS,
    "only": None,  # (number of the effect, way or ""): this cut alone; None: no limit
    "every": 1,  # 7: the first cut of the run, the eighth, and so on
    "none": False,  # no cuts: the run alone
    "double": False,  # after each cut, also each cut of what follows until the board is well
    "to_the_end": False,  # after a cut run to the end of the time, not until recovered
    "reports": False,  # with each case the report of its world
}


class Hunt:
    """start(world): see boots.py. branch(world, follow, twin, case): has follow(twin, case)
    called, in a process of its own or later; world: the one that runs. tell(case): takes a result.
    line(): where the program is."""

    def __init__(self, start, scenario, plan, branch, tell, line):
        self.world = World(scenario)
        self._start, self._branch, self._tell, self._line = start, branch, tell, line
        self._plan = dict(PLAN)
        self._plan.update(plan)
        self._seconds = self.world.scenario["seconds"]
        self._passed = 0  # cuts of the run so far, those that were left out included

    def run(self):
        """The undisturbed run, whose case has number 0 and comes when it has ended."""
        world = self.world
        if not self._plan["none"]:
            world.on_effect = self._at_first
        why = boots.run(world, self._start, self._seconds)
        world.on_effect = None
        case = {"number": 0, "kind": "", "way": "", "line": "", "ms": 0}
        self._finish(world, case, why, False)

    def _at_first(self, world, kind, details):
        only = self._plan["only"]
        if only and only[0] != world.effects:
            return
        for way in cuts.ways_at(kind, self._plan["ways"]):
            if only and only[1] and only[1] != way:
                continue
            if self._passed % self._plan["every"] == 0:
                self._cut(world, kind, details, way, "")
            self._passed += 1

    def _cut(self, world, kind, details, way, after):
        case = {
            "number": world.effects, "kind": kind, "way": way, "line": self._line(),
            "ms": world.now_ms(), "after": after,
        }  # fmt: skip
        self._branch(world, self.follow, cuts.damaged(world, kind, details, way), case)

    def follow(self, twin, case):
        """The board after a cut."""
        recovered = cuts.Recovered(twin)
        if self._plan["to_the_end"]:
            until_s = max(self._seconds, twin.now_us / 1_000_000 + 60)
            done = None
        else:
            until_s, done = twin.now_us / 1_000_000 + cuts.RECOVERS_S, recovered
        if self._plan["double"] and not case["after"]:
            name = "%d/%s" % (case["number"], case["way"])

            def second(world, kind, details):
                for way in cuts.ways_at(kind, self._plan["ways"]):
                    self._cut(world, kind, details, way, name)

            twin.on_effect = second
        why = boots.run(twin, self._start, until_s, done)
        twin.on_effect = None
        self._finish(twin, case, why, True)

    def _finish(self, world, case, why, is_cut):
        case["why"] = why
        case["fault"] = cuts.fault_of(world, why, is_cut)
        case["error"], case["error_line"] = world.error
        case["duplicates"] = len(world.ledger.duplicates())
        if self._plan["reports"] or not is_cut:
            case["report"] = report(world, why, case["fault"])
        self._tell(case)

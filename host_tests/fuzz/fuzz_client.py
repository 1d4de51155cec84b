"""Coverage-guided fuzzing of the MQTT client: any bytes from the server, in any segments, in any
state of the client.

    python host_tests/fuzz/fuzz_client.py --runs 10000000 --seed 1 --target all --time-limit 4500
    python host_tests/fuzz/fuzz_client.py --mutants    each broken copy of firmware must be found
    python host_tests/fuzz/fuzz_client.py --target subscriber --replay build/fuzz/subscriber-1.txt

Whatever arrives, the outcome is an event, "need more", or a closed connection with an error and a
backoff. Never: another exception, an endless step, a buffer that grows, a message lost or released
without its acknowledgement, an acknowledgement of what no handler took, a packet that a strict
decoder refuses. `fuzz_model.py` defines what is right, `fuzz_program.py` what an input is. A
failure is minimised, saved to build/fuzz/ and printed with the command that repeats it; status 1.
`make fuzz` runs it.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from fuzz_firmware import Firmware, new_marks
from fuzz_mutants import MUTANTS
from fuzz_program import WORDS, Mutator, Program, minimised, program_of, text_of
from fuzz_reader import run_reader
from fuzz_seeds import seeds_of
from fuzz_segments import run_segments
from fuzz_world import run

# target: share of the inputs. An input takes 0.03 ms for the reader, 0.2 ms for a client, and 1 ms
# for a client with the firmware's outbox on a chip.
SHARES = {
    "reader": 54,
    "segments": 3,
    "subscriber": 17,
    "streamer": 7,
    "durable": 8,
    "exactly_once": 9,
    "durable_flash": 1,
    "exactly_once_flash": 1,
}
ROOT = paths.REPOSITORY
OUT = ROOT / "build" / "fuzz"
_HANG_S = 20  # of CPU, because by the wall clock a busy machine would look like a hang
_MOST_FAILURES = 30
_ONLY_FLASH = {"cut"}


@dataclass(slots=True)
class Failure:
    """One kind of failure: the first input that showed it, and how often it occurred."""

    target: str
    kind: str
    text: str
    program: Program
    at_input: int
    times: int = 1


class Hang(BaseException):
    """One input took longer than any input should."""


def words_of(target: str) -> tuple[str, ...]:
    if target in ("reader", "segments"):
        return ("say",)
    words = set(WORDS)
    if not target.endswith("_flash"):
        words -= _ONLY_FLASH
    if target.startswith(("durable", "exactly")):
        return tuple(sorted(words - (set() if target.startswith("durable") else {"word"})))
    return tuple(sorted(words - {"word", "fail"}))


def execute(firmware: Firmware, target: str, program: Program) -> None:
    """Raises what is wrong."""
    if target == "reader":
        run_reader(firmware.classes, program)
    elif target == "segments":
        run_segments(firmware, program)
    else:
        run(firmware, target, program)


def failure_of(firmware: Firmware, target: str, program: Program) -> tuple[str, str] | None:
    """Returns (kind of failure, its text); None: all is well. The kind is the text without its
    numbers."""
    try:
        execute(firmware, target, program)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # whatever it is: none may occur
        text = f"{type(error).__name__}: {error}"
        return re.sub(r"b'.*|b\".*|\d+|\[.*", "#", text), text
    return None


class Target:
    """A target's corpus: the inputs that first reached a branch, or a state of the protocol."""

    def __init__(self, firmware: Firmware, name: str, chance: random.Random) -> None:
        self.firmware, self.name, self.chance = firmware, name, chance
        self.fresh = new_marks(firmware)
        self.mutator = Mutator(chance, words_of(name))
        self.waiting = [program_of(text) for text in seeds_of(name).values()]
        self.corpus: list[Program] = []
        self.inputs = self.found = 0

    def step(self) -> tuple[Program, tuple[str, str] | None]:
        is_seed = bool(self.waiting)
        program = self.waiting.pop() if is_seed else self._made()
        self.inputs += 1
        failed = failure_of(self.firmware, self.name, program)
        fresh = self.fresh()
        if (fresh or is_seed) and not failed:
            self.found += fresh
            self.corpus.append(program)
        return program, failed

    def _made(self) -> Program:
        corpus = self.corpus or [[("say", 0, b"\xd0\x00")]]
        draw = self.chance.random
        place = (
            int((1 - draw() * draw()) * len(corpus)) if draw() < 0.5 else int(draw() * len(corpus))
        )
        return self.mutator.mutate(
            corpus[min(place, len(corpus) - 1)], corpus[int(draw() * len(corpus))]
        )


@dataclass
class Fuzzer:
    """targets: names. unbroken: the firmware is a mutant of this one; fuzzing ends when an input
    distinguishes the two.
    """

    firmware: Firmware
    targets: list[str]
    seed: int
    unbroken: Firmware | None = None
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
    total: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.at = [Target(self.firmware, name, self.chance) for name in self.targets]
        self.weights = [SHARES[name] for name in self.targets]

    def fuzz(
        self, runs: int, time_limit_s: float, tell: Callable[[Fuzzer], None] | None = None
    ) -> None:
        ends = time.monotonic() + time_limit_s
        while self.total < runs and time.monotonic() < ends:
            for target in self.chance.choices(
                self.at, self.weights, k=min(1000, runs - self.total)
            ):
                if tell:
                    signal.setitimer(signal.ITIMER_PROF, _HANG_S)
                program, failed = target.step()
                self.total += 1
                if failed and not (
                    self.unbroken and failure_of(self.unbroken, target.name, program)
                ):
                    self._note(target.name, program, *failed)
                    if self.unbroken:
                        return
            if tell:
                signal.setitimer(signal.ITIMER_PROF, 0)
                tell(self)

    def _note(self, target: str, program: Program, kind: str, text: str) -> None:
        key = target, kind
        if key in self.failures:
            self.failures[key].times += 1
        elif len(self.failures) < _MOST_FAILURES:
            self.failures[key] = Failure(target, kind, text, program, self.total)


def small(firmware: Firmware, failure: Failure) -> Program:
    """Returns the failing input, minimised."""

    def fails(program: Program) -> bool:
        found = failure_of(firmware, failure.target, program)
        return found is not None and found[0] == failure.kind

    return minimised(failure.program, fails)


def save(firmware: Firmware, failure: Failure) -> Path:
    program = small(firmware, failure)
    OUT.mkdir(parents=True, exist_ok=True)
    number = 1 + len(list(OUT.glob(f"{failure.target}-*.txt")))
    path = OUT / f"{failure.target}-{number}.txt"
    path.write_text(text_of(program) + "\n", encoding="utf-8")
    return path


class Progress:
    """Prints a line on stderr at intervals."""

    def __init__(self) -> None:
        self.started = self.reported_s = time.monotonic()

    def __call__(self, fuzzer: Fuzzer) -> None:
        now = time.monotonic()
        if now - self.reported_s >= 10:
            self.reported_s = now
            rate = fuzzer.total / (now - self.started)
            corpus = sum(len(target.corpus) for target in fuzzer.at)
            line = (
                f"{fuzzer.total:,} inputs, {rate:,.0f}/s, corpus {corpus}, "
                f"{len(fuzzer.failures)} kinds of failure"
            )
            print(line, file=sys.stderr, flush=True)


def report(fuzzer: Fuzzer, seconds: float) -> int:
    for target in fuzzer.at:
        print(
            f"{target.inputs:12,} {target.name}: {target.found} edges and states, "
            f"corpus {len(target.corpus)}"
        )
    reached = sum(target.found for target in fuzzer.at)
    print(
        f"{fuzzer.total:12,} inputs in {seconds:.0f} s, seed {fuzzer.seed}, "
        f"{reached} edges and states of all targets"
    )
    for failure in fuzzer.failures.values():
        path = save(fuzzer.firmware, failure)
        print(
            f"FAIL {failure.target}, {failure.times} times, "
            f"first at input {failure.at_input}: {failure.text}"
        )
        print(f"     {path.read_text(encoding='utf-8').strip()}")
        print(
            f"     repeat: python host_tests/fuzz/fuzz_client.py --target {failure.target} "
            f"--replay {path.relative_to(ROOT)}"
        )
    print(f"{len(fuzzer.failures)} kinds of failure")
    return 1 if fuzzer.failures else 0


def hunt_mutants(runs: int, seed: int) -> list[str]:
    """Returns one line for each mutant that was not found within its share of inputs; prints all
    results."""
    missed, unbroken = [], Firmware()
    for name, target, module, old, new in MUTANTS:
        fuzzer = Fuzzer(Firmware({module: (old, new)}), [target], seed, unbroken)
        fuzzer.fuzz(runs, 600)
        for failure in fuzzer.failures.values():
            print(f"found after {fuzzer.total:6,} inputs: {name}: {failure.text[:100]}")
        if not fuzzer.failures:
            missed.append(f"not found in {runs:,} inputs: {name}")
    return missed


def replay(target: str, path: Path) -> int:
    found = failure_of(Firmware(), target, program_of(path.read_text(encoding="utf-8")))
    print(found[1] if found else "all is well")
    return 1 if found else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200_000, help="inputs (default: 200,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="all", choices=("all", *SHARES))
    parser.add_argument("--time-limit", type=float, default=3600, metavar="S", help="seconds")
    parser.add_argument(
        "--mutants", action="store_true", help="prove that it can fail; --runs inputs each at most"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run one saved input of --target"
    )
    return parser.parse_args(arguments)


def _alarm(*_: Any) -> None:
    raise Hang(f"one input took more than {_HANG_S} s")


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.replay:
        return replay(options.target, options.replay)
    if options.mutants:
        missed = hunt_mutants(options.runs, options.seed)
        print("\n".join(missed) or f"all {len(MUTANTS)} mutants found")
        return 1 if missed else 0
    signal.signal(signal.SIGPROF, _alarm)
    targets = list(SHARES) if options.target == "all" else [options.target]
    fuzzer, progress = Fuzzer(Firmware(), targets, options.seed), Progress()
    fuzzer.fuzz(options.runs, options.time_limit, progress)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return report(fuzzer, time.monotonic() - progress.started)


if __name__ == "__main__":
    sys.exit(main())

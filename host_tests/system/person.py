"""Somebody who types the lines of pages, in a folder and an environment of their own, and what they
meet on the way.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.machine import children
from page_lines import Line, lines_of
from real_broker import wait_for

LIMIT_S = 180
_PORTS = ("tls", "mqtt", "page", "metrics")
Section = tuple[Path, str]  # page within the repository, and heading


class Lines:
    """All lines of these sections of the pages below `root`, and which of them were typed."""

    def __init__(self, root: Path, among: Iterable[Section]) -> None:
        self._all = [one for page, section in among for one in lines_of(root / page, section)]
        self._typed: set[Line] = set()

    def take(self, where: Section, beginning: str) -> str:
        """The line of that section that begins so, without its comment."""
        found = [
            one
            for one in self._all
            if one.section == where[1] and one.text.startswith(beginning)
        ]  # fmt: skip
        if len(found) != 1:
            raise AssertionError(f"{where[0]}, {where[1]!r}: {len(found)} lines: {beginning}")
        self._typed.add(found[0])
        return re.sub(r"\s+# .*", "", found[0].text).replace("  ", " ")

    def left(self, explained: dict[str, str]) -> list[str]:
        """Lines that were not typed and are not explained, and explanations of none."""
        untyped = [one for one in self._all if one not in self._typed]
        found = [str(one) for one in untyped if not one.text.startswith(tuple(explained))]
        return found + [
            f"no such line: {beginning}"
            for beginning in explained
            if not any(one.text.startswith(beginning) for one in self._all)
        ]


@dataclass
class Step:
    phase: str
    text: str
    seconds: float = 0.0
    surprise: str = ""


class Person:
    """folder: where lines are typed. around: the environment. replacements: pattern and by what,
    where {name} stands for one of `here`: free ports, and what a path adds."""

    def __init__(
        self,
        name: str,
        folder: Path,
        lines: Lines,
        around: dict[str, str],
        replacements: Iterable[tuple[str, str]],
    ) -> None:
        self.name, self.folder, self.around = name, folder, around
        self.steps: list[Step] = []
        self.phase = "use"  # or "install"
        self.here: dict[str, object] = {name: children.free_port() for name in _PORTS}
        self.here["page_ports"] = "--listen 127.0.0.1:{page} --metrics-port {metrics}".format(
            **self.here
        )
        self._lines = lines
        self._replacements = list(replacements)
        folder.mkdir(parents=True, exist_ok=True)

    def replaced(self, line: str) -> str:
        for pattern, by in self._replacements:
            line = re.sub(pattern, lambda found, by=by: found.expand(by).format(**self.here), line)
        return line

    def takes(self, where: Section, beginning: str) -> str:
        """A line of that section, with what this machine has; one that was typed already counts
        again."""
        return self.replaced(self._lines.take(where, beginning))

    @contextlib.contextmanager
    def _step(self, text: str, surprise: str = "") -> Iterator[None]:
        self.steps.append(Step(self.phase, text, surprise=surprise))
        began = time.monotonic()
        yield
        self.steps[-1].seconds = time.monotonic() - began
        print(f"    {self.steps[-1].seconds:6.1f} s  {text}", flush=True)

    def types(
        self, where: Section, beginning: str, said: str = "", status: int = 0, surprise: str = ""
    ) -> str:
        """A line that ends with this status and has `said` so; its output. What it changes in the
        environment stays, as in a terminal."""
        line = self._lines.take(where, beginning)
        kept = self.folder.parent / f"{self.folder.name}.environment"
        script = f"{self.replaced(line)}\nstatus=$?\nenv -0 > {shlex.quote(str(kept))}\n"
        with self._step(line, surprise):
            finished = subprocess.run(
                ["bash", "-c", script + "exit $status"],
                cwd=self.folder, env=self.around, text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        assert finished.returncode == status and said in finished.stdout, (
            f"{line}: {finished.stdout}"
        )
        pairs = (one.partition("=") for one in kept.read_text().split("\0") if one)
        self.around = {name: value for name, _, value in pairs}
        return finished.stdout

    @contextlib.contextmanager
    def leaves(
        self, where: Section, beginning: str, is_up: Callable[[str], bool]
    ) -> Iterator[Path]:
        """A line that stays: in another terminal, until Ctrl-C. is_up: of its output."""
        line = self._lines.take(where, beginning)
        log = self.folder.parent / f"{self.folder.name}-{len(self.steps)}.txt"
        with self._step(line):
            command = ["bash", "-c", f"exec {self.replaced(line).removesuffix('&')}"]
            process = children.start(command, log=log, cwd=self.folder, env=self.around)

            def is_there() -> bool:
                assert process.poll() is None, "it has ended"
                return is_up(log.read_text())

            with _killed(process, log):
                wait_for(is_there, line, LIMIT_S)
        try:
            yield log
        finally:
            process.send_signal(signal.SIGINT)
            with _killed(process, log):
                process.wait(LIMIT_S)
        assert "Traceback" not in log.read_text(), log.read_text()

    def does(self, what: str, act: Callable[[], object], surprise: str = "") -> None:
        """A step that is no line of a page. surprise: what no page told."""
        with self._step(what, surprise):
            act()

    def fills_in(self, name: str, **values: object) -> None:
        """Settings of a TOML file, where a line, or a comment, has an example."""

        def edit() -> None:
            path = self.folder / name
            text = path.read_text()
            for key, value in values.items():
                text, count = re.subn(
                    rf'(?m)^(# )?{key} = ("[^"]*"|\S+)', f"{key} = {json.dumps(value)}", text
                )
                assert count == 1, f"{name}: {key}: {count} examples"
            path.write_text(text)

        self.does(f"fills in {', '.join(values)}", edit)

    def sees(self, address: str, *words: str) -> None:
        """A page with these words."""

        def is_there() -> bool:
            with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=60) as got:
                text = got.read().decode()
                return all(word in text for word in words)
            return False

        self.does(f"opens the page: {', '.join(words)}",
                  lambda: wait_for(is_there, f"{words} on {address}", LIMIT_S))  # fmt: skip


@contextlib.contextmanager
def _killed(process: subprocess.Popen, log: Path) -> Iterator[None]:
    """If what follows fails; what it has said is part of the error."""
    try:
        yield
    except BaseException as error:
        children.kill(process)
        error.add_note(log.read_text())
        raise

"""argparse, plus two things that it does not report: which subcommand did not know an argument, and
which option a misspelt one probably means.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """The parsers of subcommands have the same class."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._given: list[str] = []

    # argparse parses a subcommand's part with this method, and leaves unknown arguments to the main
    # parser, which would report them with its own usage.
    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None):
        self._given = list(args or ())
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Adds the options that may have been meant to every message: even a missing option may
        have been given, but misspelt."""
        super().error(message + self._meant())

    def _meant(self) -> str:
        if self._subparsers is not None:  # the options belong to a subcommand
            return self._meant_subcommand()
        known = [name for name in self._option_string_actions if name.startswith("--")]
        typed = (word.partition("=")[0] for word in self._before_two_dashes())
        wrong = [word for word in typed if word.startswith("--") and word not in known]
        near = [(word, get_close_matches(word, known, 1)) for word in dict.fromkeys(wrong)]
        return "".join(f"; {word}: did you mean {found[0]}?" for word, found in near if found)

    def _meant_subcommand(self) -> str:
        word = next((one for one in self._given if not one.startswith("-")), "")
        actions = self._subparsers._group_actions if self._subparsers else []
        names = [name for action in actions for name in action.choices or ()]
        near = [] if word in names else get_close_matches(word, names, 1)
        return f"; {word}: did you mean {near[0]}?" if near else ""

    def _before_two_dashes(self) -> list[str]:
        given = self._given
        return given[: given.index("--")] if "--" in given else given

#!/usr/bin/env python3
"""Checks the subject of a commit: `folder/file: Sentence.`, 72 characters at most.

    python3 tools/commit_subject.py FILE            the message that git is about to commit
    python3 tools/commit_subject.py --range A..B    those of commits that are there

The part before the colon says where: one name or several, `tools`, `outpost/client, README`. Git's
own subjects (merges, reverts, fixup! and squash!) pass. Exit status 1, and a line for each fault.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

LONGEST = 72
_PLACE = r"[A-Za-z0-9_.*/-]+"
_FORM = re.compile(rf"{_PLACE}(, {_PLACE})*: [^a-z\s].*[.?!]")
_GIT_OWN = ("Merge ", 'Revert "', "fixup! ", "squash! ")


def fault(subject: str) -> str | None:
    """What is wrong with it, in one phrase; None when nothing is."""
    if subject.startswith(_GIT_OWN):
        return None
    if len(subject) > LONGEST:
        return f"{len(subject)} characters, {LONGEST} at most"
    if not _FORM.fullmatch(subject):
        return "not of the form `folder/file: Sentence.`"
    return None


def subject_of(message: str) -> str:
    """The first line that is no comment; empty when there is none."""
    lines = (line.strip() for line in message.splitlines() if not line.startswith("#"))
    return next((line for line in lines if line), "")


def subjects(commits: str) -> list[str]:
    """Of a range. Raises CalledProcessError when git knows no such range."""
    command = ["git", "log", "--format=%s", commits]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, help="the message")
    source.add_argument("--range", metavar="A..B", help="commits, as git log takes them")
    parsed = parser.parse_args(arguments)
    if parsed.file is not None:
        found = [subject_of(parsed.file.read_text(encoding="utf-8"))]
    else:
        found = subjects(parsed.range)
    wrong = [(subject, text) for subject in found if (text := fault(subject))]
    for subject, text in wrong:
        print(f"{text}: {subject}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks the subject line of commits: `folder/file: Sentence.`, at most 72 characters.

    python3 tools/commit_subject.py FILE            the message that git is about to commit
    python3 tools/commit_subject.py --range A..B    the messages of existing commits

The part before the colon names one place or several: `tools`, `outpost/client, README`. Git's own
subjects (merges, reverts, fixup! and squash!) pass. For each bad subject a line is printed, and the
exit status is 1.
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
    """What is wrong with the subject, in one phrase; None if it is right."""
    if subject.startswith(_GIT_OWN):
        return None
    if len(subject) > LONGEST:
        return f"{len(subject)} characters, {LONGEST} at most"
    if not _FORM.fullmatch(subject):
        return "not of the form `folder/file: Sentence.`"
    return None


def subject_of(message: str) -> str:
    """The first line that is neither empty nor a comment; "" if there is none."""
    lines = (line.strip() for line in message.splitlines() if not line.startswith("#"))
    return next((line for line in lines if line), "")


def subjects(commits: str) -> list[str]:
    """The subjects of a range of commits. Raises CalledProcessError if git rejects the range."""
    command = ["git", "log", "--format=%s", commits]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, help="the message")
    source.add_argument("--range", metavar="A..B", help="commits, in the form git log takes")
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

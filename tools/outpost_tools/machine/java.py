"""Which Java runs Spark: the one in JAVA_HOME, or else on PATH, or else the one that `outpost fetch
java` downloaded.

Uses the standard library only and does not start Spark, so that commands can check this first and
report within a second what is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine.interpreters import cache_folder

OLDEST = 17  # Spark 4 runs on nothing older
_HINT = (
    "run `outpost fetch java` (58 MB into a private folder, no root), install Java "
    f"{OLDEST} or newer (Debian: apt install default-jre-headless), or point JAVA_HOME at it"
)
_TIMEOUT_S = 60


def environment() -> dict[str, str]:
    """Additional environment variables for Spark's processes. Raises ToolError without Java.

    An unusable JAVA_HOME is an error, because somebody set it deliberately. A `java` on PATH that
    is too old is skipped.
    """
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if not java.exists():
            raise ToolError(f"no Java found in JAVA_HOME={home}: {_HINT}")
        _refuse(java, why_not(java))
        return {}
    found = shutil.which("java")
    problem = why_not(Path(found)) if found else "no Java found"
    if not problem:
        return {}
    if private().exists():
        _refuse(private(), why_not(private()))
        return {"JAVA_HOME": str(private().parent.parent)}
    _refuse(found, problem)
    return {}


def private() -> Path:
    """Where `outpost fetch java` puts `bin/java`. Spark needs nothing else of JAVA_HOME."""
    return cache_folder() / "bin" / "java"


def describe(chosen: Path | None = None) -> str:
    """The version that `java -version` prints. chosen: by default the Java that runs Spark.

    Raises ToolError.
    """
    if chosen is None:
        home = environment().get("JAVA_HOME") or os.environ.get("JAVA_HOME")
        chosen = Path(home, "bin", "java") if home else Path("java")
    if problem := why_not(chosen):
        raise ToolError(f"{chosen}: {problem}")
    return f"{_says(chosen)} ({chosen})"


def why_not(java: Path) -> str:
    """Why Spark cannot use this Java; "" if it can."""
    try:
        said = _says(java)
    except (OSError, subprocess.SubprocessError) as error:
        return f"it does not run: {error}"
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found and int(found[1]) >= OLDEST:
        return ""
    return f"it is Java {found[1] if found else '?'}, Spark needs {OLDEST}"


def _refuse(java: Path | str | None, problem: str) -> None:
    if problem:
        raise ToolError(f"{java}: {problem}: {_HINT}" if java else f"{problem}: {_HINT}")


def _says(java: Path) -> str:
    done = subprocess.run(
        [str(java), "-version"], capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
    )
    lines = [line for line in done.stderr.splitlines() if " version " in line]
    return lines[0] if lines else ""

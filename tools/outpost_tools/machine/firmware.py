"""What the desktop tools take from the firmware's own sources, so that nothing is defined twice:
status numbers, the version, the check of settings.

The firmware's packages (`outpost`, `station`) and its `micropython` do not become importable: they
stay off the tools' path, where other packages may have these names.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from types import ModuleType, SimpleNamespace

from outpost_tools.machine import source_tree


def firmware_version() -> str:
    return constants("outpost/__init__.py").__version__


def status_numbers() -> SimpleNamespace:
    return constants("outpost/status.py")


@functools.cache
def settings_module() -> ModuleType:
    """The firmware's own check of settings: `check(given, name)`, which raises SettingsError."""
    return _module("station/settings.py")


def settings_rules() -> dict:
    """{key: (type or allowed values, default, least, most)}, as `station/settings.py` has them."""
    return settings_module()._KEYS


@functools.cache
def network_rules() -> ModuleType:
    """The boards' own check of `wifi_networks`: `networks(listed)`, which raises ValueError."""
    return _module("../boards/support/wifi_networks.py")


@functools.cache
def sensor_rules() -> ModuleType:
    """The boards' own check of a sensor's settings: `check_options(keys, given)`, which raises
    ValueError."""
    return _module("../boards/support/sensor_file.py")


@functools.cache
def sensor_faults() -> tuple[str, ...]:
    """The faults of a sensor, by number."""
    return constants("station/guard.py").FAULTS


@functools.cache
def constants(path: str) -> SimpleNamespace:
    """The plain values that a module of firmware/ defines: `OK = const(0)`, `VERSION = "1"`."""
    tree = ast.parse((source_tree.repository() / "firmware" / path).read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "const":
                value = value.args[0]
            try:
                found[node.targets[0].id] = ast.literal_eval(value)
            except ValueError:  # computed: we do not need it
                continue
    return SimpleNamespace(**found)


def _module(path: str) -> ModuleType:
    """Loads a module of firmware/ that imports no other one, under a name of its own."""
    file = source_tree.repository() / "firmware" / path
    spec = importlib.util.spec_from_file_location(f"_firmware_{file.stem}", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made

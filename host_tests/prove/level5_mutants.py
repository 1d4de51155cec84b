"""What kills a mutant of MQTT 5: its unit tests. No scope speaks it. `mutants.py` runs it."""

from mutant_changes import Mutant

MODULES = (
    "level5_aliases", "level5_expiry", "level5_own_aliases", "level5_refusals", "level5_session",
    "level5_setup", "level5_subscribing", "properties",
)  # fmt: skip
TESTS = (
    "test_level5", "test_level5_aliases", "test_level5_conformance", "test_level5_expiry",
    "test_level5_golden", "test_level5_long", "test_level5_subscribing", "test_properties",
)  # fmt: skip


def killer(mutant: Mutant) -> str:
    """No scope kills it."""
    return ""

"""What kills a mutant of the outbox: three scopes of the proof, limited to their first states, then
the unit tests. `mutants.py` runs this.
"""

from __future__ import annotations

import ast
import signal

import outbox_real
from mutant_changes import Mutant
from outbox_scopes import SCOPES
from prove_outbox import explorer

MODULES = outbox_real.modules()
TESTS = (
    "test_outbox", "test_outbox_contract", "test_outbox_format", "test_policies",
    "test_policies_faults", "test_state_note", "test_shelf", "test_shelf_doubt",
    "test_shelf_faults", "test_shelf_bookkeeping", "test_ring", "test_sectors", "test_outbox_reads",
    "test_outbox_mount", "test_outbox_settle", "test_outbox_bad_images", "test_outbox_faults",
    "test_outbox_power_loss", "test_outbox_bookkeeping", "test_outbox_format_1", "test_outbox_wear",
    "test_exactly_once", "test_series", "test_series_bits", "test_series_bounds",
    "test_series_record", "test_series_gather", "test_series_outbox", "test_series_power_loss",
)  # fmt: skip
_STATES = 300
_CPU_S = 20  # a scope: without a mutant it takes 2


class _Endless(BaseException):
    pass


def _stop(signum: int, frame: object) -> None:
    raise _Endless


def killer(mutant: Mutant) -> str:
    """Returns the scope that kills it, and how; "": none."""
    if mutant.module in ("shelf", "shelf_block"):  # no scope sets a message aside
        return ""
    signal.signal(signal.SIGVTALRM, _stop)
    is_series = mutant.module in outbox_real.SERIES
    for scope in [one for one in SCOPES if one.kills and one.is_series == is_series]:
        signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_S)
        try:
            real = outbox_real.Real(scope.block_bytes, (mutant.module, _replaced(mutant.tree())))
            found = explorer(scope, real).run(_STATES).violations
        except _Endless:
            return f"{scope.name}: does not end"
        except Exception as fault:
            return f"{scope.name}: {type(fault).__name__}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if found:
            return f"{scope.name}: {found[0][0].split(':')[0]}"
    return ""


def _replaced(broken: ast.Module):
    """Returns the function that outbox_real needs: it changes the module's tree, in which block
    size and marks are already set, into the mutant's."""

    def change(tree: ast.Module) -> ast.Module:
        constants = [node for node in tree.body if isinstance(node, ast.Assign)]
        values = {ast.unparse(node.targets[0]): node.value for node in constants}
        for node in broken.body:
            if isinstance(node, ast.Assign):
                node.value = values[ast.unparse(node.targets[0])]
        return broken

    return change

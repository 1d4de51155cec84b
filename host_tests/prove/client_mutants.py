"""What kills a mutant of the code around the sessions: its unit tests. No scope runs that code.
`mutants.py` runs this.
"""

from mutant_changes import Mutant

MODULES = (
    "client", "connect_packet", "in_flight", "queued", "retry", "suspects", "streaming",
    "ram_outbox", "ram_shelf", "topics", "series_bits",
)  # fmt: skip
TESTS = (
    "test_client", "test_suspects", "test_suspects_steps", "test_retry", "test_retry_steps",
    "test_in_flight", "test_queued", "test_streaming", "test_connection_life", "test_defects",
    "test_outbox_contract", "test_session_house", "test_conformance_client",
    "test_scripted_server", "test_series_bits", "test_packets", "test_progress",
    "test_progress_day",
)  # fmt: skip


def killer(mutant: Mutant) -> str:
    """No scope kills it."""
    return ""

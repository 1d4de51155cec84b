"""Reconnect delay: exponential with jitter, so that a thousand boards do not come back in step after a broker's restart."""

from micropython import const

_FIRST_MS = const(500)
_LONGEST_MS = const(60_000)


def delay_ms(attempt, random_bits):
    """Milliseconds to wait before connection attempt `attempt` (0 = at once). Half of the step is fixed, half is random.

    random_bits: any integer of at least 16 random bits.
    """
    if attempt == 0:
        return 0
    step = min(_FIRST_MS << min(attempt - 1, 7), _LONGEST_MS)
    return step // 2 + (random_bits & 0xFFFF) * (step // 2) // 0x10000

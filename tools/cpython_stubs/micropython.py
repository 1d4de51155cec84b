"""What the firmware needs of MicroPython's `micropython` module when it runs under CPython (tests
and tools).

Without `viper` and `native`: the firmware asks for them and falls back to plain Python. Without
`mem_alloc`-like figures: CPython has no such heap, and a false number would be worse than an
AttributeError.
"""


def const(value):
    """MicroPython folds it at compile time; here it is the value."""
    return value


def heap_lock():
    """Nothing to lock. Returns the lock depth as MicroPython does: always 0."""
    return 0


def heap_unlock():
    """Returns the lock depth as MicroPython does: always 0."""
    return 0


def heap_locked():
    """Returns the lock depth: always 0."""
    return 0


def opt_level(level=0):
    """CPython's optimisation is chosen on its command line; the call is accepted and does
    nothing."""


def kbd_intr(character):
    """The serial console's interrupt character: none here."""


def schedule(function, argument):
    """Calls at once: there is no interrupt to get out of."""
    function(argument)


def alloc_emergency_exception_buf(size):
    """CPython always has room for an exception."""

"""The part of MicroPython's `micropython` module that the firmware needs when it runs under CPython
(tests and tools).

It has no `viper` and `native`: the firmware checks for them and falls back to plain Python. It also
has no figures of memory use: CPython has no such heap, and a wrong number would be worse than an
AttributeError.
"""


def const(value):
    """MicroPython evaluates it at compile time; here it returns the value."""
    return value


def heap_lock():
    """There is nothing to lock. Returns the lock depth, as MicroPython does: always 0."""
    return 0


def heap_unlock():
    """Returns the lock depth, as MicroPython does: always 0."""
    return 0


def heap_locked():
    """Returns the lock depth: always 0."""
    return 0


def opt_level(level=0):
    """Does nothing: CPython's optimisation level is chosen on its command line."""


def kbd_intr(character):
    """Does nothing: there is no serial console whose interrupt character could be set."""


def schedule(function, argument):
    """Calls the function at once: there is no interrupt to leave first."""
    function(argument)


def alloc_emergency_exception_buf(size):
    """Does nothing: CPython always has memory for an exception."""

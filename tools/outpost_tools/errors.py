"""The one error that the tools raise deliberately."""


class ToolError(Exception):
    """Something outside the program is wrong: bad input, a missing file, a missing interpreter.

    The message is one line and says what is wrong and what to do. `outpost` prints it and exits
    with status 2.
    """

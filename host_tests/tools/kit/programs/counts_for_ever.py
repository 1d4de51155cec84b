"""Hangs: a loop that calls nothing, with an `except` that catches everything."""

number = 0
while True:
    try:
        number += 1
    except:  # noqa: E722, S110 - what this program is about
        pass

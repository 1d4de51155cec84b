"""Freeze list for a custom build: include() it in the board's manifest.

The library alone: its first line.
"""
# pyright: reportUndefinedVariable=false

# The build's own function: every module of the folder.
package("outpost", base_path=".")  # noqa: F821
package("station", base_path=".")  # noqa: F821
package("support", base_path="../boards")  # noqa: F821

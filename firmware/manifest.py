"""Freeze list for a custom build: include() it in the board's manifest. The library alone: its first line."""
# pyright: reportUndefinedVariable=false

package("outpost", base_path=".")  # noqa: F821 - the build's own function: every module of the folder
package("station", base_path=".")  # noqa: F821
package("support", base_path="../boards")  # noqa: F821

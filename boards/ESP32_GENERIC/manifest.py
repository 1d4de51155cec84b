"""What a frozen build for this board contains, besides the port's own manifest."""
# pyright: reportUndefinedVariable=false

include("$(PORT_DIR)/boards/manifest.py")  # noqa: F821 - the build's own function
include("../../firmware/manifest.py")  # noqa: F821
module("board.py")  # noqa: F821
module("main.py", base_path="../../firmware")  # noqa: F821

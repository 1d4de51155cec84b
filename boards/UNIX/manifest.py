"""What a frozen UNIX build would contain, besides the firmware."""
# pyright: reportUndefinedVariable=false

include("../../firmware/manifest.py")  # noqa: F821 - the build's own function
module("board.py")  # noqa: F821
module("host_clock.py")  # noqa: F821
module("host_sensors.py")  # noqa: F821
module("nor_flash.py")  # noqa: F821
module("socket_link.py")  # noqa: F821

"""`raw_repl.py` for a board with its own filesystem: `/` is littlefs on `board.img` (`rig.py`), and
the program is its /main.py.

Arguments as in raw_repl.py: how it was reset, and the program.
"""

import sys

import raw_repl
import rig

raw_repl.window = 1024  # for speed; a board's is 128, as in raw_repl.py

if __name__ == "__main__":
    rig.mount("board.img", raw_repl.FRIENDLY_RESET, sys.argv[1] == "raw")
    raw_repl.console(sys.argv[1], sys.argv[2])

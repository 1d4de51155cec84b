"""`outpost` with the firmware compiled beforehand, so that a test can start and kill it often.

Arguments: a pickle of what payload.build() returned, the source tree, then `outpost`'s own.
"""

import pickle
import sys
from pathlib import Path

from outpost_tools import cli
from outpost_tools.boards.files import payload
from outpost_tools.machine import source_tree

if __name__ == "__main__":
    files = pickle.loads(Path(sys.argv[1]).read_bytes())
    payload.build = lambda *_, **__: files
    source_tree.repository = lambda: Path(sys.argv[2])
    sys.exit(cli.main(sys.argv[3:]))

"""What boards share. What is where: README.md beside this file."""

import gc

# Before any other import: otherwise their garbage fills the whole heap before the first collection,
# and no gap is left for the contiguous 17 KB that TLS allocates. A board.py imports this first.
if hasattr(gc, "threshold"):  # CPython has none
    gc.threshold(65_536)  # pyright: ignore[reportAttributeAccessIssue]

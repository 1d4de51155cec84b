"""`outpost try`: a program of the user's own on this machine, as if on a board."""

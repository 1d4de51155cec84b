"""A command at a terminal. Knows no subcommand.

command_line.py  the parser of a subcommand, and the types of its arguments
parser.py        argparse, and which option a misspelt one probably means
ending.py        the end of a program that runs until a signal asks for it
notices.py       what we are waiting for: reported once, repeats folded
"""

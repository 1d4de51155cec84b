"""Text for people, and from people.

words.py      numbers and times as a person reads them
visible.py    makes text from others safe for a terminal or a log
csv_cells.py  cells that a spreadsheet would run as a formula
toml_file.py  a TOML file that a person wrote, with errors that the person understands
"""

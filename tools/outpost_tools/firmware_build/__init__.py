"""Compiles the firmware for a board, with every name that is not public replaced by a word that costs the board no RAM.

On a 32-bit board an .mpy file brings its names into RAM: each attribute, method, function and argument, some 22 bytes a name,
a third of what the firmware takes. The words of the .mpy format's own list are in every interpreter's ROM (`words.py`), so
the firmware may call its things by them, and its source keep the long names.

    public.py      firmware/public_names.txt: what stays, and which modules come into one file
    constants.py   numbers that one module takes from another become literals
    merge.py       several modules into one file
    scopes.py      which name stands where, and whose it is: Python's rules of scope
    package.py     the modules together: imports, families of classes, what is public, what is foreign
    naming.py      chooses the words, those of words.py
    compact.py     the five above in a row: sources in, sources with short names out
    mpy.py         mpy-cross
    legend.py      names.txt, and a traceback read back
    output.py      reads the folder, writes the folder, the table

What a program may not do with a compact build: import a module that came into another's file; use a name that is not public;
give a class of ours new attributes, or derive one with new names (a short name may be among them: make it public first).

Works on the syntax tree, and writes the source anew from it: what compiles is the same program, on other lines. So line numbers
mean nothing in a compact build (-O3 drops them in any case); `--debug` compiles the source as it stands, with line numbers.
"""

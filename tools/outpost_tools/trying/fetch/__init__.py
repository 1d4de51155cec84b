"""Programs that the tools need and the machine may lack: MicroPython, a broker, Java; for the tests
a browser. They come from Debian's archive into a private folder: no root, nothing installed, no
service started.

arguments.py        `outpost fetch`
programs.py         which programs, and the check that each runs
chromium.py         which browser the tests take, and what is fetched without one
debian_packages.py  a private apt, and how packages are unpacked
program.py          a program of an unpacked package, and the script that starts it
cache_rules.py      one run at a time, each part complete or absent

Standard library only: `tools/setup.py` uses it before there is a virtual environment.
"""

"""Programs that the tools need and the machine may lack: MicroPython, a broker, Java. They come
from Debian's archive into a private folder: no root, nothing installed, no service started.

arguments.py        `outpost fetch`
programs.py         which programs, and the check that each runs
debian_packages.py  a private apt; packages unpacked and started from their folder
cache_rules.py      one run at a time, each part complete or absent

Standard library only: `tools/setup.py` uses it before there is a virtual environment.
"""

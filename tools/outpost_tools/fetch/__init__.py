"""Programs that the tools run and the machine may lack: MicroPython, a broker, Java. They come from
Debian's archive into a private folder: no root, nothing installed, no service started.

arguments.py        `outpost fetch`
programs.py         which programs, and how each shows that it runs
debian_packages.py  a private apt; packages unpacked and started where they lie
cache_rules.py      one run at a time, each part whole or absent

Standard library only: `tools/setup.py` uses it before there is a virtual environment.
"""

"""Files for service managers: systemd's units, a recipe for a container.

arguments.py    the subcommand
units.py        systemd: collector, pipeline by a timer, the user
container.py    the recipe, and how to run it
"""

"""`outpost run`: everything that a home needs, in one group of processes and one folder.

arguments.py   the subcommand
state.py       the folder and its layout; only one `outpost run` uses it at a time
own_broker.py  mosquitto with users and rights, used unless another broker is given
ports.py       checks first that the ports are free
plan.py        the processes and jobs, as command lines, and the lines printed about them
process.py     a child process that is restarted when it ends, after growing pauses
jobs.py        periodic work: tables, report, compaction, export
supervisor.py  starts, watches, reports on, and ends all of it
"""

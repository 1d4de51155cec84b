"""`outpost run`: what a home needs, in one group of processes and one folder.

arguments.py   the subcommand
state.py       the folder: what is where in it, one `outpost run` at a time
own_broker.py  mosquitto with users and rights, where no other broker is given
ports.py       whether its ports can be had, asked first
plan.py        which processes and which jobs, as command lines; what is told about them
process.py     a child that is started again when it ends, at growing distances
jobs.py        what runs now and then: tables, report, compaction, export
supervisor.py  starts, watches, tells, and ends all of it
"""

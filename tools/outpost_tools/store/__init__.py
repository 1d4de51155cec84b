"""Where the log and the tables lie: a folder of this machine, or a folder in a bucket.

    at.py        a place that a user named, as a Store; refuses what it does not know
    base.py      what a Store does, and which promises it keeps
    local.py     a folder of this machine: durable once the disk has it
    objects.py   a folder in a bucket (S3, Azure, Google): durable once the service has answered
    keys.py      are there keys for a service; without them its libraries would hang
    advice.py    what a service's refusal means, and what to do
    probe.py     whether a bucket refuses the second of two creations, as everything here needs

Collector, pipeline, export, live page and report know no other way to reach a file of the log or
of the tables. Nothing here knows what is stored.
"""

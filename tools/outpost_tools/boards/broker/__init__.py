"""A broker that accepts only registered clients: creates and changes mosquitto's configuration, its
certificates, users and rights.

README.md         how it is used, and what an intruder can do
arguments/        `outpost broker init`, `add`, `revoke`, `list`
making.py         init: creates what is missing, and updates the rest
about.py          broker.json, with a check of each field
folder.py         the folder that init makes: where everything is, and who may read it
certificates.py   our own certificate authority, and the broker's certificate
given.py          or the user's certificates: whether they belong together
rights.py         who may do what: roles of mosquitto's dynamic-security plugin; pure
security_file.py  the plugin's file, while no broker has it open; pure except for load
control.py        the plugin of a running broker, through its control topic
configuration.py  mosquitto.conf, and where the plugin is
members.py        boards, collectors and monitors: add, revoke, list, with the broker running or not
"""

"""A broker that only lets in who belongs: mosquitto's configuration, its certificates, users and
rights, made and changed.

README.md         how it is used, and what a rogue meets
arguments/        `outpost broker init`, `add`, `revoke`, `list`
making.py         init: what is made once, and what is brought up to date
folder.py         the folder that init makes: where everything is, who may read it
certificates.py   a certificate authority of our own, and the broker's certificate
given.py          or certificates of one's own: whether they go together
rights.py         who may do what: roles of mosquitto's dynamic-security plugin; pure
security_file.py  the plugin's file, while no broker has it open; pure but for load and save
control.py        the plugin of a broker that runs, by its control topic
configuration.py  mosquitto.conf, and where the plugin is
members.py        boards, collectors and monitors: add, revoke, list, running or not
"""

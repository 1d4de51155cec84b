"""A recipe for a container with the collector, or with `outpost run`: no root inside, a read-only
system. Text only."""

from __future__ import annotations

import json

from outpost_tools.servers.service.units import METRICS_PORT, STATE, HomeService, Service

_USER_ID = 10001  # not a user of the host
_COLLECTOR_HEAD = """\
# The collector in a container. Put the wheel beside this file, then:
#
#   podman build --build-arg BASE=<Python 3.11 or newer with venv> -t outpost-collector .
#   podman run --read-only --cap-drop=all --security-opt=no-new-privileges \\
#       --volume outpost-log:{state} outpost-collector
#
# Choose BASE yourself, by its digest: an image pulled by name may change.
"""
_CONTAINERFILE = """\
{head}ARG BASE
FROM ${{BASE}}
{packages}COPY outpost_mqtt-*.whl /tmp/
# a separate environment, because Debian's pip refuses to install beside Debian's packages
RUN python3 -m venv /opt/outpost \\
    && /opt/outpost/bin/pip install --no-cache-dir /tmp/outpost_mqtt-*.whl \\
    && rm /tmp/outpost_mqtt-*.whl \\
    && mkdir -p {state} && chown {user}:{user} {state}
USER {user}:{user}
WORKDIR {state}
VOLUME {state}
ENV PATH=/opt/outpost/bin:/usr/local/bin:/usr/bin:/bin HOME={state} PYTHONDONTWRITEBYTECODE=1
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --start-period=60s CMD ["python3", "-c", \\
    "import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/healthz', timeout=5)"]
ENTRYPOINT ["outpost"]
CMD {command}
"""
_HOME_HEAD = """\
# `outpost run` in a container. Put the wheel beside this file, and a password for the page into
# secrets/page.txt; then:
#
#   podman build --build-arg BASE=<Debian 12 or newer with python3-venv> -t outpost-home .
#   podman run --read-only --tmpfs /tmp --cap-drop=all --security-opt=no-new-privileges \\
#       --volume outpost-home:{state} --volume ./secrets:/run/secrets:ro \\
#       --publish 8883:8883 --publish 8180:8180 outpost-home \\
#       run {state} --host <the address with which boards reach this machine> \\
#       --listen 0.0.0.0:8180 --password-file /run/secrets/page.txt
#
# Without arguments the page is on the container's own loopback. Without Java there are no tables.
"""
_HOME_BROKER = """\
RUN apt-get update && apt-get install -y --no-install-recommends mosquitto \\
    && rm -rf /var/lib/apt/lists/*
"""


def home_containerfile(service: HomeService) -> str:
    """The text of Containerfile, for `outpost run`."""
    return _containerfile(_HOME_HEAD, _HOME_BROKER, service.command[1:])


def containerfile(service: Service) -> str:
    """The text of Containerfile."""
    return _containerfile(_COLLECTOR_HEAD, "", service.collect[1:])


def _containerfile(head: str, packages: str, command: list[str]) -> str:
    return _CONTAINERFILE.format(
        head=head.format(state=STATE), packages=packages, state=STATE, user=_USER_ID,
        port=METRICS_PORT, command=json.dumps(command),
    )  # fmt: skip

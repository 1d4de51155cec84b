"""A recipe for a container with the collector: no root inside, a read-only system. Text only."""

from __future__ import annotations

import json

from outpost_tools.service.units import METRICS_PORT, STATE, Service

_USER_ID = 10001  # no user of the host
_CONTAINERFILE = """\
# The collector in a container. Put the wheel beside this file, then:
#
#   podman build --build-arg BASE=<an image with Python 3.11 or newer> -t outpost-collector .
#   podman run --read-only --cap-drop=all --security-opt=no-new-privileges \\
#       --volume outpost-log:{state} outpost-collector
#
# BASE is yours to choose, by its digest: what is pulled by a name alone may change.
ARG BASE
FROM ${{BASE}}
COPY outpost_mqtt-*.whl /tmp/
RUN pip install --no-cache-dir /tmp/outpost_mqtt-*.whl && rm /tmp/outpost_mqtt-*.whl \\
    && mkdir -p {state} && chown {user}:{user} {state}
USER {user}:{user}
WORKDIR {state}
VOLUME {state}
ENV HOME={state} PYTHONDONTWRITEBYTECODE=1
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --start-period=60s CMD ["python3", "-c", \\
    "import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/healthz', timeout=5)"]
ENTRYPOINT ["outpost"]
CMD {command}
"""


def containerfile(service: Service) -> str:
    """The text of Containerfile."""
    return _CONTAINERFILE.format(
        state=STATE, user=_USER_ID, port=METRICS_PORT, command=json.dumps(service.collect[1:])
    )

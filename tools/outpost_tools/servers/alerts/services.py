"""The services of the package apprise, which is optional: about a hundred, each named by a URL.

Law: like our own webhook, a service follows no redirect and verifies TLS, whatever its URL says.
apprise's log may contain secrets and is not shown.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

PACKAGE = "apprise"


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


def opened(url: str) -> Any:
    """The service; None if apprise does not know the URL."""
    import apprise

    log = logging.getLogger("apprise")
    log.handlers, log.propagate = [logging.NullHandler()], False
    # by default, it also loads no plugins of other authors
    asset = apprise.AppriseAsset(http_redirects=False, secure_logging=True, async_mode=False)
    made = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if made is None or not isinstance(made, apprise.NotifyBase):
        return None
    made.redirects, made.verify_certificate = False, True  # ?redirect=yes, ?verify=no
    return made


def is_sent(service: Any, title: str, text: str) -> bool:
    return bool(service.notify(body=text, title=title))

"""What a service's refusal means, and what to do about it: in words, without its XML.

Answers about a signature repeat it, some with the name of the key; an address may have a token in
its query. So nothing of an answer is shown but its code.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BUSY = "the service refuses that many requests; it may take them later"
_FAILS = "the service has failed; look at its state, and try again later"
_FULL = "the storage is full; delete something, or raise the quota"
_KEYS = "the service does not know these keys; check those in the environment"
_EXPIRED = "the keys have expired; put new ones into the environment"
_RIGHTS = "the keys have no right to do this; check their policy"
_CLOCK = "the clock of this machine is not that of the service; set it, best by NTP"
_BUCKET = "no such bucket; make it, or check its name and the address of the service"
_REGION = "the bucket is in another region; set AWS_REGION"
_CONDITIONS = "the service does not know this request; conditional writes are needed"

_CODES = {
    "AccessDenied": _RIGHTS,
    "AuthorizationFailure": _RIGHTS,
    "AuthorizationPermissionMismatch": _RIGHTS,
    "InsufficientAccountPermissions": _RIGHTS,
    "InvalidAccessKeyId": _KEYS,
    "SignatureDoesNotMatch": _KEYS,
    "AuthenticationFailed": _KEYS,
    "InvalidToken": _EXPIRED,
    "ExpiredToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": _CLOCK,
    "RequestExpired": _CLOCK,
    "NoSuchBucket": _BUCKET,
    "ContainerNotFound": _BUCKET,
    "InvalidBucketName": _BUCKET,
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "QuotaExceeded": _FULL,
    "XMinioStorageFull": _FULL,
    "NotImplemented": _CONDITIONS,
}
_STATUSES = {
    "401": _KEYS, "403": _RIGHTS, "429": _BUSY, "500": _FAILS, "501": _CONDITIONS, "502": _FAILS,
    "503": _BUSY, "504": _FAILS, "507": _FULL,
}  # fmt: skip
# Errors before any answer, in the words of obstore.
_WORDS = (
    ("Missing SecretAccessKey", "AWS_ACCESS_KEY_ID is set, but not AWS_SECRET_ACCESS_KEY"),
    ("redirect without LOCATION", _REGION),
    ("builder error", "an address without TLS: take https://, or set AWS_ALLOW_HTTP=true"),
    ("TimedOut", "no answer in time; check the network and the address of the service"),
    ("error sending request", "not reached; check the network and the address of the service"),
    ("error decoding response body", "the connection ended before the answer did; try again later"),
)
_MISSING = frozenset({"NoSuchKey", "BlobNotFound", ""})


class Refusal(NamedTuple):
    """What an error says. method, status, code: of the service's answer; "": none."""

    method: str
    status: str
    code: str
    text: str

    @property
    def is_missing_file(self) -> bool:
        """A file that is not there, not its bucket. The answer about one may have no body."""
        return self.code in _MISSING

    def __str__(self) -> str:
        advice = _CODES.get(self.code) or _STATUSES.get(self.status)
        found = advice or next((said for words, said in _WORDS if words in self.text), self._plain)
        answer = " ".join(filter(None, (self.method, self.status, self.code)))
        return f"{found} ({answer})" if answer else found

    @property
    def _plain(self) -> str:
        """The first line, without what may be secret: the query of an address, and an answer."""
        lines = self.text.strip().splitlines() or ["the service refuses"]
        return re.sub(r"\?[^ )]*", "", lines[0].partition("<")[0])[:200].strip()


def read(error: Exception) -> Refusal:
    text = str(error)
    return Refusal(
        _first(r"Error performing ([A-Z]+)\b", text),
        _first(r"status code: (\d+)", text),
        _first(r"<Code>(\w+)</Code>", text),
        text,
    )


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""

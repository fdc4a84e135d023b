"""Asks an S3 server for a bucket: whether it is there, and lets these keys list it and write to it.

Each way in which that fails has its own reason and remedy, and takes a minute at most.
"""

import re
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError, NameResolutionError, SSLError

from deskyard.errors import ConfigError
from deskyard.life.backup.bucket import Bucket
from deskyard.life.backup.signature import Request
from deskyard.plan.printable import printable

CONNECT_SECONDS, ANSWER_SECONDS = 20.0, 60.0
ANY_REGION = "us-east-1"
_MOST_BYTES = 1 << 16
# An object that restic does not know; it is gone again, unless the keys may not delete.
PROBE = "deskyard-reach"
_REASONS = {
    "InvalidAccessKeyId": (
        "its server does not know the access key",
        "correct AWS_ACCESS_KEY_ID, or the file of backups_s3.credentials_file",
    ),
    "SignatureDoesNotMatch": (
        "the secret is not that of the access key",
        "correct AWS_SECRET_ACCESS_KEY, or the file of backups_s3.credentials_file",
    ),
    "ExpiredToken": ("the keys have expired", "get new ones; without AWS_SESSION_TOKEN they do not expire"),
    "NoSuchBucket": ("its server has no such bucket", "make it there, private, or correct backups in the site's file"),
    "RequestTimeTooSkewed": (
        "the clock of this machine is not that of its server",
        "set the clock of this machine: timedatectl set-ntp true",
    ),
}
_OF_REGION = ("AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraint")


@dataclass(frozen=True)
class Answer:
    """A server's answer: its status, its error code and message, and the region that it names."""

    status: int
    code: str
    message: str
    region: str


def require(bucket: Bucket, *, write: bool = False) -> None:
    """Raise `ConfigError` unless the bucket can be listed and, if asked for, written to; it never shows a key."""
    link = _Link(bucket)
    answer = link.ask("GET", "", {"list-type": "2", "max-keys": "1", "prefix": bucket.prefix})
    if answer.status != 200:
        raise _refused(bucket, answer, "list it, read, write and delete in it")
    if write:
        probe = f"{bucket.prefix}{PROBE}"
        answer = link.ask("PUT", probe, {})
        if answer.status != 200:
            raise _refused(bucket, answer, "write and delete in it")
        link.ask("DELETE", probe, {})


class _Link:
    """Requests to the server of a bucket, signed for the region that it turns out to be in."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket, self._keys, self._region = bucket, bucket.keys(), bucket.region or ANY_REGION
        url = urlsplit(bucket.url)
        self._host = url.netloc if bucket.in_path else f"{bucket.name}.{url.netloc}"
        self._url = f"{url.scheme}://{self._host}"
        named: dict[str, Any] = {"retries": False, "timeout": urllib3.Timeout(CONNECT_SECONDS, ANSWER_SECONDS)}
        if url.scheme == "https":
            named["ssl_context"] = bucket.trust()
        # restic goes through the proxy that the environment names, too.
        proxy = None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)
        self._pool = urllib3.ProxyManager(proxy, **named) if proxy else urllib3.PoolManager(**named)

    def ask(self, method: str, key: str, query: dict[str, str]) -> Answer:
        """Make a request; once more if the server says that the bucket is in another region, and none is named."""
        answer = self._send(method, key, query)
        if answer.status != 200 and answer.region not in ("", self._region) and self._bucket.region is None:
            self._region = answer.region
            answer = self._send(method, key, query)
        return answer

    def _send(self, method: str, key: str, query: dict[str, str]) -> Answer:
        path = f"/{self._bucket.name}/{key}" if self._bucket.in_path else f"/{key}"
        request = Request(method, self._host, path.rstrip("/") or "/", query)
        headers = request.headers(self._keys, self._region, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        try:
            answer = self._pool.request(
                method, self._url + request.target, headers=headers, redirect=False, preload_content=False
            )
            with answer:
                text = answer.read(_MOST_BYTES).decode(errors="replace")
        except HTTPError as error:
            raise self._unreached(error) from error
        region = answer.headers.get("x-amz-bucket-region") or _inside(text, "Region")
        status = 200 if answer.status in (200, 204) else answer.status
        return Answer(status, _inside(text, "Code"), _inside(text, "Message"), printable(region))

    def _unreached(self, error: HTTPError) -> ConfigError:
        cause = error.reason if isinstance(error, MaxRetryError) and error.reason else error
        said = printable(str(cause).rpartition(": ")[2])
        host = urlsplit(self._bucket.url).netloc
        if isinstance(cause, NameResolutionError):
            reason, remedy = f"the name of its server is not known: {self._host}", "correct backups in the site's file"
            if not self._bucket.in_path:
                remedy += ", or write backups_s3: {path_style: true}"
        elif isinstance(cause, SSLError) and "certificate" in str(cause).lower():
            reason = f"the certificate of its server is not trusted: {said}"
            remedy = "name its authority, backups_s3: {ca: FILE}, or correct the server's name"
        elif isinstance(cause, SSLError):
            reason, remedy = f"its server speaks no TLS: {said}", f"correct its port, or write s3:http://{host}/..."
        else:
            reason = f"its server cannot be reached: {said}"
            remedy = (
                "see whether it runs, and whether a firewall is between; correct backups in the site's file if need be"
            )
        return ConfigError("backups", self._bucket.location, reason, remedy)


def _refused(bucket: Bucket, answer: Answer, right: str) -> ConfigError:
    if answer.code in _REASONS:
        reason, remedy = _REASONS[answer.code]
    elif answer.code in _OF_REGION:
        reason = f"its bucket is in another region{f', {answer.region}' if answer.region else ''}"
        remedy = f"write backups_s3: {{region: {answer.region or 'REGION'}}}, or the address of that region's server"
    elif answer.status == 403:
        reason, remedy = f"the keys may not {right.partition(',')[0].partition(' and')[0]}", f"let them {right}"
        reason += f" ({answer.code})" if answer.code not in ("", "AccessDenied") else ""
    elif not answer.code:
        reason = f"its server answers as no S3 server does: HTTP {answer.status}"
        remedy = "correct host and port of backups in the site's file; many servers have S3 on a port of its own"
    else:
        reason, remedy = f"its server refuses: {answer.code}: {answer.message}", "mend what it says"
    return ConfigError("backups", bucket.location, reason, remedy)


def _inside(text: str, tag: str) -> str:
    """The content of a tag in an answer; the whole document is not parsed, for it may be of anybody."""
    found = re.search(rf"<{tag}>([^<]*)</{tag}>", text)
    return printable(found[1]) if found else ""

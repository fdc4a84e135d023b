"""The API of Proxmox VE: verified TLS, a token in one header, bounded calls, errors that say what to do.

This is built on urllib3, not on proxmoxer: proxmoxer has neither certificate pinning by fingerprint nor retries, and
reads a whole upload into memory without a further library; what would be left of it is the joining of paths.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)
from urllib3.util.ssl_ import create_urllib3_context

from deskyard.errors import ConfigError, SiteError
from deskyard.model.proxmox import Cluster
from deskyard.model.site import Site
from deskyard.site.proxmox import retry
from deskyard.site.proxmox.token import Token, read_token

BASE = "/api2/json"
# pveproxy ends idle connections after seconds: on one that it is just ending, a POST is lost or done, nobody knows.
_EACH_CALL = {"Accept": "application/json", "Connection": "close"}
_REMEDIES = {
    401: "check the token: pveum user token list USER; it may be wrong, expired or deleted",
    403: "give the token what it lacks: ./inv site.check names it with the command",
    404: "check the names of node and storage in the site's file",
    501: "check the version of Proxmox VE: ./inv site.check says which is needed",
    595: "check the node with ./inv site.check: the one that was asked cannot reach it",
    596: "check the node with ./inv site.check: the way to it broke while it was asked",
}


@dataclass
class ApiError(SiteError):
    """A call that the cluster refused, or whose answer never came.

    `status` is the HTTP status, 0 without an answer; `unsure` says that the call may have been done all the same.
    """

    status: int = 0
    unsure: bool = False


@dataclass(frozen=True)
class Pace:
    """How long calls may take and how often they are tried, in seconds."""

    connect: float = 10
    read: float = 90
    upload: float = 900
    attempts: int = 6
    first_pause: float = 0.5
    longest_pause: float = 8


@dataclass(frozen=True)
class Answer:
    """An answer of the cluster: the decoded body, and its headers."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        """The data that was asked for."""
        return self.body.get("data")

    @property
    def date(self) -> float | None:
        """When it answered, by its own clock: seconds since 1970; None if it does not say."""
        said = self.headers.get("Date") or self.headers.get("date")
        return parsedate_to_datetime(said).timestamp() if said else None


class Client:
    """Calls the API of a cluster. Safe to use from several threads."""

    def __init__(
        self,
        cluster: Cluster,
        token: Token,
        pace: Pace | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.cluster = cluster
        self.token = token
        self.pace = pace or Pace()
        self.sleep = sleep
        self.address = f"{cluster.endpoint.host}:{cluster.endpoint.port or 443}"
        self._pool = _pool(cluster)

    def get(self, path: str, /, **params: object) -> Any:
        """Ask for something."""
        return self.call("GET", path, params).data

    def post(self, path: str, /, **params: object) -> Any:
        """Make or start something; not repeated where it may have been done."""
        return self.call("POST", path, params).data

    def put(self, path: str, /, **params: object) -> Any:
        """Set something."""
        return self.call("PUT", path, params).data

    def delete(self, path: str, /, **params: object) -> Any:
        """Remove something."""
        return self.call("DELETE", path, params).data

    def call(self, method: str, path: str, params: Mapping[str, object]) -> Answer:
        """Make a call, again where that is right; raises `ApiError` in the end."""
        fields = urlencode([pair for name, value in params.items() for pair in _fields(name, value)])
        target = f"{BASE}/{path.strip('/')}"
        body, headers = None, {}
        if method in ("GET", "DELETE"):
            target += f"?{fields}" if fields else ""
        else:
            body, headers = fields, {"Content-Type": "application/x-www-form-urlencoded"}
        return self._repeated(method, path, lambda: self._send(method, path, target, body, headers, self.pace.read))

    def upload(self, path: str, content_type: str, length: int, chunks: Callable[[], Iterable[bytes]]) -> Any:
        """Send a form of known length piece by piece; `chunks` begins it anew for each attempt."""
        headers = {"Content-Type": content_type, "Content-Length": str(length)}
        target = f"{BASE}/{path.strip('/')}"

        def send() -> Answer:
            return self._send("POST", path, target, chunks(), headers, self.pace.upload)

        return self._repeated("POST", path, send).data

    def _repeated(self, method: str, path: str, send: Callable[[], Answer]) -> Answer:
        pauses = retry.pauses(self.pace.first_pause, self.pace.longest_pause, self.pace.attempts)
        while True:
            try:
                return send()
            except _Failed as failed:
                pause = next(pauses, None) if failed.again else None
                if pause is None:
                    raise self._error(method, path, failed) from failed.__cause__
                self.sleep(pause)

    def _send(
        self, method: str, path: str, target: str, body: Any, headers: Mapping[str, str], read_timeout: float
    ) -> Answer:
        try:
            response = self._pool.request(
                method,
                target,
                body=body,
                headers={**headers, **_EACH_CALL, "Authorization": self.token.header()},
                timeout=urllib3.Timeout(connect=self.pace.connect, read=read_timeout),
                retries=False,
                redirect=False,
            )
        except (HTTPError, OSError) as error:
            raise _unanswered(method, error) from error
        text = response.data.decode("utf-8", "replace")
        if response.status != 200:
            reason = _reason(response.status, response.reason, text)
            raise _Failed(response.status, reason, retry.again(method, response.status, reason))
        try:
            return Answer(json.loads(text), dict(response.headers))
        except ValueError:
            raise _Failed(200, "the answer is no JSON: this is no API of Proxmox VE", False) from None

    def _error(self, method: str, path: str, failed: "_Failed") -> ApiError:
        reason = self.token.redact(failed.reason)
        unsure = failed.unsure or retry.unsure(method, failed.status)
        status = f"HTTP {failed.status}: " if failed.status else ""
        remedy = failed.remedy or _REMEDIES.get(failed.status)
        remedy = remedy or "look at the task log of the node, mend what it names, and run the command again"
        return ApiError(f"{method} {path}", self.address, f"{status}{reason}", remedy, failed.status, unsure)


class _Failed(Exception):
    """An attempt did not succeed."""

    def __init__(self, status: int, reason: str, again: bool, remedy: str = "", unsure: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.again, self.remedy, self.unsure = status, reason, again, remedy, unsure


def connect(site: Site) -> Client:
    """The API of a site's cluster; nothing is sent yet. Raises `ConfigError` for a site without one, or no token."""
    return Client(site.cluster, read_token(site.cluster))


def quoted(part: object) -> str:
    """A part of a path: names of volumes hold colons and slashes."""
    return quote(str(part), safe="")


def _pool(cluster: Cluster) -> urllib3.HTTPSConnectionPool:
    # One context for all calls: each has a connection of its own, and would read the authorities anew.
    if cluster.fingerprint is not None:
        # The certificate itself is compared, before anything is sent; who signed it then says nothing.
        context = create_urllib3_context(cert_reqs=ssl.CERT_NONE)
        trust: dict[str, Any] = {"cert_reqs": "CERT_NONE", "assert_fingerprint": cluster.fingerprint}
    else:
        context, trust = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED), {"cert_reqs": "CERT_REQUIRED"}
        _trust(context, cluster)
    host = cluster.endpoint.host or ""
    port = cluster.endpoint.port or 443
    return urllib3.HTTPSConnectionPool(host.strip("[]"), port, maxsize=8, block=False, ssl_context=context, **trust)


def _trust(context: ssl.SSLContext, cluster: Cluster) -> None:
    """Trust the site's own authority, or those of this machine where it names none."""
    if cluster.ca is None:
        context.load_default_certs()
        return
    path = cluster.ca.expanduser()
    remedy = "copy /etc/pve/pve-root-ca.pem of a node"
    if not path.is_file():
        raise ConfigError("proxmox.ca", str(cluster.ca), "is no file", remedy)
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise ConfigError("proxmox.ca", str(cluster.ca), f"holds no certificate: {error}", remedy) from error


def _fields(name: str, value: object) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [(name, str(int(value)))]
    if isinstance(value, list | tuple):
        return [(name, str(item)) for item in value]
    return [(name, str(value))]


def _reason(status: int, phrase: str | None, text: str) -> str:
    """The cluster's reason: Proxmox VE puts it into the status line, and wrong parameters into the body."""
    said = [phrase or ""]
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    if isinstance(body, dict):
        message = str(body.get("message") or "").strip()
        if message and message not in said[0]:
            said.append(message)
        errors = body.get("errors")
        if isinstance(errors, dict):
            said += [f"{name}: {str(value).strip()}" for name, value in errors.items()]
    return "; ".join(part.strip() for part in said if part.strip()) or f"HTTP status {status}"


def _unanswered(method: str, error: Exception) -> _Failed:
    cause = error.reason if isinstance(error, MaxRetryError) and error.reason is not None else error
    if isinstance(cause, SSLError):
        remedy = "set proxmox.ca to the cluster's /etc/pve/pve-root-ca.pem, or proxmox.fingerprint to the certificate's"
        return _Failed(0, f"the certificate is not trusted: {cause}", False, remedy)
    if isinstance(cause, NameResolutionError):
        return _Failed(0, "the name of the endpoint is not known", False, "correct proxmox.endpoint in the site's file")
    remedy = "check proxmox.endpoint in the site's file, and whether pveproxy runs there: systemctl status pveproxy"
    # urllib3 calls a handshake of TLS that takes too long a read timeout; nothing was sent yet.
    greeted = "handshake" not in str(cause.__cause__)
    if isinstance(cause, NewConnectionError | ConnectTimeoutError | ConnectionRefusedError) or not greeted:
        return _Failed(0, f"no connection: {_last_line(cause)}", True, remedy)
    # Something was sent: only what may be done twice is tried again.
    return _Failed(0, f"no answer: {_last_line(cause)}", method in retry.REPEATABLE, remedy, unsure=method != "GET")


def _last_line(error: BaseException) -> str:
    return str(error).rpartition(": ")[2] or type(error).__name__

"""Tells webhooks, signed as Standard Webhooks has it, and people by mail, again and again until they took it.

A name is resolved here, and the connection goes to the address that was checked: never anybody inside, only public
ones, by https. What the operator allows at the host (`control.up --webhook-networks`) may be private or this machine,
and by http, too. No redirect is followed.
"""

import base64
import hashlib
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from urllib.parse import SplitResult, urlsplit

from deskyard.control.store.connection import Link
from deskyard.control.watch import mail
from deskyard.control.watch.mail import MOST_IN_MAIL, SCHEME, Mailer
from deskyard.errors import ConfigError

SECRET_BYTES = 32
PREFIX = "whsec_"
# After each failure so many seconds; then it is given up.
PAUSES = (5, 60, 300, 1800, 7200, 18_000, 36_000)
SECONDS = 10.0
MOST_ANSWER = 200
KEPT = "30 days"
NOBODY = Mailer()
# While nobody takes anything at an address, it is tried that often, however much there is to tell.
DEAF_SECONDS = 60.0
# For longer than any try takes nobody else tries it.
LONGEST_TRY = 4 * mail.SECONDS
# What is due later than any pause is: the clock was set back since.
TAKE = """update delivery set attempt = attempt + 1, next_at = now() + make_interval(secs => %(seconds)s)
    where id in (select d.id from delivery d join webhook w on w.id = d.webhook_id
        where ended_at is null and w.gone_at is null and (next_at <= now()
            or next_at > now() + make_interval(secs => greatest(%(seconds)s, (%(pauses)s::float[])[attempt])))
        and (%(hook)s::text is null or w.id = %(hook)s) order by next_at, d.created_at"""


def written(secret: bytes) -> str:
    """A secret as its owner keeps it."""
    return PREFIX + base64.b64encode(secret).decode()


def sign(secret: bytes, id: str, timestamp: int, body: str) -> str:
    """The signature of a message, as its header has it."""
    digest = hmac.new(secret, f"{id}.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def parsed(url: str) -> SplitResult:
    """An address that may be a webhook's; raises `ConfigError` for what is none."""
    remedy = "write https://NAME/PATH, without a name or password in it"
    try:
        found = urlsplit(url)
        port = found.port
    except ValueError as error:
        raise ConfigError("url", None, f"is no address: {error}", remedy) from error
    if found.scheme not in ("https", "http") or not found.hostname or port == 0 or found.fragment:
        raise ConfigError("url", None, "is no address of a webhook", remedy)
    if found.username is not None or found.password is not None:
        raise ConfigError("url", None, "holds a name or password, which would be kept in plain text", remedy)
    if not url.isascii() or any(ord(letter) <= 32 for letter in url):
        raise ConfigError("url", None, "holds what is no part of an address", remedy)
    return found


@dataclass(frozen=True)
class Reach:
    """Where webhooks may be; `networks` are those that the operator allows beside the public ones."""

    networks: Sequence[str] = ()

    def address(self, url: SplitResult) -> str:
        """The address to connect to; raises `ConfigError` if there is none that may be."""
        assert url.hostname is not None
        found = socket.getaddrinfo(url.hostname, port_of(url), type=socket.SOCK_STREAM)
        for info in found:
            address = ipaddress.ip_address(str(info[4][0]).partition("%")[0])
            mapped = getattr(address, "ipv4_mapped", None) or address
            allowed = any(mapped in ipaddress.ip_network(network) for network in self.networks)
            if allowed or (url.scheme == "https" and mapped.is_global and not mapped.is_multicast):
                return str(mapped)
        reason = "is inside this machine or a private network, or not https"
        remedy = "allow its network at the host: ./inv control.up --webhook-networks 10.1.0.0/16"
        raise ConfigError("url", url.hostname, reason, remedy)


def port_of(url: SplitResult) -> int:
    """The port of an address."""
    return url.port or (443 if url.scheme == "https" else 80)


def deliver_next(link: Link, reach: Reach, mailer: Mailer = NOBODY) -> bool:
    """Try the delivery that is due first, of a mail all that are due with it; false if none is.

    It counts as tried before it is sent: none is lost.
    """
    with link.transaction():
        row = link.execute(
            f"{TAKE} limit 1 for update of d skip locked) returning *".encode(), _taking(None)
        ).fetchone()
        if row is None:
            return False
        hook = link.execute("select * from webhook where id = %s", [row["webhook_id"]]).fetchone()
        assert hook is not None
        rows, by_mail = [row], hook["url"].startswith(SCHEME)
        if by_mail:
            more = f"{TAKE} limit {MOST_IN_MAIL - 1} for update of d skip locked) returning *"
            rows += sorted(link.execute(more.encode(), _taking(hook["id"])).fetchall(), key=itemgetter("created_at"))
    if by_mail:
        _mail(link, mailer, hook["url"], rows)
    else:
        _call(link, reach, hook, row)
    return True


def _taking(hook: str | None) -> dict[str, Any]:
    return {"seconds": LONGEST_TRY, "pauses": list(PAUSES), "hook": hook}


def _mail(link: Link, mailer: Mailer, url: str, rows: Sequence[dict[str, Any]]) -> None:
    good = is_deaf = False
    try:
        answer, good = mailer.send(url, rows), True
    except ConfigError as error:
        answer = f"{error.reason}: {error.remedy}"
    except OSError as error:
        # Also what a server says of this mail alone is one: then the others wait for a moment in vain.
        answer, is_deaf = mail.said(error), True
    with link.transaction():
        for row in rows:
            _settle(link, row, answer[:MOST_ANSWER], good=good)
        if is_deaf:
            # All mail goes by the same server.
            _spare(link, rows, "starts_with(w.url, %(scheme)s)", scheme=SCHEME)


def _call(link: Link, reach: Reach, hook: dict[str, Any], row: dict[str, Any]) -> None:
    found = link.execute("select secret from webhook_secret where webhook_id = %s", [hook["id"]]).fetchone()
    assert found is not None
    try:
        status = _send(reach, hook["url"], bytes(found["secret"]), row)
        answer, good = f"{status}", 200 <= status < 300
    except (OSError, http.client.HTTPException, ConfigError) as error:
        status, answer, good = 0, str(error)[:MOST_ANSWER], False
    gone = status == http.HTTPStatus.GONE
    if gone:
        link.execute("update webhook set gone_at = now() where id = %s", [hook["id"]])
    _settle(link, row, answer, good=good, given_up=gone)
    if status == 0:
        _spare(link, [row], "w.id = %(hook)s", hook=hook["id"])


def _spare(link: Link, tried: Sequence[dict[str, Any]], same: str, **values: str) -> None:
    """Leave a place alone where nobody took anything: each try takes its time, and others have to be told, too."""
    query = f"""update delivery d set next_at = greatest(next_at, now() + make_interval(secs => %(seconds)s))
        from webhook w where w.id = d.webhook_id and d.ended_at is null and not d.id = any(%(tried)s) and {same}"""
    link.execute(query.encode(), {"seconds": DEAF_SECONDS, "tried": [row["id"] for row in tried], **values})


def _settle(link: Link, row: dict[str, Any], answer: str, *, good: bool, given_up: bool = False) -> None:
    """Write down what came of a try, unless somebody else tries it by now."""
    attempt = int(row["attempt"])
    over = good or given_up or attempt > len(PAUSES)
    link.execute(
        """update delivery set answer = %s, state = %s, ended_at = case when %s then now() end,
            next_at = now() + make_interval(secs => %s) where id = %s and attempt = %s""",
        [
            *(answer, "delivered" if good else "failed" if over else "waiting", over),
            *(PAUSES[min(attempt, len(PAUSES)) - 1], row["id"], attempt),
        ],
    )


def forget(link: Link) -> None:
    """Delete what was told long ago, and what waits for a webhook that is gone."""
    link.execute(f"delete from delivery where ended_at < now() - interval '{KEPT}'")
    link.execute(
        """update delivery d set ended_at = now(), state = 'failed', answer = 'the webhook is gone'
        from webhook w where w.id = d.webhook_id and w.gone_at is not null and d.ended_at is null"""
    )


def _send(reach: Reach, address: str, secret: bytes, row: dict[str, Any]) -> int:
    url = parsed(address)
    target = reach.address(url)
    data = {"type": row["kind"], "timestamp": row["created_at"].isoformat(), "data": row["payload"]}
    body, now = json.dumps(data, separators=(",", ":"), ensure_ascii=False), int(time.time())
    link = _Pinned(str(url.hostname), port_of(url), target, tls=url.scheme == "https")
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Deskyard",
            "webhook-id": row["id"],
            "webhook-timestamp": str(now),
            "webhook-signature": sign(secret, row["id"], now, body),
        }
        link.request("POST", path, body.encode(), headers)
        return link.getresponse().status
    finally:
        link.close()


class _Pinned(http.client.HTTPConnection):
    """HTTP to an address that was checked, by the name that it was checked for."""

    def __init__(self, host: str, port: int, address: str, *, tls: bool) -> None:
        super().__init__(host, port, timeout=SECONDS)
        # What goes into the header `Host`.
        self.default_port = 443 if tls else 80
        self._address, self._tls = address, tls

    def connect(self) -> None:
        """Connect to it."""
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._tls:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

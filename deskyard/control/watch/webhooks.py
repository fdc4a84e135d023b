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
from contextlib import closing
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any
from urllib.parse import SplitResult, urlsplit

from deskyard.control.store.connection import Link
from deskyard.control.store.pool import Lend
from deskyard.control.watch import mail
from deskyard.control.watch.cut import Cut
from deskyard.control.watch.finding import Finding, moment
from deskyard.control.watch.mail import MOST_IN_MAIL, SCHEME, Mailer
from deskyard.errors import ConfigError

SECRET_BYTES = 32
PREFIX = "whsec_"
# After each failure so many seconds; then it is given up.
PAUSES = (5, 60, 300, 1800, 7200, 18_000, 36_000)
# For each wait, and for all of a call: a receiver may send a byte now and then.
SECONDS, WHOLE_SECONDS = 10.0, 20.0
# A receiver that takes longer to say that it takes nothing is deaf as well.
SLOW_SECONDS = 5.0
MOST_ANSWER = 200
KEPT = "30 days"
NOBODY = Mailer()
# While nobody takes anything at an address, it is tried that often, however much there is to tell.
DEAF_SECONDS = 60.0
# For longer than any try takes nobody else tries it.
LONGEST_TRY = 4 * mail.SECONDS
# All mail goes by the same server.
LANE = f"case when starts_with(w.url, '{SCHEME}') then '{SCHEME}' else w.id end"
# What is due later than any pause is: the clock was set back since.
DUE = """from delivery d join webhook w on w.id = d.webhook_id
    where ended_at is null and w.gone_at is null and (next_at <= now()
        or next_at > now() + make_interval(secs => greatest(%(seconds)s, (%(pauses)s::float[])[attempt])))"""
FAILING = """select w.id, w.url, untaken.since, untaken.messages,
        floor(extract(epoch from now() - untaken.since) / 60)::bigint as minutes
    from webhook w
    cross join lateral (select coalesce(max(created_at), '-infinity') as at from delivery
        where webhook_id = w.id and state = 'delivered') as taken
    cross join lateral (select min(created_at) as since, count(*) as messages from delivery
        where webhook_id = w.id and attempt > 0 and answer <> '' and state <> 'delivered'
        and created_at > taken.at) as untaken
    where w.gone_at is null and untaken.messages > 0"""
TAKE = f"""update delivery set attempt = attempt + 1, next_at = now() + make_interval(secs => %(seconds)s)
    where id in (select d.id {DUE} and (%(hook)s::text is null or w.id = %(hook)s)
        and (%(lane)s::text is null or {LANE} = %(lane)s) order by next_at, d.created_at"""


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


@dataclass(frozen=True)
class Taken:
    """Deliveries that are told together: of a webhook one, of a mail all that are due with it."""

    url: str
    rows: Sequence[dict[str, Any]]
    secret: bytes

    @property
    def by_mail(self) -> bool:
        """Whether it is told by mail."""
        return self.url.startswith(SCHEME)


@dataclass(frozen=True)
class Outcome:
    """The end of a try: the answer, whether it was taken, and whether nobody is there, for now or for good."""

    answer: str
    good: bool = False
    is_deaf: bool = False
    is_gone: bool = False


def due(link: Link, but: Sequence[str], most: int) -> list[str]:
    """The lanes in which something is due, but for some, those that waited longest first."""
    query = f"""select lane from (select {LANE} as lane, min(next_at) as since {DUE} group by 1) as lanes
        where not lane = any(%(but)s) order by since limit %(most)s"""
    values = {"seconds": LONGEST_TRY, "pauses": list(PAUSES), "but": list(but), "most": most}
    return [row["lane"] for row in link.execute(query.encode(), values).fetchall()]


def deliver_next(lend: Lend, reach: Reach, mailer: Mailer = NOBODY, lane: str | None = None) -> bool:
    """Try the delivery that is due first, of a mail all that are due with it; false if none is.

    It counts as tried before it is sent: none is lost. No connection to the database is held while it is sent.
    """
    with lend() as link, link.transaction():
        taken = _take(link, lane)
    if taken is None:
        return False
    outcome = _mail(mailer, taken) if taken.by_mail else _call(reach, taken)
    with lend() as link, link.transaction():
        _keep(link, taken, outcome)
    return True


def _take(link: Link, lane: str | None) -> Taken | None:
    values = {"seconds": LONGEST_TRY, "pauses": list(PAUSES), "hook": None, "lane": lane}
    row = link.execute(f"{TAKE} limit 1 for update of d skip locked) returning *".encode(), values).fetchone()
    if row is None:
        return None
    hook = link.execute(
        """select url, secret from webhook w left join webhook_secret s on s.webhook_id = w.id where w.id = %s""",
        [row["webhook_id"]],
    ).fetchone()
    assert hook is not None
    taken = Taken(hook["url"], [row], bytes(hook["secret"] or b""))
    if not taken.by_mail:
        return taken
    more = f"{TAKE} limit {MOST_IN_MAIL - 1} for update of d skip locked) returning *"
    rest = link.execute(more.encode(), {**values, "hook": row["webhook_id"]}).fetchall()
    return replace(taken, rows=[row, *sorted(rest, key=itemgetter("created_at"))])


def _mail(mailer: Mailer, taken: Taken) -> Outcome:
    try:
        return Outcome(mailer.send(taken.url, taken.rows), good=True)
    except ConfigError as error:
        return Outcome(f"{error.reason}: {error.remedy}")
    except OSError as error:
        # Also what a server says of this mail alone is one: then the others wait for a moment in vain.
        return Outcome(mail.said(error), is_deaf=True)
    except (ValueError, TypeError) as error:
        # Of what the file says, which may be the password, nothing is told.
        reason = f"the file of the mail server, or the mail, is wrong ({type(error).__name__})"
        return Outcome(f"{reason}: declare it anew: {mail.UNDECLARED}", is_deaf=True)


def _call(reach: Reach, taken: Taken) -> Outcome:
    begun = time.monotonic()
    try:
        status = _send(reach, taken.url, taken.secret, taken.rows[0])
    except (OSError, http.client.HTTPException, ConfigError, UnicodeError) as error:
        # Of a name that cannot be one, Python says that its text is wrong.
        return Outcome(str(error), is_deaf=True)
    good = 200 <= status < 300
    slow = time.monotonic() - begun > SLOW_SECONDS
    return Outcome(f"{status}", good, is_deaf=slow and not good, is_gone=status == http.HTTPStatus.GONE)


def _keep(link: Link, taken: Taken, outcome: Outcome) -> None:
    hook = taken.rows[0]["webhook_id"]
    if outcome.is_gone:
        link.execute("update webhook set gone_at = now() where id = %s", [hook])
    for row in taken.rows:
        _settle(link, row, outcome.answer[:MOST_ANSWER], good=outcome.good, given_up=outcome.is_gone)
    if outcome.is_deaf:
        _spare(link, taken.rows, SCHEME if taken.by_mail else hook)


def _spare(link: Link, tried: Sequence[dict[str, Any]], lane: str) -> None:
    """Leave a place alone where nobody took anything: each try takes its time, and others have to be told, too."""
    query = f"""update delivery d set next_at = greatest(next_at, now() + make_interval(secs => %(seconds)s))
        from webhook w where w.id = d.webhook_id and d.ended_at is null and not d.id = any(%(tried)s)
        and {LANE} = %(lane)s"""
    link.execute(query.encode(), {"seconds": DEAF_SECONDS, "tried": [row["id"] for row in tried], "lane": lane})


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


def failing(link: Link) -> list[Finding]:
    """Who took nothing since a message that was tried; of an address the host alone, as its path may be a secret."""
    found = []
    for row in link.execute(FAILING).fetchall():
        place = "mail" if row["url"].startswith(SCHEME) else urlsplit(row["url"]).hostname
        text = f"{place}: took none of {row['messages']} messages since {moment(row['since'])}"
        found.append(Finding("webhook.failing", row["id"], None, text, row["minutes"]))
    return found


def forget(link: Link) -> None:
    """Delete what was told long ago, and what waits for a webhook that is gone."""
    link.execute(f"delete from delivery where ended_at < now() - interval '{KEPT}'")
    link.execute(
        """update delivery d set ended_at = now(), state = 'failed', answer = 'the webhook is gone'
        from webhook w where w.id = d.webhook_id and w.gone_at is not null and d.ended_at is null"""
    )


def _send(reach: Reach, address: str, secret: bytes, row: dict[str, Any]) -> int:
    url = parsed(address)
    data = {"type": row["kind"], "timestamp": row["created_at"].isoformat(), "data": row["payload"]}
    body, now = json.dumps(data, separators=(",", ":"), ensure_ascii=False), int(time.time())
    with (
        Cut(WHOLE_SECONDS) as cut,
        closing(_Pinned(str(url.hostname), port_of(url), reach.address(url), cut, tls=url.scheme == "https")) as link,
    ):
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Deskyard",
            "webhook-id": row["id"],
            "webhook-timestamp": str(now),
            "webhook-signature": sign(secret, row["id"], now, body),
        }
        link.request("POST", path, body.encode(), headers)
        status = link.getresponse().status
        # An answer that was ended in the middle of its headers would do.
        cut.check()
        return status


class _Pinned(http.client.HTTPConnection):
    """HTTP to an address that was checked, by the name that it was checked for."""

    def __init__(self, host: str, port: int, address: str, cut: Cut, *, tls: bool) -> None:
        super().__init__(host, port, timeout=SECONDS)
        # What goes into the header `Host`.
        self.default_port = 443 if tls else 80
        self._address, self._cut, self._tls = address, cut, tls

    def connect(self) -> None:
        """Connect to it."""
        self.sock = self._cut.connect([(self._address, self.port)], SECONDS)
        if self._tls:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

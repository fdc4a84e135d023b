"""Mails alerts to people, by the server that the owner declared at the host; the file has the password."""

import hashlib
import json
import re
import smtplib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from deskyard.control.watch.cut import Cut
from deskyard.errors import ConfigError
from deskyard.host.authorities import require_certificates
from deskyard.host.secret_file import write_secret
from deskyard.plan.printable import printable

SCHEME = "mailto:"
# For each wait, and for all of a mail: a server may send a byte now and then.
SECONDS, WHOLE_SECONDS = 20.0, 60.0
# A hundred alerts at once are no hundred mails.
MOST_IN_MAIL = 50
MOST_SUBJECT = 150
STARTTLS, IMPLICIT, NONE = "starttls", "implicit", "none"
PORTS = {STARTTLS: 587, IMPLICIT: 465, NONE: 25}
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ADDRESS = re.compile(r"[A-Za-z0-9.!#$&'*+/=^_`{|}~-]{1,64}@(?=.{1,253}\Z)([A-Za-z0-9-]{1,63}\.)+[A-Za-z0-9-]{2,63}")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|::1")
UNDECLARED = "./inv control.mail SERVER --sender ADDRESS --user NAME"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class MailServer:
    """A server that takes mail for others; what goes to it is encrypted, unless it is on this machine."""

    host: str
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)
    tls: str = STARTTLS
    port: int = 0
    # Certificates that are trusted instead of this machine's, as PEM.
    authorities: str = ""

    def checked(self) -> "MailServer":
        """It, with a port; raises `ConfigError` for what cannot be."""
        if not HOST.fullmatch(self.host):
            raise ConfigError("server", self.host, "is no host", "write its name, such as smtp.example.org")
        if not ADDRESS.fullmatch(self.sender):
            raise ConfigError("--sender", self.sender, "is no mail address", "write one such as deskyard@example.org")
        if self.tls not in PORTS:
            raise ConfigError("--tls", self.tls, "is no way to encrypt", f"choose one of: {', '.join(PORTS)}")
        if self.tls == NONE and self.host not in LOOPBACK:
            reason = "would send alerts and the password in plain text"
            raise ConfigError("--tls", self.tls, reason, "choose starttls or implicit; none is for this machine alone")
        if not 0 <= self.port <= 65535:
            raise ConfigError("--port", self.port, "is no port", "write 1 to 65535")
        require_certificates(self.authorities)
        return MailServer(**{**asdict(self), "port": self.port or PORTS[self.tls]})

    @contextmanager
    def opened(self) -> Iterator[smtplib.SMTP]:
        """A session that is logged in; raises `OSError` (also what smtplib raises) if there is none, or it is slow."""
        context = ssl.create_default_context(cadata=self.authorities or None)
        with Cut(WHOLE_SECONDS) as cut:
            session = self._session(cut, context)
            try:
                if self.tls == STARTTLS:
                    # Raises if the server offers none: nothing goes on in plain text.
                    session.starttls(context=context)
                if self.user:
                    session.login(self.user, self.password)
            except BaseException:
                session.close()
                raise
            with session:
                yield session

    def _session(self, cut: Cut, context: ssl.SSLContext) -> smtplib.SMTP:
        tls = context if self.tls == IMPLICIT else None

        class Session(smtplib.SMTP):
            """SMTP that ends with its time."""

            def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                link = cut.connect([(str(info[4][0]), port) for info in found], timeout)
                return link if tls is None else tls.wrap_socket(link, server_hostname=host)

        return Session(self.host, self.port, timeout=SECONDS)

    def probe(self) -> None:
        """Raise `ConfigError` unless it lets its account in."""
        try:
            with self.opened() as session:
                session.noop()
        except (OSError, UnicodeError) as error:
            # Of a name that cannot be one, Python says that its text is wrong.
            remedy = "mend what it names; nothing was kept"
            raise ConfigError(
                "server", f"{self.host}:{self.port}", f"does not let us in: {said(error)}", remedy
            ) from error

    def shown(self) -> dict[str, Any]:
        """All but the password."""
        return {**asdict(self), "password": bool(self.password), "authorities": bool(self.authorities)}

    def save(self, path: Path) -> None:
        """Keep it, for root alone."""
        write_secret(path, json.dumps(asdict(self)).encode())


@dataclass(frozen=True)
class Mailer:
    """Sends mail by the server that is declared now; `origin` is where the alerts are seen."""

    path: Path | None = None
    origin: str = ""

    def send(self, url: str, rows: Sequence[Row]) -> str:
        """Mail deliveries as one; what the server said. Raises `OSError` or `ConfigError` if it did not take them."""
        server = kept(self.path) if self.path is not None else None
        if server is None:
            raise ConfigError("url", None, "no mail server is declared", UNDECLARED)
        to = recipient(url)
        with server.opened() as session:
            session.send_message(message(rows, server.sender, to, self.origin))
        return f"taken by {server.host}"


def kept(path: Path) -> MailServer | None:
    """The declared mail server; None if none was declared. Raises `ValueError` or `TypeError` for what is none."""
    try:
        return MailServer(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def recipient(url: str) -> str:
    """The mail address of an address such as `mailto:ann@example.org`; raises `ConfigError` for any other."""
    address = url.removeprefix(SCHEME)
    if not url.startswith(SCHEME) or not ADDRESS.fullmatch(address):
        raise ConfigError("url", None, "is no mail address", "write mailto:NAME@DOMAIN, one address and nothing else")
    return address


def message(rows: Sequence[Row], sender: str, to: str, origin: str) -> EmailMessage:
    """One mail about some deliveries, in their order; the same for the same ones, so that a repeat can be told."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, to, f"[Deskyard] {_subject(rows)}"
    mail["Date"] = format_datetime(max(row["created_at"] for row in rows))
    digest = hashlib.sha256("".join(row["id"] for row in rows).encode()).hexdigest()[:32]
    mail["Message-ID"] = f"<{digest}@{sender.rpartition('@')[2]}>"
    # Nobody's absence answers it.
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n\n".join([*map(_paragraph, rows), f"{origin}/alerts"]) + "\n")
    return mail


def said(error: OSError | UnicodeError) -> str:
    """The error of a server, or of the way to it, in a line."""
    if isinstance(error, smtplib.SMTPResponseException):
        answer = error.smtp_error
        text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
        return _line(f"{error.smtp_code} {text}")
    if isinstance(error, (socket.gaierror, TimeoutError)) or not isinstance(error, smtplib.SMTPRecipientsRefused):
        return _line(str(error) or type(error).__name__)
    return _line("; ".join(f"{code} {text.decode(errors='replace')}" for code, text in error.recipients.values()))


def _subject(rows: Sequence[Row]) -> str:
    first = _headline(rows[0])
    return first if len(rows) == 1 else f"{len(rows)} alerts: {first}"


def _headline(row: Row) -> str:
    data = row["payload"]
    if "title" not in data:
        return f"a test, wanted by {_line(str(data.get('actor')))}"
    over = "over: " if data["closedAt"] else ""
    return f"{over}{_line(data['title'])}: {_line(data['object'])}"


def _paragraph(row: Row) -> str:
    data = row["payload"]
    lines = [_headline(row)]
    if "title" in data:
        since = f"since {data['openedAt']}" + (f" until {data['closedAt']}" if data["closedAt"] else "")
        lines += [f"  {_line(data['text'])}", f"  {data['rule']}, {since}"]
        lines += [] if data["closedAt"] else [f"  -> {_line(data['nextStep'])}"]
    return "\n".join(lines)


def _line(text: str) -> str:
    """A text of a gateway or a server, as one line that steers nothing."""
    return " ".join(printable(text, most=None, mark=" ").split())[:MOST_SUBJECT]

"""A mail server that keeps what it takes: aiosmtpd, which is nothing of ours, with TLS and an account."""

import asyncio
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from deskyard.control.watch.mail import MailServer

USER, PASSWORD, SENDER = "deskyard", "s3cret-of-the-account", "deskyard@mail.example.org"
HOST = "localhost"
SECONDS = 30


@dataclass
class Taken:
    """A mail as it came, and how."""

    sender: str
    recipients: list[str]
    mail: EmailMessage
    encrypted: bool
    account: str


@dataclass
class MailReceiver:
    """The server for the length of a `with` block; `answers` are what it says to mails in order, the last for ever."""

    folder: Path
    starttls: bool = True
    taken: list[Taken] = field(default_factory=list)
    answers: list[str] = field(default_factory=lambda: ["250 OK"])
    heard: list[bytes] = field(default_factory=list)
    port: int = 0

    @property
    def certificate(self) -> str:
        """What a client has to trust."""
        return (self.folder / "mail.pem").read_text()

    def declared(self, **other: Any) -> MailServer:
        """It, as the host declares it."""
        values = {"host": HOST, "sender": SENDER, "user": USER, "password": PASSWORD, "port": self.port}
        return MailServer(**{**values, "authorities": self.certificate, **other})

    def __enter__(self) -> "MailReceiver":
        """Serve."""
        argv = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]
        argv += [
            "-keyout",
            str(self.folder / "mail.key"),
            "-out",
            str(self.folder / "mail.pem"),
            "-subj",
            f"/CN={HOST}",
        ]
        argv += ["-addext", f"subjectAltName=DNS:{HOST}"]
        subprocess.run(argv, check=True, capture_output=True, timeout=SECONDS)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(SECONDS)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        """Serve nobody any more."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    async def _serve(self) -> asyncio.Server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "mail.pem", self.folder / "mail.key")
        secure: dict[str, Any] = {"tls_context": context, "require_starttls": True} if self.starttls else {}

        def session() -> SMTP:
            return SMTP(self, authenticator=self._authenticate, auth_required=self.starttls, **secure)

        return await self._loop.create_server(session, "127.0.0.1", 0)

    async def _end(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _authenticate(self, _server: Any, _session: Any, _envelope: Any, _way: str, data: LoginPassword) -> AuthResult:
        self.heard.append(data.password)
        good = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=good, handled=False, auth_data=data.login.decode())

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:
        """Take a mail, or answer as it was told to."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.startswith("250"):
            mail = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            found = Taken(envelope.mail_from, envelope.rcpt_tos, mail, session.ssl is not None, session.auth_data)
            self.taken.append(found)
        return answer

"""A PostgreSQL elsewhere: each role with a secret of its own, over TLS that is verified by name and authority."""

import os
import secrets
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import psycopg

from deskyard.control.ground.folder import Folder, ids
from deskyard.control.store import administrator, migration
from deskyard.control.store.address import Address, require_no_password
from deskyard.control.store.administrator import Administrator, failure
from deskyard.control.store.cluster import DATABASE, IDENTITY, LINK, OWNER, RECORDER, ROLES, SESSION, WEB
from deskyard.control.store.connection import Link, connect
from deskyard.errors import HostError
from deskyard.host.deadline import Deadline
from deskyard.host.secret_file import write_secret

SECRET_BYTES = 32
WAIT_SECONDS = 60.0
NO_FILE = "/nonexistent"
# In the closed network of a process, where the relay carries on from.
RELAYED, RELAY_PORT = "127.0.0.1", 5432
CLOSED = (WEB, RECORDER, LINK)
# A server that is gone without a word is noticed within a minute.
KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 30_000}
DROP_ALL = """do $$ declare name text; begin
  for name in select oid::regclass from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
    loop execute 'drop table if exists ' || name || ' cascade'; end loop;
  for name in select oid::regprocedure from pg_proc where pronamespace = 'public'::regnamespace
    loop execute 'drop function if exists ' || name || ' cascade'; end loop;
end $$"""


@dataclass(frozen=True)
class Elsewhere:
    """The database at an address; `password` asks for the administrator's, where that is needed."""

    folder: Folder
    address: Address
    password: Callable[[], str] = administrator.nobody_asks

    def url(self, role: str) -> str:
        """How a process with the account of a role connects; its secret stays in a file of that account."""
        # Channel binding: the secret is proved, never sent, and to nobody but who holds the certificate.
        options = {
            "host": self.address.host,
            "port": self.address.port,
            "user": role,
            "application_name": role,
            "sslmode": "verify-full",
            "sslrootcert": self.folder.database_authority,
            "passfile": self.folder.database_secret(role),
            # Else one would be looked for in the home of whoever began it, which is closed to its account.
            "sslcert": NO_FILE,
            "sslkey": NO_FILE,
            "channel_binding": "require",
            "gssencmode": "disable",
            "connect_timeout": 10,
            **KEEPALIVE,
        }
        if role in CLOSED:
            options |= {"hostaddr": RELAYED, "port": RELAY_PORT}
        return f"postgresql:///{DATABASE}?{urllib.parse.urlencode(options, safe='/')}"

    def check(self) -> str | None:
        """The version of its tables, None if it has none; raises `DeskyardError` unless it can be used."""
        require_no_password()
        self._named().certificates()
        if lacking := self._lacking():
            with self._administrator() as found:
                return found.check(lacking)
        with self.as_owner() as link:
            administrator.require_version(self.address, link)
        version = migration.version(self.url(OWNER))
        migration.require_known(version)
        return version

    def settle(self) -> None:
        """Make what is absent: a secret for each role, the roles, the database; and what its sessions begin with."""
        self.folder.database.mkdir(mode=0o711, exist_ok=True)
        self.folder.database.chmod(0o711)
        draft = self.folder.database_authority.with_suffix(".new")
        draft.write_bytes(self._named().certificates())
        draft.chmod(0o644)
        draft.replace(self.folder.database_authority)
        if lacking := self._lacking():
            made = {role: secrets.token_urlsafe(SECRET_BYTES) for role in lacking}
            with self._administrator() as found:
                found.make(made)
            for role, secret in made.items():
                self._keep(role, secret)
        with self.as_owner() as link:
            link.execute(f"revoke all on database {DATABASE} from public")
            link.execute(f"grant connect on database {DATABASE} to {', '.join(ROLES)}".encode())
            for name, value in SESSION.items():
                link.execute(f"alter database {DATABASE} set {name} = {value}".encode())

    def wait(self) -> None:
        """Wait until it answers its owner; raises `HostError`."""
        if not Deadline(WAIT_SECONDS).wait_for(self._answers, 1.0):
            self.as_owner().close()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The database with its roles; it answers before the block and after it."""
        self.settle()
        yield

    def empty(self) -> None:
        """Drop every table and function of a restore that went wrong, if it lets its owner in."""
        with suppress(HostError), self.as_owner() as link:
            link.execute(DROP_ALL.encode())

    def _answers(self) -> bool:
        try:
            self.as_owner().close()
        except HostError:
            return False
        return True

    def as_owner(self) -> Link:
        """A connection of the database's owner; raises `HostError` if nobody is let in."""
        try:
            return connect(self.url(OWNER))
        except psycopg.OperationalError as error:
            raise self.failure(error) from error

    def failure(self, error: psycopg.OperationalError) -> HostError:
        """Why it lets no role in."""
        if "password authentication failed" not in str(error):
            return failure(self.address, error)
        remedy = (
            "if another Mission Control has it now, leave it; else move that folder away: its administrator makes anew"
        )
        reason = f"does not take the secrets in {self.folder.database}"
        return HostError("database", administrator.shown(self.address), reason, remedy)

    def _administrator(self) -> Administrator:
        return Administrator(self._named(), self.password)

    def _named(self) -> Address:
        """The address with the named authority, or with the copy where that file is gone."""
        copy = self.folder.database_authority
        gone = copy.exists() and not self.address.authority.exists()
        return replace(self.address, authority=copy) if gone else self.address

    def _lacking(self) -> list[str]:
        return [role for role in ROLES if not self.folder.database_secret(role).exists()]

    def _keep(self, role: str, secret: str) -> None:
        path = self.folder.database_secret(role)
        write_secret(path, f"*:*:{DATABASE}:{role}:{secret}\n".encode())
        os.chown(path, *self._owner_of(role))

    def _owner_of(self, role: str) -> tuple[int, int]:
        accounts = self.folder.accounts
        names = {WEB: accounts.web, RECORDER: accounts.recorder, IDENTITY: accounts.identity, LINK: accounts.link}
        return ids(names[role]) if role in names else (os.geteuid(), os.getegid())

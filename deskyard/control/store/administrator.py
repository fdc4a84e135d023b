"""The administrator of a PostgreSQL elsewhere, who makes Mission Control's roles and its database there, once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg import sql

from deskyard.control.store import cluster, migration
from deskyard.control.store.address import Address
from deskyard.control.store.cluster import DATABASE, OWNER, ROLE_OPTIONS
from deskyard.errors import ConfigError, HostError

LEAST = 15  # views with the rights of who asks
MAINTENANCE = "postgres"
CONNECT_SECONDS = 10
MOST_TEXT = 400
STRANGER = (
    "shows a certificate that the named authority did not sign",
    "name the authority that signed it as sslrootcert",
)
# What libpq says of itself has no code.
KNOWN = {
    "server does not support SSL": ("speaks no TLS", "turn it on there: ssl = on, with a certificate"),
    "certificate verify failed": STRANGER,
    # By an authority of the same name.
    "signature failure": STRANGER,
    "does not match host name": ("shows a certificate for another name", "write the name that its certificate has"),
    "channel binding": ("does not take secrets by scram-sha-256", "let roles in there by: hostssl ... scram-sha-256"),
    "no pg_hba.conf entry": ("lets this machine in not at all", "add to its pg_hba.conf: hostssl ... scram-sha-256"),
    "password authentication failed": ("does not take this password of its administrator", "give the right one"),
}
Link = psycopg.Connection[tuple[Any, ...]]


def nobody_asks() -> str:
    """The password where nobody can be asked for it."""
    return ""


class Administrator:
    """Connections of a server's administrator, whose password is nowhere kept."""

    def __init__(self, address: Address, password: Callable[[], str]) -> None:
        self._address, self._ask = address, password
        self._link = self._connect(MAINTENANCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def check(self, roles: Sequence[str]) -> str | None:
        """The version of the tables there, None if it has none; raises `HostError` unless all can be had from it.

        Nothing stays changed. `roles` are those that lack a secret here.
        """
        require_version(self._address, self._link)
        mine = self._link.execute(
            "select rolsuper or rolcreaterole, rolsuper or rolcreatedb from pg_roles where rolname = current_user"
        ).fetchone()
        there = self._there()
        if mine is None or not mine[0]:
            raise self._refused("may not create roles", "run there: alter role ... createrole createdb")
        if there is None and not mine[1]:
            raise self._refused(f"may not create the database {DATABASE}", "run there: alter role ... createdb")
        if there is not None and there != (OWNER, "UTF8"):
            reason = f"has a database {DATABASE} of {there[0]} in {there[1]}, which is none of Mission Control's"
            raise self._refused(reason, f"drop it there, if nobody needs it: {OWNER} makes and owns one in UTF8")
        self._check_roles(roles)
        version = self._version() if there is not None else None
        migration.require_known(version)
        return version

    def make(self, made: Mapping[str, str]) -> None:
        """Make roles with these secrets, or give them to those that are there; and the database if it is absent."""
        link, known = self._link, self._known()
        with link.transaction():
            for role, secret in made.items():
                # The server is told what proves the secret, and no log of its statements has it.
                proof = link.pgconn.encrypt_password(secret.encode(), role.encode(), b"scram-sha-256").decode()
                verb = "alter" if role in known else "create"
                statement = sql.SQL(f"{verb} role {{}} {ROLE_OPTIONS} password {{}}")
                link.execute(statement.format(sql.Identifier(role), sql.Literal(proof)))
        if self._there() is None:
            # Who makes a database for another role has to be a member of it.
            with self._member():
                link.execute(f"create database {DATABASE} owner {OWNER} template template0 encoding 'UTF8'".encode())

    def _check_roles(self, roles: Sequence[str]) -> None:
        found = self._link.execute(
            """select rolname from pg_roles r where rolname = any(%s) and (rolsuper or rolcreaterole or rolcreatedb
            or rolreplication or rolbypassrls or exists (select from pg_auth_members where member = r.oid))""",
            [list(cluster.ROLES)],
        ).fetchall()
        if found:
            names = ", ".join(row[0] for row in found)
            raise self._refused(f"has roles that may more than Mission Control's: {names}", "take that from them there")
        query = "select count(*) from pg_stat_activity where usename = any(%s)"
        used = self._link.execute(query, [list(roles)]).fetchone()
        if used is not None and used[0]:
            remedy = "end that first by ./inv control.down there, or name another server"
            raise self._refused("is used by another Mission Control at this moment", remedy)

    def _version(self) -> str | None:
        """The version of the tables that are there; None if there are none."""
        # Nobody but its roles may connect to it.
        with self._member(), self._connect(DATABASE) as link:
            link.execute(f"set role {OWNER}".encode())
            if link.execute("select to_regclass('public.alembic_version')").fetchone() == (None,):
                return None
            found = link.execute("select version_num from alembic_version").fetchone()
            return str(found[0]) if found else None

    @contextmanager
    def _member(self) -> Iterator[None]:
        """Be a member of the owner within the block."""
        self._link.execute(f"grant {OWNER} to current_user".encode())
        try:
            yield
        finally:
            self._link.execute(f"revoke {OWNER} from current_user".encode())

    def _known(self) -> set[str]:
        return {row[0] for row in self._link.execute("select rolname from pg_roles")}

    def _there(self) -> tuple[Any, ...] | None:
        query = """select pg_get_userbyid(datdba), pg_encoding_to_char(encoding) from pg_database
            where datname = %s"""
        return self._link.execute(query, [DATABASE]).fetchone()

    def _connect(self, name: str) -> Link:
        """Connect by the administrator's own files (~/.pgpass, a client's certificate), or by the password."""
        try:
            return self._connected(name, None)
        except psycopg.OperationalError as error:
            if error.pgconn is None or not error.pgconn.needs_password:
                raise failure(self._address, error) from error
        password = self._ask()
        if not password:
            remedy = "run it where it can be asked for, give it on standard input, or keep it in ~/.pgpass"
            raise ConfigError("password", None, f"of {self._address.administrator} is wanted", remedy)
        try:
            return self._connected(name, password)
        except psycopg.OperationalError as error:
            raise failure(self._address, error) from error

    def _connected(self, name: str, password: str | None) -> Link:
        return psycopg.connect(
            host=self._address.host,
            port=self._address.port,
            user=self._address.administrator,
            dbname=name,
            password=password,
            sslmode="verify-full",
            sslrootcert=str(self._address.authority),
            gssencmode="disable",
            connect_timeout=CONNECT_SECONDS,
            autocommit=True,
        )

    def _refused(self, reason: str, remedy: str) -> HostError:
        field = f"administrator {self._address.administrator}" if reason.startswith("may not") else "database"
        return HostError(field, shown(self._address), reason, remedy)


def require_version(address: Address, link: psycopg.Connection[Any]) -> None:
    """Raise `HostError` for a server that is too old, or newer than the programs that make backups of it."""
    major = link.info.server_version // 10_000
    if major < LEAST:
        remedy = f"upgrade it, or name one of PostgreSQL {LEAST} or newer"
        raise HostError("database", shown(address), f"is PostgreSQL {major}, which is too old", remedy)
    if (own := cluster.client_version()) < major:
        remedy = f"install postgresql-client-{major} on this machine"
        reason = f"is PostgreSQL {major}, of which this machine's pg_dump {own} makes no backup"
        raise HostError("database", shown(address), reason, remedy)


def failure(address: Address, error: psycopg.OperationalError) -> HostError:
    """Why a server let nobody in, by what PostgreSQL's library says; it never has a secret in it."""
    text = " ".join(str(error).split())
    for words, (reason, remedy) in KNOWN.items():
        if words in text:
            return HostError("database", shown(address), reason, remedy)
    return HostError("database", shown(address), f"cannot be reached: {text[:MOST_TEXT]}", "see that it runs there")


def shown(address: Address) -> str:
    """Where it is, as errors and states show it."""
    return f"{address.host}:{address.port}/{DATABASE}"

"""A PostgreSQL server of its own for a test: on a socket that nobody else can enter, or as if it were elsewhere."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from deskyard.control.store import cluster
from deskyard.control.store.address import Address
from deskyard.control.store.cluster import DATABASE, ROLES
from deskyard.errors import HostError
from tests.support.ports import free_ports
from tests.support.pve.certificate import Certificates, issue

USER = "postgres"
START_SECONDS = 60
HOST, LOOPBACK = "localhost", "127.0.0.1"
# The loopback, too, and no name of the certificate.
OTHER_HOST = "127.0.0.2"
ADMINISTRATOR, PASSWORD = "deskyard_admin", "hunter2-of-the-administrator"
SOCKET_ONLY = ("listen_addresses=''",)


def programs() -> Path | None:
    """The folder of the server's programs; None if there is none on this machine."""
    try:
        return cluster.programs()
    except HostError:
        return None


@dataclass(frozen=True)
class Server:
    """As a server of another machine is: by TLS and passwords alone, with an administrator who is no superuser."""

    folder: Path
    port: int
    certificates: Certificates

    @property
    def address(self) -> Address:
        """How Mission Control is told of it."""
        return Address(HOST, self.port, ADMINISTRATOR, self.certificates.authority)

    def connect(self, name: str = USER) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection of its superuser, who is at that machine."""
        return psycopg.connect(host=str(self.folder), port=self.port, user=USER, dbname=name, autocommit=True)

    def set(self, **settings: str) -> None:
        """Change settings for whoever connects from now on."""
        with self.connect() as link:
            for name, value in settings.items():
                link.execute(f"alter system set {name} = '{value}'".encode())
            link.execute("select pg_reload_conf()")

    def forget(self) -> None:
        """Drop what Mission Control made."""
        with self.connect() as link:
            link.execute(f"drop database if exists {DATABASE} with (force)".encode())
            for role in ROLES:
                link.execute(f"drop role if exists {role}".encode())


@contextmanager
def server() -> Iterator[Server]:
    """A server with an administrator; it ends with the block."""
    (port,) = free_ports(1)
    with _folder() as folder:
        issued = issue(folder)
        for path in (issued.certificate, issued.key):
            shutil.chown(path, USER, USER)
        issued.key.chmod(0o600)
        settings = [f"listen_addresses='{LOOPBACK},{OTHER_HOST}'", f"port={port}", "fsync=off"]
        files = (f"ssl_cert_file={issued.certificate}", f"ssl_key_file={issued.key}")
        rules = [f"local all {USER} trust", "hostssl all all 127.0.0.0/8 scram-sha-256"]
        with _cluster(folder, (*settings, *files), rules):
            found = Server(folder, port, issued)
            # Not by the command line, which would stand above what a test sets.
            found.set(ssl="on")
            with found.connect() as link:
                link.execute(f"create role {ADMINISTRATOR} login createrole createdb password '{PASSWORD}'".encode())
            found.set(log_statement="all")
            yield found


@contextmanager
def database(name: str) -> Iterator[str]:
    """The URL of an empty database as Pulumi takes it; the server ends with the block."""
    with _folder() as folder, _cluster(folder, SOCKET_ONLY):
        _run(folder, "createdb", "-h", str(folder), "-U", USER, name)
        yield f"postgres:///{name}?host={folder}&user={USER}"


@contextmanager
def _folder() -> Iterator[Path]:
    # Not below a test's own folder: the server runs as its own user, who may not enter that.
    folder = Path(tempfile.mkdtemp(prefix="deskyard-postgres."))
    shutil.chown(folder, USER, USER)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _cluster(folder: Path, settings: Sequence[str], rules: Sequence[str] = ()) -> Iterator[None]:
    data = folder / "data"
    _run(folder, "initdb", "-D", str(data), "-U", USER, "--auth=trust", "--no-sync")
    if rules:
        (data / "pg_hba.conf").write_text("\n".join(rules) + "\n")
    options = " ".join(f"-c {setting}" for setting in (*settings, f"unix_socket_directories={folder}"))
    start = ["start", "-w", "-t", str(START_SECONDS), "-D", str(data), "-l", str(folder / "log"), "-o", options]
    _run(folder, "pg_ctl", *start)
    try:
        yield
    finally:
        _run(folder, "pg_ctl", "stop", "-m", "immediate", "-D", str(data))


def _run(folder: Path, program: str, *arguments: str) -> None:
    binaries = programs()
    assert binaries is not None
    argv = [str(binaries / program), *arguments]
    options = {"user": USER, "cwd": folder, "stdin": subprocess.DEVNULL, "timeout": START_SECONDS + 10}
    log = folder / f"{program}.log"
    with log.open("wb") as output:
        # To a file: the server that pg_ctl leaves behind holds its output open.
        done = subprocess.run(argv, stdout=output, stderr=output, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, log.read_text()

"""Mission Control on real parts: PostgreSQL, the web process as an account without rights, recorder and worker.

Only what moves machines is a double: `child.py`.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row

from deskyard.control.ground.confinement import closed_network
from deskyard.control.ground.folder import Accounts, Folder, ids
from deskyard.control.people.keys import Key
from deskyard.control.store import migration
from deskyard.control.store.address import parsed
from deskyard.control.store.cluster import DATABASE, IDENTITY, OWNER, RECORDER, WEB, WORKER, Cluster
from deskyard.control.store.database import database_at
from deskyard.control.store.elsewhere import RELAY_PORT, RELAYED, Elsewhere
from deskyard.host.deadline import Deadline
from tests.support.postgres import PASSWORD, Server

TREE = Path(__file__).resolve().parents[2]
ORIGIN = "https://mission.localhost:9443"
# Who works at the host, as the audit names them.
HOST = "host:root"
WAIT_SECONDS, RECOVERY_SECONDS = 60.0, 300.0
# On a machine that others keep busy, a process that imports all its libraries takes long until it answers.
START_SECONDS = 300.0
# Shorter than in earnest, so that a killed worker's operation comes back soon.
LEASE_SECONDS = 3.0
# Accounts that every machine has: tests make none.
PROVIDER = "Example"
ACCOUNTS = Accounts("nobody", "daemon", "lp", link="news", relay="uucp", e2b="irc", proxy="games")
CLEAR_SECONDS = 60.0
CHILD = "tests.control.child"
CLEARED = (
    "event, message, conversation, idempotency, operation_log, operation_secret, intent_used, approval, desktop,"
    " operation, workspace, api_key, key_proof, session, passkey",
    "traffic, moment, refused_name, usage_interval, tier_price, budget, closing, quota, alert, delivery,"
    " webhook_secret, webhook",
    "retention, enrolment, challenge, claim_kept, host_task, host_spool, person",
)
# Tables, and those that refer to them.
REFERRING = """with recursive cleared as (
    select unnest(%s::text[]::regclass[])::oid as place
    union select conrelid from pg_constraint join cleared on confrelid = place where contype = 'f')
    select place::regclass::text as name from cleared"""
EVERYTHING = ("read", "desktops:write", "desktops:destroy", "chat", "approvals:read", "approvals:decide", "admin")

WORKS = "deskyard.control.jobs.worker"

Link = psycopg.Connection[dict[str, Any]]


@dataclass
class Lab:
    """One Mission Control; `link` is a connection of its owner, who may do what observer and host do."""

    folder: Folder
    link: Link
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    # Where its database is, if that is elsewhere.
    address: str | None = None
    networks: dict[str, int] = field(default_factory=dict)
    # The program that does what its worker claims.
    child: str = CHILD

    @property
    def path(self) -> Path:
        """Where the double notes what it did."""
        return self.folder.root / "lab"

    def url(self, role: str) -> str:
        """The address of the database for a role."""
        url = database_at(self.folder, self.address).url(role)
        # A machine with much to do takes its time to start a relay.
        return url if self.address is None else f"{url}&connect_timeout={WAIT_SECONDS:.0f}"

    def url_as(self, role: str) -> str:
        """The same for this process, which has not the account of every role: the owner gives its own rights up."""
        return f"{self.url(OWNER)}&options=-c%20role%3D{role}"

    def network(self, name: str) -> tuple[int, ...]:
        """The closed network of who has this name, with a relay to the database where that is elsewhere."""
        if self.address is None:
            return ()
        if name not in self.networks:
            network, place = closed_network(RELAYED, RELAY_PORT), parsed(self.address)
            argv = ["deskyard.control.store.relay", place.host, str(place.port), ACCOUNTS.relay, str(network.listener)]
            self.start(f"relay of {name}", *argv, sockets=(network.listener,))
            os.close(network.listener)
            self.networks[name] = network.namespace
        return (self.networks[name],)

    def start(self, name: str, *argv: str, sockets: tuple[int, ...] = ()) -> None:
        """Start one of the processes under a name."""
        with (self.folder.logs / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=TREE,
                env={**os.environ, "LAB": str(self.path), "PYTHONFAULTHANDLER": "1"},
                pass_fds=sockets,
            )

    def web(self) -> None:
        """Start the web process on its socket, and wait until it answers."""
        with self._listening(self.folder.web_socket) as listener:
            number = listener.fileno()
            options = ["--database", self.url(WEB), "--origin", ORIGIN, "--pages", str(self.folder.pages)]
            options += ["--account", ACCOUNTS.web, "--socket", str(number)]
            options += ["--provider", PROVIDER, "--identity", str(self.folder.identity_socket)]
            network = self.network("web")
            options += [f"--network={number}" for number in network]
            self.start("web", "deskyard.control.web", *options, sockets=(number, *network))
        with self.client() as client:
            # It may be handed the socket before it serves: the answer comes when it does.
            try:
                healthy = client.get("/healthz", timeout=START_SECONDS).status_code == 200
            except httpx.HTTPError:
                healthy = False
        assert healthy, self.log("web")

    def identity(self) -> None:
        """Start the process that signs people in by the folder's provider, and wait until it answers."""
        with self._listening(self.folder.identity_socket) as listener:
            os.chown(self.folder.identity_socket, 0, ids(ACCOUNTS.web)[1])
            self.folder.identity_socket.chmod(0o660)
            number = listener.fileno()
            options = ["--database", self.url(IDENTITY), "--origin", ORIGIN, "--account", ACCOUNTS.identity]
            options += ["--declared", str(self.folder.provider), "--socket", str(number)]
            self.start("identity", "deskyard.control.identity", *options, sockets=(number,))
        with socket.socket(socket.AF_UNIX) as asking, contextlib.suppress(OSError):
            asking.settimeout(START_SECONDS)
            asking.connect(str(self.folder.identity_socket))
            # What is no question is answered by an end: the web process waits for an answer not as long as this.
            asking.sendall(b"[]\n")
            asking.recv(1)
        assert self.processes["identity"].poll() is None, self.log("identity")

    @contextmanager
    def _listening(self, path: Path) -> Iterator[socket.socket]:
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(64)
            yield listener

    def worker(self, name: str = "worker", child: str | None = None, program: str = WORKS) -> None:
        """Start a worker."""
        self.child = child or self.child
        options = ["--database", self.url(WORKER), "--origin", ORIGIN, "--lease", str(LEASE_SECONDS)]
        self.start(name, program, *options, "--child", sys.executable, "-m", self.child)

    def work_by(self, child: str) -> None:
        """See that a worker runs whose operations are done by a program; one that does so already goes on."""
        if "worker" in self.processes and self.child != child:
            self.end("worker")
        if "worker" not in self.processes:
            self.worker(child=child)

    def recorder(self) -> None:
        """Start the recorder."""
        network = self.network("recorder")
        options = [self.url(RECORDER), ACCOUNTS.recorder, *map(str, network)]
        self.start("recorder", "deskyard.control.recorder", *options, sockets=network)

    def end(self, name: str, sign: int = signal.SIGKILL) -> None:
        """End one of the processes."""
        process = self.processes.pop(name)
        process.send_signal(sign)
        process.wait(WAIT_SECONDS)

    def log(self, name: str) -> str:
        """What a process printed."""
        return (self.folder.logs / f"{name}.log").read_text(errors="replace")

    def client(self, key: str | None = None, path: Path | None = None) -> httpx.Client:
        """A client of the API on the web process's socket, or on another."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # A connection that is kept is closed when it idles for some seconds, maybe as the next request is on its way.
        limits = httpx.Limits(max_keepalive_connections=0)
        # Nothing is proved on a socket of this machine: to read the machine's authorities takes longer than a request.
        transport = httpx.HTTPTransport(verify=False, uds=str(path or self.folder.web_socket), limits=limits)
        return httpx.Client(
            transport=transport, base_url=ORIGIN.replace("https", "http"), headers=headers, timeout=WAIT_SECONDS
        )

    def key(self, *scopes: str, workspaces: list[str] | None = None) -> str:
        """An API key, made as the host makes one."""
        key = Key.fresh()
        self.link.execute(
            "insert into api_key (id, name, auth_hash, scopes, workspaces, expires_at)"
            " values (%s, 'test', %s, %s, %s, now() + interval '1 hour')",
            [key.id, key.auth_hash, list(scopes), workspaces],
        )
        self.link.execute("insert into key_proof (key_id, secret) values (%s, %s)", [key.id, key.proof_secret])
        return key.text

    def declare(self, workspace: str, *desktops: str, state: str = "ready") -> None:
        """A workspace with desktops, as the observer writes them down."""
        query = "insert into workspace (id, site) values (%s, 'local') on conflict (id) do update set gone_at = null"
        self.link.execute(query, [workspace])
        for name in desktops:
            self.link.execute(
                "insert into desktop (id, workspace_id, name, tier, image, address, state)"
                " values (%s, %s, %s, 'free', 'desktop', '10.0.0.2', %s)"
                " on conflict (id) do update set state = excluded.state, gone_at = null",
                [f"{workspace}.{name}", workspace, name, state],
            )

    def images(self, *desktops: str, now: str | None = "desktop-old", newest: str | None = "desktop-new") -> None:
        """The image that desktops run, and the one that there is for them, as the observer writes them down."""
        query = "update desktop set image_now = %s, image_newest = %s where id = any(%s)"
        self.link.execute(query, [now, newest, list(desktops)])

    def gate(self, name: str) -> Path:
        """What the double of a desktop called `name` waits for: writing into it lets it go on."""
        path = self.path / "gates" / name
        if not path.exists():
            os.mkfifo(path)
        return path

    def open(self, name: str) -> None:
        """Let the double of a desktop go on; it has to be waiting."""
        self.gate(name).write_text("go\n")

    def effects(self, desktop: str) -> list[str]:
        """What the double did with a desktop: `begin`, `end`, in order."""
        return [line["event"] for line in self._done(desktop)]

    def pids(self, desktop: str) -> list[int]:
        """The processes of the double that did something with a desktop."""
        return [line["pid"] for line in self._done(desktop)]

    def all_effects(self) -> list[dict[str, Any]]:
        """What the double did, in order."""
        path = self.path / "effects"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _done(self, desktop: str) -> list[dict[str, Any]]:
        return [line for line in self.all_effects() if line["desktop"] == desktop]

    def connect_again(self) -> None:
        """Connect its owner anew after the database has sent everybody away, which this waits for."""
        with contextlib.suppress(psycopg.OperationalError):
            self.link.execute("select pg_sleep(%s)", [WAIT_SECONDS])
        self.link.close()

        def is_back() -> bool:
            try:
                self.link = psycopg.connect(self.url(OWNER), autocommit=True, row_factory=dict_row)
            except psycopg.OperationalError:
                return False
            return True

        # It reads what it had not written yet; each try to connect costs it time.
        assert Deadline(RECOVERY_SECONDS).wait_for(is_back, 0.25), self.log("postgres")

    def until(self, query: str, values: list[Any] | dict[str, Any]) -> dict[str, Any]:
        """The first row of a query, as soon as it has one; the database says when something changed."""
        with psycopg.connect(self.url(OWNER), autocommit=True, row_factory=dict_row) as link:
            link.execute("listen event")
            link.execute("listen audit")
            deadline = Deadline(WAIT_SECONDS)
            while (row := link.execute(query.encode(), values).fetchone()) is None:
                assert not deadline.is_over, f"{query} {values}: not in {WAIT_SECONDS} s\n{self._standstill(link)}"
                for _ in link.notifies(timeout=1, stop_after=1):
                    pass
            return row

    def _standstill(self, link: Link) -> str:
        """What keeps the worker from going on: who waits in the database, and its threads' stacks, which end it."""
        query = """select pid, usename, state, wait_event, query, pg_blocking_pids(pid) from pg_stat_activity
            where datname = current_database()"""
        waiting = link.execute(query).fetchall()
        if "worker" in self.processes:
            self.end("worker", signal.SIGABRT)
        return "\n".join([*map(str, waiting), self.log("worker")])

    def state(self, operation: str, *states: str) -> dict[str, Any]:
        """An operation, as soon as it is in one of these states."""
        return self.until("select * from operation where id = %s and state = any(%s)", [operation, list(states)])

    def clear(self) -> None:
        """Forget all that a test left; who still writes goes first, as waiting for a lock could be a deadlock."""
        deadline = Deadline(CLEAR_SECONDS)
        while True:
            try:
                with self.link.transaction():
                    # Shorter than the second after which PostgreSQL looks for deadlocks, and ends somebody for it.
                    self.link.execute("set local lock_timeout = '200ms'")
                    for tables in CLEARED:
                        self._empty(tables)
                break
            except psycopg.errors.LockNotAvailable:
                if deadline.is_over:
                    raise
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / "gates").mkdir(parents=True)

    def _empty(self, tables: str) -> None:
        """Truncate tables and those that refer to them: each gets new files for it, so only those that hold rows."""
        found = self.link.execute(REFERRING, [f"{{{tables}}}"]).fetchall()
        names = [row["name"] for row in found]
        self.link.execute(f"lock table {', '.join(names)} in access exclusive mode".encode())
        with_rows = " union all ".join(f"select '{name}' as name where exists (select from {name})" for name in names)
        if filled := [row["name"] for row in self.link.execute(with_rows.encode()).fetchall()]:
            self.link.execute(f"truncate {', '.join(filled)} cascade".encode())


@contextmanager
def lab(durable: bool = False, root: Path | None = None) -> Iterator[Lab]:
    """A whole Mission Control, gone at the end; `durable` if what is committed has to be on the disk."""
    folder = _folder(root)
    postmaster: subprocess.Popen[bytes] | None = None
    try:
        database = Cluster(folder)
        database.make()
        if not durable:
            with (folder.cluster / "postgresql.auto.conf").open("a") as settings:
                # The machine does not fail here: to empty thirty tables for each test waits for no disk.
                settings.write("fsync = off\n")
        postmaster = database.start()
        database.make_roles()
        with _begun(folder) as found:
            yield found
    finally:
        if postmaster is not None:
            # Nothing of it is kept: it need not write down what it has.
            postmaster.send_signal(signal.SIGQUIT)
            postmaster.wait(WAIT_SECONDS)
        shutil.rmtree(folder.root, ignore_errors=True)


@contextmanager
def lab_elsewhere(server: Server) -> Iterator[Lab]:
    """The same with its database on a server elsewhere; `link` is then of that server's superuser."""
    folder = _folder()
    try:
        place = Elsewhere(folder, server.address, lambda: PASSWORD)
        place.check()
        place.settle()
        with server.connect(DATABASE) as link, _begun(folder, str(server.address)) as found:
            link.row_factory = dict_row  # type: ignore[assignment]
            found.link.close()
            found.link = link  # type: ignore[assignment]
            yield found
    finally:
        shutil.rmtree(folder.root, ignore_errors=True)


def _folder(root: Path | None = None) -> Folder:
    root = root or Path(tempfile.mkdtemp(prefix="deskyard-control."))
    root.chmod(0o711)
    folder = Folder(root, ACCOUNTS)
    folder.lay_out()
    (folder.pages / "index.html").write_text("<!doctype html><title>Mission Control</title>")
    return folder


@contextmanager
def _begun(folder: Folder, address: str | None = None) -> Iterator[Lab]:
    """Its processes on a database that answers."""
    url = database_at(folder, address).url(OWNER)
    migration.migrate(url)
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as link:
        found = Lab(folder, link, address=address)
        try:
            (found.path / "gates").mkdir(parents=True)
            found.web()
            found.worker()
            found.recorder()
            yield found
        finally:
            for name in tuple(found.processes):
                found.end(name)
            for number in found.networks.values():
                os.close(number)

"""The database cluster of Mission Control: Debian's PostgreSQL on a socket, with an account and folder of its own."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from deskyard.control.ground.confinement import die_with_parent
from deskyard.control.ground.folder import Folder, ids, name_of
from deskyard.control.store.connection import Link, connect
from deskyard.errors import HostError
from deskyard.host.background import start_time
from deskyard.host.deadline import Deadline

DATABASE = "mission"
OWNER, WEB, WORKER, RECORDER = "mc_owner", "mc_web", "mc_worker", "mc_recorder"
IDENTITY, LINK = "mc_identity", "mc_link"
ROLES = (OWNER, WEB, WORKER, RECORDER, IDENTITY, LINK)
# A machine whose processors and disk others keep busy makes and starts one slowly, and then it is well.
START_SECONDS, CONNECT_SECONDS = 300.0, 10
PROGRAM_SECONDS = 600
# Nothing of whoever starts it.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
ROLE_CONNECTIONS = 40
ROLE_OPTIONS = f"login connection limit {ROLE_CONNECTIONS}"
# What sessions begin with, wherever the database is.
SESSION = {
    # One transaction that was left open would hold back every event after it.
    "idle_in_transaction_session_timeout": "'30s'",
    "statement_timeout": "'30s'",
    "random_page_cost": "1.1",
    "jit": "off",
}
SETTINGS = {
    "listen_addresses": "''",
    "unix_socket_permissions": "0777",  # who may do what is decided by account
    "max_connections": "100",
    "shared_buffers": "'64MB'",
    "log_min_messages": "warning",
    **SESSION,
}


@dataclass(frozen=True)
class Cluster:
    """A cluster in a folder; its postmaster is a child of whoever starts it."""

    folder: Folder

    def url(self, role: str) -> str:
        """How a process with the account of a role connects."""
        return f"postgresql:///{DATABASE}?host={self.folder.sockets}&user={role}&application_name={role}"

    def as_owner(self) -> Link:
        """A connection of the database's owner."""
        return connect(self.url(OWNER))

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The database with its roles, which answers within the block."""
        self.make()
        postmaster = self.start()
        try:
            self.make_roles()
            yield
        finally:
            stop(postmaster)

    def empty(self) -> None:
        """Remove what a restore that went wrong has left, as far as that can be."""
        for entry in self.folder.cluster.iterdir():
            with suppress(OSError):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def make(self) -> None:
        """Make the cluster if there is none, and write its settings anew."""
        if not self.folder.has_cluster():
            argv = ["initdb", "-D", str(self.folder.cluster), "-U", OWNER, "--auth=peer", "--data-checksums", "-E"]
            self._run([*argv, "UTF8", "--locale=C.UTF-8"])
        lines = [f"{key} = {value}" for key, value in SETTINGS.items()]
        lines.append(f"unix_socket_directories = '{self.folder.sockets}'")
        self._write("postgresql.conf", lines)
        accounts = self.folder.accounts
        mapping = {
            accounts.database: (OWNER,),
            name_of(os.geteuid()): (OWNER, WORKER),
            accounts.web: (WEB,),
            accounts.recorder: (RECORDER,),
            accounts.identity: (IDENTITY,),
            accounts.link: (LINK,),
        }
        self._write("pg_ident.conf", [f"mission {name} {role}" for name, roles in mapping.items() for role in roles])
        self._write("pg_hba.conf", ["local all all peer map=mission"])

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the postmaster as a child, and wait until it answers; raises `HostError`."""
        self.end_orphan()
        # Its sockets have to stand where others find them; the folder is root's.
        os.chown(self.folder.sockets, ids(self.folder.accounts.database)[0], -1)
        log = (self.folder.logs / "postgres.log").open("ab")
        user, group = ids(self.folder.accounts.database)
        argv = [str(programs() / "postgres"), "-D", str(self.folder.cluster)]
        process = subprocess.Popen(
            argv,
            user=user,
            group=group,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
            # Ended as it is at any time: whoever comes next would find its files taken.
            preexec_fn=partial(die_with_parent, signal.SIGINT),
        )
        log.close()
        if not Deadline(START_SECONDS).wait_for(lambda: process.poll() is not None or self.answers(), 0.1):
            stop(process)
        if process.poll() is not None:
            tail = (self.folder.logs / "postgres.log").read_text(errors="replace").splitlines()[-5:]
            raise HostError("database", str(self.folder.cluster), "did not start: " + " / ".join(tail), "see its log")
        return process

    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            with psycopg.connect(self._maintenance(), connect_timeout=CONNECT_SECONDS):
                return True
        except psycopg.Error:
            return False

    def end_orphan(self) -> None:
        """End a postmaster of this folder whose parent was killed, and wait until it is gone."""
        try:
            number = int((self.folder.cluster / "postmaster.pid").read_text().split()[0])
            own = str(self.folder.cluster).encode() in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            return
        if own and start_time(number) is not None:
            os.kill(number, signal.SIGINT)
            Deadline(START_SECONDS).wait_for(lambda: start_time(number) is None, 0.05)

    def make_roles(self) -> None:
        """Make the roles and the database that are absent; it runs."""
        with psycopg.connect(self._maintenance(), autocommit=True) as link:
            there = {row[0] for row in link.execute("select rolname from pg_roles")}
            for role in ROLES:
                if role not in there:
                    link.execute(f"create role {role} {ROLE_OPTIONS}")
            if not link.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
                link.execute(f"create database {DATABASE} owner {OWNER}")
                link.execute(f"revoke all on database {DATABASE} from public")
            # Also to a role that a newer Deskyard has, and a database of before has not.
            link.execute(f"grant connect on database {DATABASE} to {', '.join(ROLES)}")

    def _maintenance(self) -> str:
        return f"postgresql:///postgres?host={self.folder.sockets}&user={OWNER}"

    def _write(self, name: str, lines: Sequence[str]) -> None:
        path = self.folder.cluster / name
        path.write_text("\n".join(lines) + "\n")
        os.chown(path, *ids(self.folder.accounts.database))
        path.chmod(0o600)

    def _run(self, argv: Sequence[str]) -> None:
        user, group = ids(self.folder.accounts.database)
        done = subprocess.run(
            [str(programs() / argv[0]), *argv[1:]],
            user=user,
            group=group,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd="/",
            env=ENVIRONMENT,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            reason = f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}"
            raise HostError("database", str(self.folder.cluster), reason, "mend the cause, then run it again")


def programs(name: str = "postgres") -> Path:
    """The folder of the newest server's programs, or the newest client's; raises `HostError` if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if not found and shutil.which(name):
        return Path(str(shutil.which(name))).parent
    if not found:
        raise HostError("program", name, "is not installed", "run ./inv --yes --list, which installs it")
    return found[-1].parent


def client_version() -> int:
    """The PostgreSQL of the programs that make backups here."""
    argv = [str(programs("pg_dump") / "pg_dump"), "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PROGRAM_SECONDS, env=ENVIRONMENT)
    # Such as: pg_dump (PostgreSQL) 17.2 (Debian 17.2-1)
    return int(done.stdout.split()[2].partition(".")[0])


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a postmaster: its clients are sent away, what was committed is kept."""
    for sign, seconds in ((signal.SIGINT, 20), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
        if process.poll() is None:
            process.send_signal(sign)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
    process.wait()

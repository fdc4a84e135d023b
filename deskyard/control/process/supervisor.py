"""python -m deskyard.control.process.supervisor FOLDER: starts the processes in their order, and again when one ends.

With systemd it is one unit; without, `control.up` starts it. Whatever ends it, its processes end, too.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from deskyard.control.anchors.source import source
from deskyard.control.e2b import declared as e2b
from deskyard.control.ground.confinement import closed_network, die_with_parent
from deskyard.control.ground.folder import Folder, ids, name_of
from deskyard.control.ground.reasons import Reasons
from deskyard.control.ground.settings import Settings, kept
from deskyard.control.identity import declared
from deskyard.control.process import logs, proxy
from deskyard.control.process.noted import DATABASE, TABLES, note
from deskyard.control.process.postmaster import FIRST_PAUSE, LONGEST_PAUSE, Postmaster
from deskyard.control.store import backup, migration
from deskyard.control.store.cluster import IDENTITY, LINK, OWNER, RECORDER, WEB, WORKER, Cluster
from deskyard.control.store.database import Database, database_at
from deskyard.control.store.elsewhere import CLOSED, RELAY_PORT, RELAYED
from deskyard.host.deadline import Deadline
from deskyard.host.places import tree

LOOK_SECONDS = 0.2
# A process that ends at once again is begun at a slower pace.
STEADY_SECONDS = 20.0
END_SECONDS = 15
BACKLOG = 512
NOTED = "who runs"
# Those that may do nothing get nothing: no variable of whoever started this.
BARE = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PGGSSENCMODE": "disable",
}
log = logging.getLogger(__name__)


@dataclass
class Piece:
    """A process that is kept running."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    sockets: Sequence[int] = ()
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    pause: float = FIRST_PAUSE
    again: float = 0.0

    def look(self, folder: Path) -> None:
        """Start it if it does not run, and its pause is over; what it says goes to its log in the folder."""
        now = time.monotonic()
        if self.process is not None:
            if self.process.poll() is None:
                return
            steady = now - self.started > STEADY_SECONDS
            self.pause = FIRST_PAUSE if steady else min(self.pause * 2, LONGEST_PAUSE)
            log.warning("%s ended with %d, begins again in %.1f s", self.name, self.process.returncode, self.pause)
            self.process, self.again = None, now + self.pause
        if now >= self.again:
            try:
                self.process = self._begun(folder)
                self.started = now
            except OSError as error:
                # The disk may be full, or its program be exchanged at this moment: all others go on.
                self.pause = min(self.pause * 2, LONGEST_PAUSE)
                self.again = now + self.pause
                log.warning("%s cannot be begun, and is tried again in %.1f s: %s", self.name, self.pause, error)

    def _begun(self, folder: Path) -> "subprocess.Popen[bytes]":
        with (folder / f"{self.name}.log").open("ab") as output:
            return subprocess.Popen(
                list(self.argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=tree(),
                env=dict(self.env),
                pass_fds=self.sockets,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),
            )

    def end(self, sign: signal.Signals) -> None:
        """Tell it to end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(sign)

    def has_ended(self) -> bool:
        """Whether it does not run."""
        return self.process is None or self.process.poll() is not None


@dataclass
class Supervisor:
    """All processes of a folder."""

    folder: Folder
    settings: Settings
    ended: threading.Event = field(default_factory=threading.Event)
    noted: dict[str, int] = field(default_factory=dict)
    changing: bool = False
    reasons: Reasons = field(default_factory=lambda: Reasons(log, "cannot be written now"))

    def end(self) -> None:
        """End all, as a signal asks for; a change of the tables, or the backup before it, is broken off."""
        self.ended.set()
        if self.changing:
            raise KeyboardInterrupt

    def run(self) -> None:
        """Start all, and keep them running until a signal."""
        found = database_at(self.folder, self.settings.database)
        postmaster = Postmaster(found, self.ended) if isinstance(found, Cluster) else None
        pieces: list[Piece] = []
        try:
            found.make_roles() if isinstance(found, Cluster) else found.wait()
            with self._changing():
                migration.migrate(found.url(OWNER), self._keep)
            pieces = self._pieces(found)
            while not self.ended.is_set():
                if postmaster is not None:
                    postmaster.look()
                for piece in pieces:
                    piece.look(self.folder.logs)
                with self._bearing(NOTED):
                    self._note(pieces, postmaster)
                with self._bearing("logs"):
                    logs.bound(self.folder.logs)
                self.ended.wait(LOOK_SECONDS)
        finally:
            _end(pieces)
            if postmaster is not None:
                postmaster.end()
            folder = self.folder
            sockets = (folder.web_socket, folder.identity_socket, folder.way_socket, folder.link_socket)
            for path in (*sockets, folder.e2b_socket, folder.inner_socket):
                path.unlink(missing_ok=True)

    @contextmanager
    def _bearing(self, what: str) -> Iterator[None]:
        """Work that is tried again at the next look: a disk that is full for now ends nothing."""
        try:
            yield
            self.reasons.forget(what)
        except OSError as error:
            self.reasons.say(what, str(error))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The time in which tables may be changed, which is as long as they are large."""
        with self._bearing(NOTED):
            note(self.folder, {TABLES: os.getpid()})
        try:
            self.changing = True
            if self.ended.is_set():
                raise KeyboardInterrupt
            yield
        finally:
            self.changing = False

    def _keep(self) -> None:
        """See that there is a backup of the tables as they are, before they are changed."""
        log.info("the tables change: a backup of before is %s", backup.keep(self.folder, self.settings))

    def _pieces(self, database: Database) -> list[Piece]:
        python, accounts = [sys.executable, "-m"], self.folder.accounts
        listener = self._listener(self.folder.web_socket, accounts.proxy)
        web = ["--database", database.url(WEB), "--origin", self.settings.origin, "--pages", str(self.folder.pages)]
        web += ["--account", accounts.web, "--socket", str(listener)]
        work, asking = ["--database", database.url(WORKER)], ["--link", str(self.folder.link_socket)]
        recorder = [*python, "deskyard.control.recorder", database.url(RECORDER), accounts.recorder]
        relaying, networks = _relaying(database, CLOSED)
        for number in networks.get(WEB, ()):
            web += ["--network", str(number)]
        recorder += map(str, networks.get(RECORDER, ()))
        signing_in = []
        if (provider := declared.kept(self.folder.provider)) is not None:
            web += ["--provider", provider.title, "--identity", str(self.folder.identity_socket)]
            door = self._listener(self.folder.identity_socket, accounts.web)
            options = ["--database", database.url(IDENTITY), "--origin", self.settings.origin]
            options += ["--account", accounts.identity, "--declared", str(self.folder.provider), "--socket", str(door)]
            argv = [*python, "deskyard.control.identity", *options]
            signing_in = [Piece("identity", argv, BARE, sockets=(door,))]
        configuration = self.folder.root / "haproxy.cfg"
        answered = e2b.kept(self.folder.e2b_declared)
        configuration.write_text(proxy.configuration(self.settings, self.folder, answered))
        return [
            *relaying,
            Piece("recorder", recorder, BARE, sockets=networks.get(RECORDER, ())),
            Piece("web", [*python, "deskyard.control.web", *web], BARE, sockets=(listener, *networks.get(WEB, ()))),
            Piece(
                "worker", [*python, "deskyard.control.jobs.worker", *work, "--origin", self.settings.origin], os.environ
            ),
            Piece("watch", [*python, "deskyard.control.watch", *work, *asking, *self._watched()], os.environ),
            Piece("observer", [*python, "deskyard.control.jobs.observer", *work, *asking], os.environ),
            *self._linking(database, networks.get(LINK, ())),
            *signing_in,
            *(self._answering(answered) if answered else []),
            Piece("proxy", ["haproxy", "-W", "-db", "-f", str(configuration)], {"PATH": os.environ["PATH"]}),
        ]

    def _linking(self, database: Database, network: Sequence[int]) -> list[Piece]:
        """Who asks gateways, and who opens the way to them."""
        python, accounts = [sys.executable, "-m"], self.folder.accounts
        way = self._listener(self.folder.way_socket, accounts.link)
        # For root alone.
        door = self._listener(self.folder.link_socket, name_of(os.geteuid()))
        options = ["--database", database.url(LINK), "--account", accounts.link, "--source", source(self.folder)]
        options += ["--way", str(self.folder.way_socket), f"--socket={door}"]
        options += [f"--network={number}" for number in network]
        opening = [*python, "deskyard.control.link.way", "--socket", str(way)]
        return [
            Piece("way", opening, os.environ, sockets=(way,)),
            Piece("link", [*python, "deskyard.control.link", *options], BARE, sockets=(door, *network)),
        ]

    def _answering(self, answered: e2b.Declared) -> list[Piece]:
        """Who answers E2B's clients."""
        folder, accounts = self.folder, self.folder.accounts
        listener = self._listener(folder.e2b_socket, accounts.proxy)
        options = ["--account", accounts.e2b, "--listener", str(listener), *answered.arguments()]
        options += ["--mission-control", f"http://{self.settings.host}", "--via", str(folder.inner_socket)]
        options += ["--state", str(folder.e2b / "sandboxes.sqlite"), "--ca", str(folder.e2b_authority)]
        return [Piece("e2b", [sys.executable, "-m", "deskyard.control.e2b", *options], BARE, sockets=(listener,))]

    def _watched(self) -> list[str]:
        networks = ",".join(self.settings.webhook_networks)
        mailing = ["--mail", str(self.folder.mail), "--origin", self.settings.origin]
        return ["--certificate", str(self.folder.certificate), "--networks", networks, *mailing]

    def _listener(self, path: Path, account: str) -> int:
        """A process's socket: one account alone may connect, and it stays while the process changes."""
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(BACKLOG)
        os.chown(path, 0, ids(account)[1])
        path.chmod(0o660)
        return listener.detach()

    def _note(self, pieces: Sequence[Piece], postmaster: Postmaster | None) -> None:
        """Write down who runs, for `control.status`."""
        state = {DATABASE: postmaster.pid} if postmaster is not None else {}
        state |= {piece.name: piece.process.pid for piece in pieces if piece.process is not None}
        if state != self.noted:
            note(self.folder, state)
            self.noted = state


def _relaying(database: Database, roles: Sequence[str]) -> tuple[list[Piece], dict[str, tuple[int]]]:
    """The relay to a database elsewhere for processes without a network, and the closed network of each role."""
    if isinstance(database, Cluster):
        return [], {}
    networks = {role: closed_network(RELAYED, RELAY_PORT) for role in roles}
    listeners = [network.listener for network in networks.values()]
    place = [database.address.host, str(database.address.port), database.folder.accounts.relay]
    argv = [sys.executable, "-m", "deskyard.control.store.relay", *place, *map(str, listeners)]
    piece = Piece("relay", argv, BARE, sockets=listeners)
    return [piece], {role: (network.namespace,) for role, network in networks.items()}


def _end(pieces: Sequence[Piece]) -> None:
    """End all at once, if need be by force."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for piece in pieces:
            piece.end(sign)
        if Deadline(END_SECONDS).wait_for(lambda: all(piece.has_ended() for piece in pieces), 0.05):
            return


def main() -> None:
    """Supervise until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    found = kept(Folder(Path(sys.argv[1])))
    if found is None:
        sys.exit(f"{sys.argv[1]} holds no settings: run ./inv control.up")
    supervisor = Supervisor(found[1], found[0])
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: supervisor.end())
    try:
        supervisor.run()
    except KeyboardInterrupt:
        log.info("ended before the tables were as this tree needs them")


if __name__ == "__main__":
    main()

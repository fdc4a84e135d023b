"""Where Mission Control keeps its things, and which account each of its processes has."""

import grp
import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host import command
from deskyard.host.places import places

ACCOUNT_SECONDS = 60


@dataclass(frozen=True)
class Accounts:
    """The Linux accounts of the processes; the worker is whoever may drive the hypervisor: root."""

    web: str = "deskyard-web"
    recorder: str = "deskyard-recorder"
    identity: str = "deskyard-identity"
    link: str = "deskyard-link"
    relay: str = "deskyard-relay"
    e2b: str = "deskyard-e2b"
    database: str = "postgres"
    proxy: str = "haproxy"

    def make(self) -> None:
        """Make those that are absent; the database's and the proxy's come with their packages."""
        for name in (self.web, self.recorder, self.identity, self.link, self.relay, self.e2b):
            if not exists(name):
                argv = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent"]
                command.run([*argv, "--shell", "/usr/sbin/nologin", name], timeout=ACCOUNT_SECONDS)
        for name in (self.database, self.proxy):
            if not exists(name):
                raise HostError("account", name, "is not on this machine", "install its package: ./inv --yes --list")


@dataclass(frozen=True)
class Folder:
    """The folders below one that every account may pass through, and none but root lists."""

    root: Path = field(default_factory=lambda: places().control)
    accounts: Accounts = field(default_factory=Accounts)

    @property
    def cluster(self) -> Path:
        """The database cluster; its account's alone."""
        return self.root / "postgres"

    def has_cluster(self) -> bool:
        """Whether there is a database cluster in it."""
        return (self.cluster / "PG_VERSION").exists()

    @property
    def database(self) -> Path:
        """The folder of what a database elsewhere is reached with; every account passes through."""
        return self.root / "database"

    @property
    def database_authority(self) -> Path:
        """The certificates by which a database elsewhere is known."""
        return self.database / "authority.pem"

    def database_secret(self, role: str) -> Path:
        """The secret of a role of a database elsewhere; the account's alone that has the role."""
        return self.database / role

    @property
    def sockets(self) -> Path:
        """Sockets of the database and of the web process."""
        return self.root / "run"

    @property
    def web_socket(self) -> Path:
        """Where the proxy reaches the web process."""
        return self.sockets / "web.sock"

    @property
    def identity_socket(self) -> Path:
        """Where the web process reaches the one that signs people in by a provider."""
        return self.sockets / "identity.sock"

    @property
    def way_socket(self) -> Path:
        """Where the process that asks gateways is handed connections to them."""
        return self.sockets / "way.sock"

    @property
    def link_socket(self) -> Path:
        """Where observer and watch ask the process that asks gateways."""
        return self.sockets / "link.sock"

    @property
    def e2b_socket(self) -> Path:
        """Where the proxy reaches the door for E2B's clients."""
        return self.sockets / "e2b.sock"

    @property
    def inner_socket(self) -> Path:
        """Where that door reaches the proxy's way to the web process, which has the limits of keys."""
        return self.sockets / "inner.sock"

    @property
    def e2b(self) -> Path:
        """The folder of what that door keeps of sandboxes; its account's alone, so that root writes nothing there."""
        return self.root / "e2b"

    @property
    def e2b_authority(self) -> Path:
        """The site's authority, by which that door knows gateways; all may read it, and root alone writes it."""
        return self.root / "authority.pem"

    @property
    def e2b_declared(self) -> Path:
        """How E2B's clients are answered, where that was declared; root's alone."""
        return self.root / "e2b.json"

    @property
    def provider(self) -> Path:
        """The declared provider with the client's secret; root's alone."""
        return self.root / "provider.json"

    @property
    def mail(self) -> Path:
        """The declared mail server with its account's password; root's alone."""
        return self.root / "mail.json"

    @property
    def logs(self) -> Path:
        """The folder of what the processes print."""
        return self.root / "logs"

    @property
    def pages(self) -> Path:
        """The built pages."""
        return self.root / "pages"

    @property
    def certificate(self) -> Path:
        """Chain and key of the proxy, in one file; root's alone."""
        return self.root / "tls" / "mission.pem"

    @property
    def e2b_certificate(self) -> Path:
        """The same for the names of E2B's clients."""
        return self.root / "tls" / "e2b.pem"

    @property
    def source(self) -> Path:
        """The name of its audit's chain for the gateways."""
        return self.root / "chain"

    @property
    def processes(self) -> Path:
        """Which processes run, as the supervisor notes it."""
        return self.root / "processes.json"

    @property
    def backups(self) -> Path:
        """Backups that are made before tables change; root's alone."""
        return self.root / "backups"

    @property
    def settings(self) -> Path:
        """The file of what `control.up` was given, for the supervisor."""
        return self.root / "settings.json"

    def lay_out(self) -> None:
        """Make the folders with their owners and modes."""
        if os.geteuid() != 0:
            raise HostError("account", os.geteuid(), "cannot give processes accounts of their own", "run it as root")
        for folder, mode in ((self.root, 0o711), (self.sockets, 0o711), (self.logs, 0o700), (self.pages, 0o700)):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)
        self.cluster.mkdir(exist_ok=True)
        self.cluster.chmod(0o700)
        os.chown(self.cluster, *ids(self.accounts.database))
        self.e2b.mkdir(exist_ok=True)
        self.e2b.chmod(0o700)
        os.chown(self.e2b, *ids(self.accounts.e2b))
        self.certificate.parent.mkdir(exist_ok=True, mode=0o700)


def exists(account: str) -> bool:
    """Whether this machine has the account."""
    try:
        pwd.getpwnam(account)
    except KeyError:
        return False
    return True


def ids(account: str) -> tuple[int, int]:
    """Number of an account, and of its group."""
    entry = pwd.getpwnam(account)
    return entry.pw_uid, entry.pw_gid


def name_of(user: int) -> str:
    """The account of a number."""
    return pwd.getpwuid(user).pw_name


def group_of(account: str) -> str:
    """The name of an account's own group."""
    return grp.getgrgid(ids(account)[1]).gr_name

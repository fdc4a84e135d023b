"""SSH to the gateway of a workspace and, through it, to its desktops: host keys pinned, one config file for all."""

import hashlib
import os
import shlex
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from deskyard.errors import CommandError, SiteError
from deskyard.host import offspring
from deskyard.host.command import Result, run
from deskyard.host.deadline import Deadline
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret
from deskyard.plan.account import MANAGER
from deskyard.site.files import read_site
from deskyard.site.libvirt import daemon
from deskyard.site.management_key import private_key_file

GATEWAY = "gateway"
CONNECT_SECONDS = 60
# How long a kept connection waits for the next question, and after how many silent seconds it is given up.
KEPT_SECONDS, SILENT_SECONDS, SILENT_TIMES = 60, 5, 4
# What ssh itself answers when it never reached the other side.
NO_CONNECTION = 255
# What it says of a kept connection that ended before it took the command up, as one to a gateway that was silent does.
KEPT_IS_GONE = ("mux_client_", "new control master")


@dataclass(frozen=True)
class SshLink:
    """The way to the machines of one workspace."""

    site: str
    workspace: str

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return places().workspace(self.site, self.workspace)

    @property
    def config(self) -> Path:
        """For `ssh -F`: hosts `gateway` and every desktop by name."""
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """The pinned host keys."""
        return self.folder / "known_hosts"

    def through_namespace(self) -> bool:
        """Whether its gateway is in the network of the private hypervisor, not where this machine's own leads."""
        return read_site(self.site).backend == "libvirt" and daemon.namespace() is not None

    def write_config(self, gateway_address: str, desktops: Sequence[tuple[str, str]]) -> None:
        """Write the config for these machines (name, address)."""
        write_secret(self.config, _config(self, gateway_address, desktops).encode())

    def pin(self, host: str, key: str) -> None:
        """Trust this host key, and no other, for `host`; keys of other hosts stay."""
        before = self._note_key(host, key)
        if host == GATEWAY and key not in before:
            # A connection that is kept was made with the key before.
            self.close()

    def unpin(self, host: str) -> None:
        """Trust no key for `host` any more: the machine that had one is gone."""
        if self.pinned(host):
            self._note_key(host, None)

    def _note_key(self, host: str, key: str | None) -> str:
        """Put the line of a host in place of the one before; the lines as they were."""
        with alone(f"known-hosts-{self.site}-{self.workspace}"):
            lines = self.known_hosts.read_text().splitlines() if self.known_hosts.exists() else []
            alias = host_alias(self.workspace, host)
            kept = [line for line in lines if line.split()[:1] != [alias]]
            text = "".join(f"{line}\n" for line in [*kept, *([f"{alias} {key}"] if key else [])])
            write_secret(self.known_hosts, text.encode())
        return "\n".join(lines)

    def pinned(self, host: str) -> bool:
        """True if a host key of `host` is known."""
        return self._pinned_key(host) is not None

    def host_key(self, host: str) -> str:
        """The pinned key of a host; raises `SiteError` if there is none."""
        key = self._pinned_key(host)
        if key is None:
            raise self._not_set_up(host)
        return key

    def gateway_address(self) -> str:
        """Where the gateway is, as the config has it; raises `SiteError` if there is none."""
        lines = self.config.read_text().splitlines() if self.config.exists() else []
        for before, line in pairwise(lines):
            if before == f"Host {GATEWAY}":
                return line.split()[1]
        raise self._not_set_up(GATEWAY)

    def _pinned_key(self, host: str) -> str | None:
        alias = host_alias(self.workspace, host)
        for line in self.known_hosts.read_text().splitlines() if self.known_hosts.exists() else []:
            if line.startswith(f"{alias} "):
                return line.removeprefix(f"{alias} ")
        return None

    def _not_set_up(self, host: str) -> SiteError:
        remedy = f"run ./inv workspace.up {self.workspace}"
        return SiteError("machine", f"{self.workspace}/{host}", "has not been set up yet", remedy)

    @property
    def control(self) -> Path:
        """The socket of the kept connection to the gateway; its path is short, as those of sockets have to be."""
        name = hashlib.sha256(str(self.known_hosts).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"deskyard-{os.getuid()}" / f"ssh-{name}"

    def command(self, host: str, remote: Sequence[str] = (), *, kept: bool = False) -> list[str]:
        """The command line that runs `remote` on `host`; arguments are quoted for the remote shell.

        With `kept` the connection stays for the next command: on an emulated gateway a new one takes three seconds.
        """
        options = self._keeping() if kept else []
        return ["ssh", "-F", str(self.config), *options, host, *([shlex.join(remote)] if remote else [])]

    def close(self) -> None:
        """End the kept connection, if there is one; its socket is all that is needed for it."""
        if self.control.exists():
            run(["ssh", "-F", "none", *self._keeping(), "-O", "exit", GATEWAY], timeout=30, check=False)

    def _keeping(self) -> list[str]:
        """Options of a kept connection; none if others than its owner could put a socket in its place."""
        folder = self.control.parent
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            return []
        options = {
            "ControlMaster": "auto",
            "ControlPath": self.control,
            "ControlPersist": KEPT_SECONDS,
            "ServerAliveInterval": SILENT_SECONDS,
            "ServerAliveCountMax": SILENT_TIMES,
        }
        return [f"-o{name}={value}" for name, value in options.items()]

    def run(
        self,
        host: str,
        remote: Sequence[str],
        *,
        timeout: float,
        stdin: str | None = None,
        check: bool = True,
        kept: bool = False,
    ) -> Result:
        """Run a program on `host`; raises `CommandError` if it fails, `SiteError` if the host cannot be reached."""
        result = run(self.command(host, remote, kept=kept), timeout=timeout, stdin=stdin, check=False)
        if kept and result.code == NO_CONNECTION and any(words in result.stderr for words in KEPT_IS_GONE):
            result = run(self.command(host, remote), timeout=timeout, stdin=stdin, check=False)
        if result.code == NO_CONNECTION:
            reason = f"cannot be reached over SSH: {result.stderr.strip()[-300:]}"
            raise SiteError("machine", f"{self.workspace}/{host}", reason, "see ./inv workspace.status")
        if check and result.code != 0:
            tail = (result.stderr.strip() or result.stdout.strip())[-2000:]
            what = f"{host}: {' '.join(remote[:4])}"
            raise CommandError("command", what, f"exit code {result.code}\n{tail}", "mend the cause above")
        return result

    def wait(self, host: str, seconds: float, pause: Callable[[float], None]) -> None:
        """Wait until `host` lets us in; raises the last `SiteError` if it does not in time."""
        # A try can take a minute by itself.
        deadline = Deadline(seconds)
        while True:
            try:
                self.run(host, ["true"], timeout=CONNECT_SECONDS + 30)
                return
            except (SiteError, CommandError):
                if deadline.is_over:
                    raise
            pause(2)


def host_alias(workspace: str, host: str) -> str:
    """The name under which a host's key is pinned."""
    return f"{workspace}.{host}"


def _config(link: SshLink, gateway_address: str, desktops: Sequence[tuple[str, str]]) -> str:
    lines = ["# Written by Deskyard; use it with ssh -F.", f"Host {GATEWAY}", f"  HostName {gateway_address}"]
    lines.append(f"  HostKeyAlias {host_alias(link.workspace, GATEWAY)}")
    if link.through_namespace():
        # It ends with its connection, which may be kept when whoever began it is ended with all that it started.
        lines.append(f"  ProxyCommand env {offspring.SECRET}= {shlex.join(daemon.inside())} socat - TCP:%h:%p")
    for name, address in desktops:
        lines += [f"Host {name}", f"  HostName {address}", f"  HostKeyAlias {host_alias(link.workspace, name)}"]
        lines += [f"  ProxyJump {GATEWAY}"]
    lines += [
        "Host *",
        f"  User {MANAGER}",
        f'  IdentityFile "{private_key_file(link.site)}"',
        "  IdentitiesOnly yes",
        f'  UserKnownHostsFile "{link.known_hosts}"',
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
        f"  ConnectTimeout {CONNECT_SECONDS}",
        "  ServerAliveInterval 15",
        "  ServerAliveCountMax 4",
        "  LogLevel ERROR",
    ]
    return "\n".join(lines) + "\n"

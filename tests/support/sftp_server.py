"""OpenSSH's own server of SFTP on loopback, with keys of its own; nothing of the machine's configuration is touched.

Each connection is a process `sshd -i`, as inetd would start it, so no port is chosen before it is listened on. `ssh` is
led to keys and known hosts of the test by a program of that name before the real one on PATH.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.host import command
from tests.support.requirements import missing, need_programs

SSHD = "/usr/sbin/sshd"
# As root it wants a folder below /run, which is there only where the system has started its own.
APART = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"', "sh"]
CONFIG = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
# In the process of sshd itself: no shell is started, which would read what this user has set up for it.
Subsystem sftp internal-sftp
"""
SSH = """#!/bin/sh
printf '%s\\n' "$*" >>'{folder}/asked'
exec '{ssh}' -F '{folder}/ssh_config' "$@"
"""
CLIENT = """\
IdentityFile {folder}/client
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking accept-new
"""


class SftpServer:
    """Listens while its `with` block lasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._serve, name="sftp", daemon=True)

    def prepare(self) -> None:
        """Make the keys and the files that tell both sides of them."""
        for name in ("host", "client"):
            self.new_key(name)
        (self.folder / "ssh_config").write_text(CLIENT.format(folder=self.folder))
        program = self.folder / "programs" / "ssh"
        program.parent.mkdir()
        program.write_text(SSH.format(folder=self.folder, ssh=shutil.which("ssh")))
        program.chmod(0o755)
        self.let_in(True)
        self.make_known(True)
        self.offer(True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no more, and end what goes on."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)

    def location(self, folder: Path) -> str:
        """Where restic finds a folder."""
        return f"sftp://{getpass.getuser()}@127.0.0.1:{self.port}/{folder}"

    def new_key(self, name: str) -> None:
        """Give the host, or the client, another key."""
        path = self.folder / name
        for old in (path, path.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        command.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], timeout=30)

    def make_known(self, known: bool) -> None:
        """Let the client know the host's key as it is now, or none."""
        key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}\n" if known else "")

    def let_in(self, welcome: bool) -> None:
        """Let the server take the client's key, or none."""
        (self.folder / "authorized").write_text((self.folder / "client.pub").read_text() if welcome else "")

    def offer(self, sftp: bool) -> None:
        """Let the server have SFTP, or none, from the next connection on."""
        text = CONFIG.format(folder=self.folder)
        (self.folder / "sshd_config").write_text(text if sftp else text.replace("Subsystem", "#"))

    @property
    def asked(self) -> str:
        """The command lines of `ssh`."""
        return (self.folder / "asked").read_text()

    def _serve(self) -> None:
        apart = APART if os.geteuid() == 0 else []
        argv = [*apart, SSHD, "-i", "-e", "-f", str(self.folder / "sshd_config")]
        with (self.folder / "log").open("ab") as log:
            while True:
                try:
                    connection, _ = self._socket.accept()
                except OSError:
                    return
                with connection:
                    given: dict[str, Any] = {"stdin": connection, "stdout": connection, "stderr": log}
                    self._processes.append(subprocess.Popen(argv, **given, start_new_session=True))


@contextlib.contextmanager
def serve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SftpServer]:
    """A server that lets this user in, and which `ssh` of this process knows."""
    need_programs("ssh", "ssh-keygen", "unshare")
    if not Path(SSHD).exists():
        missing(f"{SSHD} (Debian's openssh-server)")
    folder.mkdir()
    server = SftpServer(folder)
    server.prepare()
    monkeypatch.setenv("PATH", str(folder / "programs"), prepend=":")
    server.start()
    try:
        yield server
    finally:
        server.stop()

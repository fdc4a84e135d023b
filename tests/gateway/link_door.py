"""A gateway's machine as the key of `link` finds it: Debian's sshd and sudo, in a mount namespace of their own.

What is written below /etc and /usr stays in that namespace, and so do its accounts. Behind it is the session service of
a gateway of these tests; `deskyard-gateway` is the real program, for that gateway.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from deskyard.guest import link_account, link_questions
from deskyard.site import guest_program
from tests.gateway.support import TREE, Gateway, wait_for
from tests.support.requirements import missing, need_programs, need_root

SSHD = "/usr/sbin/sshd"
SECONDS = 60
MACHINE = """set -e
mount -t tmpfs none "$1"
for part in etc usr; do
  mkdir "$1/$part" "$1/$part.work"
  mount -t overlay overlay -o "lowerdir=/$part,upperdir=$1/$part,workdir=$1/$part.work" "/$part"
done
mount -t tmpfs none /run
mkdir -p "$2/run/deskyard-status"
mkdir -m 755 /run/sshd
for service in session status; do
  mkdir -m 755 /run/deskyard-$service
  mount --bind "$2/run/deskyard-$service" /run/deskyard-$service
done
echo ready
exec cat
"""
# As Debian has it, with the role guest_base on top: nothing here forbids what the key's line has to forbid.
CONFIG = """\
HostKey {folder}/host
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM yes
X11Forwarding yes
AcceptEnv LANG LC_*
PidFile none
LogLevel DEBUG1
Subsystem sftp /usr/lib/openssh/sftp-server
"""
CLIENT = """\
Host gateway
User {account}
ProxyCommand nsenter --mount=/proc/{pid}/ns/mnt -- {sshd} -i -E {folder}/log -f {folder}/sshd_config
IdentityFile {folder}/key
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking yes
BatchMode yes
"""
PROGRAM = """#!/bin/sh
export DESKYARD_GATEWAY_LAYOUT='{layout}' PYTHONPATH='{tree}'
exec '{python}' -m deskyard.gateway.cli "$@"
"""


@dataclass
class Door:
    """The machine, while its process lasts."""

    folder: Path
    pid: int

    def inside(self, *argv: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a program in it, as root."""
        command = ["nsenter", f"--mount=/proc/{self.pid}/ns/mnt", "--", *argv]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False)

    def as_account(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        """Run a program in it as somebody who got past sshd."""
        account = link_account.ACCOUNT
        return self.inside("setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", *argv)

    def deliver(self, key: str) -> list[str]:
        """Bring it what gateways get, as it is sent to them; the files that changed."""
        program = Path(link_questions.__file__).read_text()
        command, text = guest_program.sent(link_account, {"key": key, "program": program})
        done = self.inside(*command[2:], stdin=text)
        assert done.returncode == 0, done.stderr
        found: list[str] = json.loads(done.stdout)["changed"]
        return found

    def command(self, *words: str, options: Sequence[str] = ()) -> list[str]:
        """The command line of a client."""
        return ["ssh", "-F", str(self.folder / "ssh_config"), *options, "gateway", *words]

    def ask(self, *words: str, options: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
        """Ask by SSH, as whoever has the key."""
        argv = self.command(*words, options=options or self.kept)
        return subprocess.run(argv, input="", capture_output=True, text=True, timeout=SECONDS, check=False)

    @property
    def kept(self) -> list[str]:
        """Options of one connection for all questions; each is still a session of its own."""
        return [f"-oControlPath={self.folder}/kept"]

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Keep that connection."""
        argv = self.command(options=[*self.kept, "-N", "-oControlMaster=yes"])
        with (self.folder / "client.log").open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for("a connection", lambda: (self.folder / "kept").exists() or process.poll() is not None)
            assert process.poll() is None, (self.folder / "client.log").read_text() + self.log
            yield
        finally:
            process.kill()
            process.wait(SECONDS)

    @property
    def public_key(self) -> str:
        """The key that is delivered."""
        return (self.folder / "key.pub").read_text().strip()

    @property
    def log(self) -> str:
        """What sshd wrote down."""
        return (self.folder / "log").read_text()


@contextlib.contextmanager
def link_door(folder: Path, gateway: Gateway) -> Iterator[Door]:
    """A machine that got the key; nothing of it stays."""
    need_root("makes a mount namespace with accounts of its own")
    need_programs("ssh", "ssh-keygen", "sudo", "visudo", "useradd", "nsenter", "unshare", "setpriv")
    if not Path(SSHD).exists():
        missing(f"{SSHD} (Debian's openssh-server)")
    (folder / "parts").mkdir()
    argv = ["unshare", "--mount", "sh", "-c", MACHINE, "machine", str(folder / "parts"), str(gateway.root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as machine:
        assert machine.stdout is not None and machine.stdin is not None
        try:
            assert machine.stdout.readline() == b"ready\n"
            door = Door(folder, machine.pid)
            _prepare(door, gateway)
            with door.connected():
                yield door
        finally:
            machine.stdin.close()


def new_key(folder: Path, name: str) -> None:
    """Make a key pair."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
    subprocess.run(argv, check=True, timeout=SECONDS)


def _prepare(door: Door, gateway: Gateway) -> None:
    folder = door.folder
    for name in ("host", "key"):
        new_key(folder, name)
    (folder / "known_hosts").write_text(f"gateway {(folder / 'host.pub').read_text()}")
    (folder / "sshd_config").write_text(CONFIG.format(folder=folder))
    account = link_account.ACCOUNT
    (folder / "ssh_config").write_text(CLIENT.format(account=account, pid=door.pid, sshd=SSHD, folder=folder))
    (folder / "layout.json").write_text(json.dumps(asdict(gateway.layout), default=str))
    program = PROGRAM.format(layout=folder / "layout.json", tree=TREE, python=sys.executable)
    done = door.inside(
        "sh", "-c", f"cat >'{link_questions.PROGRAM}' && chmod 755 '{link_questions.PROGRAM}'", stdin=program
    )
    assert done.returncode == 0, done.stderr
    door.deliver(door.public_key)

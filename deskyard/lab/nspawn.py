"""Runs real systemd hosts as containers for tests: one shared tree, a network of its own for each host.

Hosts are reached by ssh over a unix socket, so that a host may drop every packet and still be configured and asked.
All of it is found again by the folder alone: `destroy` cleans up after a run that was killed half-way.
"""

import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.command import run
from deskyard.host.deadline import Deadline

BOOT_SECONDS = 60.0
# The kernel lets go of a large program some time after it has none of its processes any more, more so under load.
END_SECONDS = 120.0
CGROUPS = Path("/sys/fs/cgroup")
# slirp4netns' own.
RESOLVER = "10.0.2.3"
# Exit code of a host that wants to be started again. `reboot` inside works like pulling the plug of the network: the
# namespace is made anew, so that no rule, address or setting of the kernel outlives it.
REBOOT = 133

BOOT = """{join}
while :; do
{network}
  SYSTEMD_NSPAWN_API_VFS_WRITABLE=network SYSTEMD_NSPAWN_LOCK=0 {nspawn}
  [ $? = {reboot} ] || break
done
"""
NSPAWN = (
    "systemd-nspawn --quiet --boot --register=no --keep-unit --capability=CAP_NET_ADMIN --resolv-conf=off"
    " --timezone=off --link-journal=no --console=pipe"
)


@dataclass(frozen=True)
class Nic:
    """A network card, the bridge it hangs on, and what the host's systemd-networkd makes of it."""

    name: str
    mac: str
    bridge: str
    network: str


@dataclass(frozen=True)
class Host:
    """A host and its network cards."""

    name: str
    nics: tuple[Nic, ...]


@dataclass(frozen=True)
class Yard:
    """The hosts of one run, between them bridges in a namespace that plays the machine they would run on."""

    folder: Path

    @property
    def name(self) -> str:
        """Unique per folder, so that two checkouts may run at once; names of interfaces are short."""
        return "dym" + hashlib.sha1(str(self.folder).encode()).hexdigest()[:6]

    @property
    def ssh_config(self) -> Path:
        """How to reach the hosts."""
        return self.folder / "ssh_config"

    def create(self, tree: Path, bridges: Mapping[str, Sequence[str]], hosts: Sequence[Host], outside: str) -> None:
        """Boot `hosts` from `tree`; `bridges` name the addresses of the machine, where `outside` (shell) runs."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write_ssh([host.name for host in hosts])
        self._ip("netns", "add", self.name)
        self._ip("-n", self.name, "link", "set", "lo", "up")
        for bridge, addresses in bridges.items():
            if bridge != "lo":
                self._ip("-n", self.name, "link", "add", bridge, "type", "bridge")
                self._ip("-n", self.name, "link", "set", bridge, "up")
            for address in addresses:
                self._ip("-n", self.name, "address", "add", address, "dev", bridge)
        self._spawn("outside", f"{self._join('outside')}\nexec ip netns exec {self.name} {outside}\n")
        for number, host in enumerate(hosts):
            self._prepare(tree, host)
            self._spawn(host.name, self._boot_script(host, number))
        for host in hosts:
            self._wait(host.name)

    def open_way_out(self, network: str) -> str:
        """Let `network` reach what this machine reaches, but not its loopback; answers the address of a resolver."""
        options = "--configure --mtu=1400 --disable-host-loopback --netns-type=path"
        self._spawn("way_out", f"{self._join('way_out')}\nexec slirp4netns {options} /run/netns/{self.name} tap0\n")
        inside = ["ip", "netns", "exec", self.name]
        run([*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"], timeout=30)
        chain = f"type nat hook postrouting priority 100; ip saddr {network} masquerade;"
        run([*inside, "nft", f"table ip way_out {{ chain out {{ {chain} }}; }}"], timeout=30)
        return RESOLVER

    def run(self, host: str, script: str, seconds: float = BOOT_SECONDS) -> str:
        """Run a script as root on a host, and answer what it says; raises `CommandError` if it fails."""
        return run(["ssh", "-F", str(self.ssh_config), host, "sh", "-s"], timeout=seconds, stdin=script).stdout

    def destroy(self) -> None:
        """End everything that belongs to this folder; says nothing about what is not there."""
        for master in self.folder.glob("*/cp"):
            end = ["ssh", "-F", str(self.ssh_config), "-O", "exit", master.parent.name]
            subprocess.run(end, capture_output=True, check=False, timeout=30)
        for root in _cgroup_roots():
            _end_cgroup(root / self.name)
        for mount in sorted(self.folder.glob("*/root")):
            subprocess.run(["umount", "-l", str(mount)], capture_output=True, check=False, timeout=30)
        names = [path.name for path in Path("/run/netns").glob(f"{self.name}*")]
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=30)
        for script in self.folder.glob("*/boot.sh"):
            shutil.rmtree(script.parent, ignore_errors=True)
        for file in ("ssh_config", "known_hosts", "key", "key.pub"):
            (self.folder / file).unlink(missing_ok=True)

    def left_behind(self) -> list[str]:
        """List what of this folder's hosts is still there: nothing after `destroy`."""
        found = [str(path) for path in Path("/run/netns").glob(f"{self.name}*")]
        found += [str(root / self.name) for root in _cgroup_roots() if (root / self.name).exists()]
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        return found + [line.split()[1] for line in mounts if f"{self.folder}/" in line]

    def _write_ssh(self, names: Sequence[str]) -> None:
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key")], timeout=30)
        lines = [
            f"Host {' '.join(names)}",
            "  User root",
            f"  IdentityFile {self.folder}/key",
            f"  UserKnownHostsFile {self.folder}/known_hosts",
            f"  ProxyCommand socat - UNIX-CONNECT:{self.folder}/%h/ssh/ssh",
            "  ControlMaster auto",
            "  ControlPersist 60s",
            f"  ControlPath {self.folder}/%h/cp",
        ]
        self.ssh_config.write_text("\n".join(lines) + "\n")

    def _prepare(self, tree: Path, host: Host) -> None:
        """The host's own root over the shared tree, with the keys that it shall have."""
        folder = self.folder / host.name
        for part in ("root", "upper", "work", "ssh"):
            (folder / part).mkdir(parents=True)
        layers = f"lowerdir={tree},upperdir={folder}/upper,workdir={folder}/work"
        run(["mount", "-t", "overlay", "overlay", "-o", layers, str(folder / "root")], timeout=30)
        root = folder / "root"
        key = root / "etc/ssh/ssh_host_ed25519_key"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", str(key)], timeout=30)
        with (self.folder / "known_hosts").open("a") as hosts:
            hosts.write(f"{host.name} {key.with_suffix('.pub').read_text()}")
        (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self.folder / "key.pub", root / "root/.ssh/authorized_keys")
        for nic in host.nics:
            (root / f"etc/systemd/network/10-cloud-init-{nic.name}.network").write_text(nic.network)

    def _boot_script(self, host: Host, number: int) -> str:
        inside = f"{self.name}-{host.name}"
        lines = [f"ip netns del {inside} 2>/dev/null", f"ip netns add {inside}"]
        for index, nic in enumerate(host.nics):
            port = f"p{number}n{index}"
            lines += [
                # The old namespace may take its time to go, and its cable with it.
                f"ip -n {self.name} link del {port} 2>/dev/null",
                f"ip link add {nic.name} netns {inside} address {nic.mac} type veth peer name {port} netns {self.name}",
                f"ip -n {self.name} link set {port} master {nic.bridge} up",
            ]
        folder = self.folder / host.name
        options = f"--directory={folder}/root --machine={inside} --hostname={host.name}"
        options += f" --network-namespace-path=/run/netns/{inside} --bind={folder}/ssh:/run/host/unix-export"
        network = "\n".join(f"  {line}" for line in lines)
        return BOOT.format(join=self._join(host.name), network=network, nspawn=f"{NSPAWN} {options}", reboot=REBOOT)

    def _join(self, name: str) -> str:
        """A cgroup of its own: by this alone the processes of a host are found again, whatever they do."""
        lines = []
        for root in _cgroup_roots():
            own = root / self.name / name
            # Of version 2 a host counts processes if those above let it; elsewhere this is no file, or refused.
            lines += [f"mkdir -p {own} || exit 1"]
            lines += [f"echo +pids 2>/dev/null >{above}/cgroup.subtree_control || :" for above in (root, own.parent)]
            lines += [f"echo $$ >{own}/cgroup.procs || exit 1"]
        return "\n".join(lines)

    def _spawn(self, name: str, script: str) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "boot.sh").write_text(script)
        with (folder / "console.log").open("wb") as log:
            subprocess.Popen(
                ["sh", str(folder / "boot.sh")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, name: str) -> None:
        path = self.folder / name / "ssh/ssh"
        if not Deadline(BOOT_SECONDS).wait_for(lambda: _answers(path), 0.1):
            console = (self.folder / name / "console.log").read_text(errors="replace")[-2000:]
            reason = f"did not answer within {BOOT_SECONDS:.0f} s\n{console}"
            raise HostError("host", name, reason, "see the console above")
        command = shlex.join(["systemctl", "is-system-running", "--wait"])
        run(["ssh", "-F", str(self.ssh_config), name, command], timeout=BOOT_SECONDS, check=False)

    @staticmethod
    def _ip(*argv: str) -> None:
        run(["ip", *argv], timeout=30)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(path))
        except OSError:
            return False
        return True


def _cgroup_roots() -> list[Path]:
    """The trees that know of every process: the one of version 2, or beside the controllers of version 1.

    Of those controllers the one that counts processes, where it may be used: each host has a place of its own in it.
    """
    mixed = [path for path in (CGROUPS / "unified", CGROUPS / "systemd") if path.is_dir()]
    counting = [path for path in (CGROUPS / "pids",) if mixed and os.access(path, os.W_OK)]
    return [*mixed, *counting] or [CGROUPS]


def _end_cgroup(cgroup: Path) -> None:
    """Kill whatever is in there and remove it."""
    if not cgroup.is_dir():
        return
    deadline = Deadline(END_SECONDS)
    if (cgroup / "cgroup.kill").exists():
        (cgroup / "cgroup.kill").write_text("1")
        deadline.wait_for(lambda: "populated 1" not in (cgroup / "cgroup.events").read_text(), 0.05)
    for folder in sorted(cgroup.glob("**/"), key=lambda path: len(path.parts), reverse=True):
        while folder.is_dir():
            try:
                folder.rmdir()
            except OSError:
                if deadline.is_over:
                    raise
                time.sleep(0.05)

"""A workspace as its manager finds it, without machines: systemd, OpenSSH, sudo and a journal of Debian in containers.

The gateway and the desktops of a Plan stand where the Plan has them: desktops are reached through the gateway alone.
`deskyard`, who manages them, and `agent` have their accounts as in the images. What a host writes is one folder.
"""

import subprocess
import time
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path

from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.image.base.bootstrap import apt_sources
from deskyard.lab.nspawn import Host, Nic
from deskyard.lab.tree import cached
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.account import AGENT, MANAGER
from deskyard.plan.image.image import base_image
from deskyard.plan.workspace import GATEWAY, WorkspacePlan, plan_workspace
from deskyard.site.management_key import public_key
from deskyard.site.ssh_link import SshLink
from tests.support.containers import Containers

PACKAGES = (
    "dbus",
    "iproute2",
    "libpam-systemd",
    "openssh-server",
    "procps",
    "python3",
    "socat",
    "sudo",
    "systemd-sysv",
)
FINISH = f"""
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname
: >"$1"/etc/machine-id
: >"$1"/etc/fstab
mkdir -p "$1"/var/log/journal
chroot "$1" useradd --create-home --shell /bin/bash {MANAGER}
chroot "$1" useradd --create-home --shell /bin/bash --uid 1500 {AGENT}
chroot "$1" useradd --create-home --shell /bin/bash stranger
echo '{MANAGER} ALL=(ALL) NOPASSWD:ALL' >"$1"/etc/sudoers.d/90-manager
chroot "$1" systemctl --quiet enable systemd-networkd.service ssh.service
chroot "$1" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer systemd-networkd-wait-online.service
"""
NETWORK = "10.91.7.0/24"
REACH_SECONDS = 60.0


def host_tree() -> Path:
    """The root that all hosts share, made at first use."""
    base = base_image(tree(), "desktop").base.bootstrap
    argv = ["mmdebstrap", "--variant=minbase", "--aptopt=APT::Install-Recommends false"]
    argv += [f"--include={','.join(PACKAGES)}", f"--customize-hook={FINISH}"]

    def make(destination: Path) -> None:
        run([*argv, base.suite, str(destination), *apt_sources(base)], timeout=1800)
        destination.chmod(0o755)

    return cached("desktop", repr((argv, base.suite, apt_sources(base))), make)


def planned(*desktops: str) -> WorkspacePlan:
    """The Plan of workspace `lab`."""
    values = {"name": "lab", "network": NETWORK, "desktops": [{"name": name} for name in desktops]}
    return plan_workspace(Workspace.check(values, "test"), Site(), "kvm")


class Lab(Containers):
    """The hosts of a Plan, while its `with` block lasts."""

    def __init__(self, folder: Path, plan: WorkspacePlan) -> None:
        super().__init__(folder)
        self.plan = plan

    def boot(self) -> None:
        """Create the hosts, and let their manager in."""
        settings, prefix = self.plan.gateway.settings, IPv4Network(self.plan.network.cidr).prefixlen
        door = [
            _nic("uplink", settings.uplink_mac, "uplink", f"{settings.uplink_address}/{settings.uplink_prefix}"),
            _nic("workspace", settings.workspace_mac, "workspace", f"{settings.workspace_address}/{prefix}"),
        ]
        hosts = [Host(GATEWAY, tuple(door))]
        for desktop in self.plan.desktops:
            hosts.append(
                Host(desktop.name, (_nic("workspace", desktop.mac, "workspace", f"{desktop.address}/{prefix}"),))
            )
        bridges = {"uplink": [f"{settings.host_address}/{settings.uplink_prefix}"], "workspace": []}
        self.yard.create(host_tree(), bridges, hosts, "sleep infinity")
        self._let_in([host.name for host in hosts])

    @property
    def link(self) -> SshLink:
        """The way that Deskyard takes."""
        return SshLink(self.plan.site, self.plan.name)

    def inside(self) -> list[str]:
        """The start of a command line on the machine on which the hosts run."""
        return ["ip", "netns", "exec", self.yard.name]

    def root(self, host: str) -> Path:
        """The files of a host as it sees them."""
        return self.yard.folder / host / "root"

    def written(self, host: str) -> Path:
        """What a host wrote, and what was put into it."""
        return self.yard.folder / host / "upper"

    def do(self, host: str, script: str, user: str = "root", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a script in a host, past the network and its manager."""
        argv = ["ssh", "-F", str(self.yard.ssh_config), host, "setpriv", "--reuid", user, "--regid", user]
        argv += ["--init-groups", "sh", "-s"]
        done = subprocess.run(argv, input=script, capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, f"{host}: {script}\n{done.stdout}\n{done.stderr}"
        return done

    def _let_in(self, hosts: Sequence[str]) -> None:
        """What cloud-init and the first `up` would have done: the manager's key is let in, host keys are pinned."""
        desktops = [(desktop.name, desktop.address) for desktop in self.plan.desktops]
        self.link.write_config(self.plan.gateway.settings.uplink_address, desktops)
        for host in hosts:
            key = (self.root(host) / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
            self.link.pin(host, " ".join(key.split()[:2]))
            with (self.root(host) / "etc/hosts").open("a") as names:
                names.write(f"127.0.1.1 {host}\n")
            keys = f"/home/{MANAGER}/.ssh/authorized_keys"
            script = f"install -d -m 0700 /home/{MANAGER}/.ssh\necho '{public_key(self.plan.site)}' >{keys}\n"
            self.do(host, f"{script}chmod 0600 {keys}", user=MANAGER)
        for host in hosts:
            self.link.wait(host, REACH_SECONDS, time.sleep)


def _nic(name: str, mac: str, bridge: str, address: str) -> Nic:
    return Nic(name, mac, bridge, f"[Match]\nName={name}\n[Network]\nAddress={address}\n")

"""A desktop's system without its machine, on which the roles of the catalogue are applied for real.

Debian in a container with real systemd and the account `agent`; packages come from the registries, by a way out of its
own. Authorities that this machine trusts beside the distribution's are trusted there, too: a company's network may
sign what passes it. Everything a host writes is one folder, which goes with it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from deskyard.plan.image import base_image
from deskyard.run.bootstrap import apt_sources
from deskyard.run.command import Result, run
from deskyard.run.molecule_tree import cached
from deskyard.run.nspawn import Host, Nic, Yard
from deskyard.run.places import tree

NAME = "desk"
NETWORK, GATEWAY_ADDRESS, ADDRESS = "10.92.8.0/24", "10.92.8.1", "10.92.8.2"
# slirp4netns' own resolver.
RESOLVER = "10.0.2.3"
APPLY_SECONDS = 2400.0
PACKAGES = (
    "ca-certificates",
    "curl",
    "dbus",
    "iproute2",
    "libpam-systemd",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "sudo",
    "systemd-sysv",
)
FINISH = """
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname
: >"$1"/etc/machine-id
: >"$1"/etc/fstab
echo LANG=C.UTF-8 >"$1"/etc/default/locale
for authority in /usr/local/share/ca-certificates/*.crt; do
  [ ! -e "$authority" ] || cp "$authority" "$1"/usr/local/share/ca-certificates/
done
chroot "$1" update-ca-certificates >/dev/null
chroot "$1" systemctl --quiet enable systemd-networkd.service
chroot "$1" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer systemd-networkd-wait-online.service
"""
PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Apply a role of the image
      ansible.builtin.include_role:
        name: "{{ image_role }}"
      loop: "{{ image_roles }}"
      loop_control:
        loop_var: image_role
"""


def host_tree() -> Path:
    """The root of the host, made at first use; package lists stay in it."""
    base = base_image(tree(), "desktop").base.bootstrap
    argv = ["mmdebstrap", "--variant=minbase", "--skip=cleanup/apt", "--aptopt=APT::Install-Recommends false"]
    argv += [f"--include={','.join(PACKAGES)}", f"--customize-hook={FINISH}"]

    def make(destination: Path) -> None:
        run([*argv, base.suite, str(destination), *apt_sources(base)], timeout=1800)
        destination.chmod(0o755)

    return cached("catalogue", repr((argv, base.suite, apt_sources(base))), make)


class Workbench:
    """The host, while its `with` block lasts."""

    def __init__(self, folder: Path) -> None:
        self.yard = Yard(folder)
        self._slirp: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        network = f"[Match]\nName=lan\n[Network]\nAddress={ADDRESS}/24\nGateway={GATEWAY_ADDRESS}\n"
        host = Host(NAME, (Nic("lan", "52:54:00:5c:00:01", "lan", network),))
        try:
            self.yard.create(host_tree(), {"lan": [f"{GATEWAY_ADDRESS}/24"]}, [host], "sleep infinity")
            self._open_way_out()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        assert self.yard.left_behind() == []
        shutil.rmtree(self.yard.folder)

    @property
    def root(self) -> Path:
        """The files of the host as it sees them."""
        return self.yard.folder / NAME / "root"

    @property
    def where(self) -> list[str]:
        """The options that lead testinfra to the host."""
        return [f"--hosts=ssh://{NAME}", f"--ssh-config={self.yard.ssh_config}"]

    def apply(self, roles: Sequence[str], variables: dict[str, Any] | None = None, *, check: bool = False) -> Result:
        """Apply roles as an image build does; with `check` nothing is to be touched."""
        result = self.try_to_apply(roles, variables, check=check)
        assert result.code == 0, f"{result.stdout[-6000:]}\n{result.stderr[-2000:]}"
        return result

    def try_to_apply(
        self,
        roles: Sequence[str],
        variables: dict[str, Any] | None = None,
        *,
        check: bool = False,
        way: Path | None = None,
    ) -> Result:
        """Apply roles, and answer what became of it; `way` is the ssh configuration of other sessions than usual."""
        folder = self.yard.folder
        (folder / "apply.yml").write_text(PLAYBOOK)
        (folder / "inventory").write_text(f"{NAME} ansible_user=root\n")
        (folder / "variables.json").write_text(json.dumps({"image_roles": list(roles), **(variables or {})}))
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(folder / "inventory")]
        argv += ["--extra-vars", f"@{folder / 'variables.json'}", *(["--check"] if check else [])]
        env = {
            "ANSIBLE_CONFIG": str(tree() / "ansible/ansible.cfg"),
            "ANSIBLE_ROLES_PATH": str(tree() / "ansible/roles"),
            "ANSIBLE_SSH_ARGS": f"-F {way or self.yard.ssh_config}",
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        return run([*argv, str(folder / "apply.yml")], timeout=APPLY_SECONDS, env=env, check=False)

    def do(self, script: str, user: str = "root", check: bool = True, seconds: float = 120) -> Result:
        """Run a script on the host."""
        argv = ["ssh", "-F", str(self.yard.ssh_config), NAME, "sudo", "-i", "-u", user, "sh", "-s"]
        done = run(argv, timeout=seconds, stdin=script, check=False)
        assert not check or done.code == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done

    def _open_way_out(self) -> None:
        (self.root / "etc/resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        with (self.root / "etc/hosts").open("a") as names:
            names.write(f"127.0.1.1 {NAME}\n")
        options = ["--configure", "--mtu=1400", "--disable-host-loopback", "--netns-type=path"]
        # Its end is the end of the run: it belongs to no host.
        self._slirp = subprocess.Popen(
            ["slirp4netns", *options, f"/run/netns/{self.yard.name}", "tap0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        inside = ["ip", "netns", "exec", self.yard.name]
        run([*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"], timeout=30)
        chain = f"type nat hook postrouting priority 100; ip saddr {NETWORK} masquerade;"
        run([*inside, "nft", f"table ip way_out {{ chain out {{ {chain} }}; }}"], timeout=30)
        self.do("timeout 60 sh -c 'until getent hosts deb.debian.org >/dev/null; do sleep 1; done'")

    def _end(self) -> None:
        if self._slirp is not None:
            self._slirp.terminate()
            self._slirp.wait(timeout=30)
        self.yard.destroy()


@contextmanager
def host_with(folders: pytest.TempPathFactory, *roles: str) -> Iterator[Workbench]:
    """A host that has these roles; leaves the test out, with the reason, where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    if shutil.which("slirp4netns") is None:
        pytest.skip("slirp4netns is not installed: the host has no way to the registries")
    with Workbench(folders.mktemp("bench") / "yard") as made:
        made.apply(list(roles))
        yield made

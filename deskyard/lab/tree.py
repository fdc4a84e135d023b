"""The tree of Molecule's hosts: Debian with the roles' packages at hand, and the gateway's program."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from deskyard.host.command import run
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.image.base.bootstrap import apt_sources
from deskyard.image.build import gateway_bundle
from deskyard.model.base import parse_yaml
from deskyard.model.image_base import BootstrapBase
from deskyard.plan.image.image import base_image, role_packages
from deskyard.plan.image.inputs import IGNORED_NAMES

# These are about machines that boot by themselves, and their disks: cloud-init, ssh, what a disk must not hold.
LEFT_OUT = {"guest_base", "home_volume", "image_hygiene", "image_layer", "package_snapshot"}
HYPERVISOR = "hypervisor"
HOST_PACKAGES = (
    "ca-certificates",
    "curl",
    "dbus",
    "iproute2",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "systemd-sysv",
)
# An empty machine-id is a machine's own; there is no disk to mount; tests want one language.
FINISH = """
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname
: >"$1"/etc/machine-id
: >"$1"/etc/fstab
echo LANG=C.UTF-8 >"$1"/etc/default/locale
chroot "$1" systemctl --quiet enable systemd-networkd.service
chroot "$1" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer systemd-networkd-wait-online.service
"""


def gateway_roles() -> list[str]:
    """The roles of the gateway image that make it a gateway, in their order."""
    return [role for role in base_image(tree(), "gateway").roles if role not in LEFT_OUT]


def hypervisor_packages() -> tuple[str, ...]:
    """The packages that the role of the hypervisor installs, whichever kind it makes."""
    defaults = parse_yaml((tree() / "ansible/roles" / HYPERVISOR / "defaults/main.yml").read_text())
    lists = [value for name, value in defaults.items() if name.endswith("_packages") and isinstance(value, list)]
    return tuple(sorted({package for packages in lists for package in packages}))


def host_tree() -> Path:
    """The root that all hosts share, made at first use: the roles really install, and need no network for it."""
    image = base_image(tree(), "gateway")
    gateways = role_packages(image.model_copy(update={"roles": tuple(gateway_roles())}), tree())
    offered = sorted({*gateways, *hypervisor_packages()})
    # Downloaded, not installed: that is what the roles are there for.
    fetch = f'chroot "$1" apt-get install -qq -y --no-install-recommends --download-only {" ".join(offered)}'
    return make_tree("tree", image.base.bootstrap, (), (fetch,))


def make_tree(kind: str, base: BootstrapBase, packages: Sequence[str], hooks: Sequence[str]) -> Path:
    """The root of a host with systemd and sshd, made at first use; package lists stay in it."""
    argv = ["mmdebstrap", "--variant=minbase", "--skip=cleanup/apt", "--aptopt=APT::Install-Recommends false"]
    argv += [f"--include={','.join((*HOST_PACKAGES, *packages))}"]
    argv += [f"--customize-hook={hook}" for hook in (*hooks, FINISH)]

    def make(destination: Path) -> None:
        run([*argv, base.suite, str(destination), *apt_sources(base)], timeout=1800)
        destination.chmod(0o755)

    return cached(kind, repr((argv, base.suite, apt_sources(base))), make)


def bundle() -> Path:
    """The gateway's program with its viewer, as the role installs it."""
    state = hashlib.sha256()
    for source in base_image(tree(), "gateway").sources:
        files = [tree() / source] if (tree() / source).is_file() else sorted((tree() / source).rglob("*"))
        for path in files:
            if path.is_file() and not IGNORED_NAMES.intersection(path.parts):
                state.update(f"{path.relative_to(tree())}\0".encode() + path.read_bytes())
    return cached("bundle", state.hexdigest(), gateway_bundle.build)


def cached(kind: str, ingredients: str, make: Callable[[Path], None]) -> Path:
    """A folder that is whole or absent, named by what it is made from."""
    root = places().cache / "molecule"
    root.mkdir(parents=True, exist_ok=True)
    path = root / f"{kind}-{hashlib.sha256(ingredients.encode()).hexdigest()[:16]}"
    with alone(f"molecule-{kind}"):
        if not path.exists():
            scratch = Path(tempfile.mkdtemp(prefix=f".{kind}-", dir=root))
            try:
                make(scratch / "made")
                (scratch / "made").rename(path)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        os.utime(path)
    return path


def scenarios() -> list[tuple[str, str]]:
    """Every role and scenario, in order."""
    found = sorted((tree() / "ansible/molecule").glob("*/*/molecule.yml"))
    return [(path.parent.parent.name, path.parent.name) for path in found]


def without_scenarios() -> list[str]:
    """Roles that lack one of the two scenarios that each must have which a host can have."""
    roles = {path.parent.parent.name for path in (tree() / "ansible/roles").glob("*/tasks/main.yml")}
    have = set(scenarios())
    return sorted(role for role in roles - LEFT_OUT if not {(role, "default"), (role, "alternative")} <= have)

"""The hypervisor of this machine: the system's libvirtd, or a private one inside a network namespace.

Where systemd runs the machine, its libvirtd is used as it is. Elsewhere (CI, containers) the daemons are started
here, in a network namespace of their own, so that bridges and firewall rules never touch the machine's network.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import HostError, SiteError
from deskyard.host.background import Background
from deskyard.host.deadline import Deadline
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.site.libvirt import net_namespace, power, storage

URI = "qemu:///system"
START_SECONDS = 60.0
RUN_BY_SYSTEMD = Path("/run/systemd/system")
DAEMON_PID_FILES = (Path("/run/libvirtd.pid"), Path("/run/libvirt/libvirtd.pid"))
OUR_PREFIX = "deskyard-"

# Runs as root in a mount namespace of its own. A /dev/kvm that exists but hangs makes each probe of QEMU wait 7.5 s,
# so machines that emulate see an unusable file in its place. The control groups stay, or no machine with a cap of its
# processor time could start.
PRIVATE_DAEMON = """
set -e
mount --make-rprivate /
if [ -d /sys/fs/cgroup ]; then mkdir -p "$1/cgroup"; mount --rbind /sys/fs/cgroup "$1/cgroup"; fi
umount -l /sys
mount -t sysfs sysfs /sys
if [ -d "$1/cgroup" ]; then mount --rbind "$1/cgroup" /sys/fs/cgroup; umount -l "$1/cgroup"; fi
mount --bind "$1/qemu.conf" /etc/libvirt/qemu.conf
mount --bind "$1/resolv.conf" "$(readlink -f /etc/resolv.conf)"
if [ "$2" = tcg ] && [ -e /dev/kvm ]; then mount --bind "$1/no-kvm" /dev/kvm; fi
exec libvirtd
"""


@dataclass(frozen=True)
class HypervisorState:
    """The hypervisor that answers at the URI, and where it lives."""

    uri: str
    running: bool
    private: bool
    namespace: str | None
    way_out: bool
    version: str | None
    domains: tuple[str, ...]
    networks: tuple[str, ...]


def up(accelerator: str) -> None:
    """Make sure a hypervisor answers; starts a private one where systemd does not run the machine."""
    with alone("hypervisor"):
        _up(accelerator)


def _up(accelerator: str) -> None:
    if answers():
        if namespace() is not None:
            net_namespace.open_way_out(_folder())
        return
    if RUN_BY_SYSTEMD.exists():
        reason = "libvirt's daemon does not answer"
        raise HostError(
            "hypervisor", URI, reason, "run: sudo systemctl enable --now libvirtd, and join the group libvirt"
        )
    _start_private(accelerator)


def down(*, force: bool = False) -> None:
    """End the private hypervisor; refuses while desktops run, unless `force` shuts them down first.

    The memory of what is halted goes to disk before; raises `SiteError` if there it cannot be kept.
    """
    if answers():
        if namespace() is None:
            return
        if Background("libvirtd", _folder()).pid() is None:
            reason = "the hypervisor was started by another user or with another DESKYARD_HOME"
            raise SiteError("site", "local", reason, "end it from there")
        with connection() as link:
            _stop_guests(link, force=force)
            for network in link.listAllNetworks(libvirt.VIR_CONNECT_LIST_NETWORKS_ACTIVE):
                if network.name().startswith(OUR_PREFIX):
                    network.destroy()
    for name in ("libvirtd", "virtlogd", "slirp4netns"):
        Background(name, _folder()).stop()
    net_namespace.remove()


def state() -> HypervisorState:
    """Look what runs now; starts nothing."""
    if not answers():
        return HypervisorState(URI, False, not RUN_BY_SYSTEMD.exists(), None, False, None, (), ())
    with connection() as link:
        number = link.getLibVersion()
        version = f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
        domains = tuple(sorted(d.name() for d in link.listAllDomains() if d.name().startswith(OUR_PREFIX)))
        networks = tuple(sorted(n.name() for n in link.listAllNetworks() if n.name().startswith(OUR_PREFIX)))
    way_out = Background("slirp4netns", _folder()).pid() is not None
    inside = namespace()
    return HypervisorState(URI, True, inside is not None, inside, way_out, version, domains, networks)


def answers() -> bool:
    """True if libvirt's daemon can be reached."""
    try:
        with connection():
            return True
    except SiteError:
        return False


@contextlib.contextmanager
def connection(uri: str = URI) -> Iterator[Any]:
    """A connection to libvirt, closed at the end; raises `SiteError` if nothing answers, or for what it refuses."""
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    try:
        link = libvirt.open(uri)
    except libvirt.libvirtError as error:
        raise SiteError("hypervisor", uri, str(error), "run ./inv site.up") from error
    try:
        yield link
    except libvirt.libvirtError as error:
        raise SiteError("hypervisor", uri, str(error), "mend that, or run ./inv site.up; then run it again") from error
    finally:
        # One that broke does not close.
        with contextlib.suppress(libvirt.libvirtError):
            link.close()


@contextlib.contextmanager
def machine(domain: str) -> Iterator[Any]:
    """A machine by its name; what libvirt refuses becomes an error that names it."""
    with connection() as link:
        try:
            yield link.lookupByName(domain)
        except libvirt.libvirtError as error:
            raise SiteError("machine", domain, str(error), "run ./inv workspace.up") from error


def namespace() -> str | None:
    """The network namespace in which libvirt's daemon lives, if that is ours; None for the system's daemon."""
    if not net_namespace.exists():
        return None
    for pid_file in DAEMON_PID_FILES:
        try:
            pid = int(pid_file.read_text())
        except (OSError, ValueError):
            continue
        if net_namespace.holds(pid):
            return net_namespace.NAMESPACE
    return None


def inside() -> list[str]:
    """The start of a command line that runs the rest where the guests' networks are."""
    return net_namespace.inside() if namespace() else []


def _start_private(accelerator: str) -> None:
    folder = _folder()
    net_namespace.create()
    net_namespace.open_way_out(folder)
    (folder / "qemu.conf").write_text('# Written by Deskyard.\nnamespaces = []\nsecurity_driver = "none"\n')
    (folder / "resolv.conf").write_text(f"nameserver {net_namespace.WAY_OUT_RESOLVER}\n")
    (folder / "no-kvm").touch(mode=0o600)
    virtlogd = Background("virtlogd", folder)
    virtlogd.start([*net_namespace.inside(), "virtlogd"])
    daemon = Background("libvirtd", folder)
    script = ["unshare", "--mount", "sh", "-c", PRIVATE_DAEMON, "libvirtd", str(folder), accelerator]
    daemon.start([*net_namespace.inside(), *script])
    deadline = Deadline(START_SECONDS)
    while not answers():
        if daemon.pid() is None or deadline.is_over:
            reason = f"the private libvirtd did not start\n{daemon.log_tail()}"
            raise HostError("hypervisor", URI, reason, f"read {daemon.log_file}, then run ./inv site.up")
        time.sleep(0.2)


def _stop_guests(link: Any, *, force: bool) -> None:
    active = link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
    if active and not force:
        names = ", ".join(sorted(domain.name() for domain in active))
        raise SiteError("site", "local", f"these machines run: {names}", "add --yes to shut them down first")
    # A halted guest hears nothing, and its memory would be lost. Of one that is not defined none can be kept.
    halted = [domain for domain in active if domain.isPersistent() and power.state(domain) in ("paused", "io-error")]
    if halted:
        _keep_memory(halted)
    _shut_down([domain for domain in active if domain not in halted])


def _keep_memory(halted: Sequence[Any]) -> None:
    """Write the memory of these machines to disk; raises `SiteError` for what cannot be kept, before any is stopped."""
    try:
        storage.require_room(sum(domain.maxMemory() for domain in halted) * 1024)
        for domain in halted:
            power.pause(domain, to_disk=True)
    except (SiteError, libvirt.libvirtError) as error:
        names = ", ".join(sorted(domain.name() for domain in halted if domain.isActive()))
        why = error.reason if isinstance(error, SiteError) else error
        reason = f"these are halted, and their memory cannot be kept: {names}: {why}"
        remedy = "mend that; or ./inv desktop.resume each, or desktop.stop --force, which drops its memory"
        raise SiteError("site", "local", reason, remedy) from error


def _shut_down(running: Sequence[Any]) -> None:
    """Let guests shut down, and pull the plug of those that do not in time."""
    seconds = 0.0
    for domain in running:
        with contextlib.suppress(libvirt.libvirtError):
            seconds = max(seconds, _patience(domain))
            domain.shutdown()
    deadline = Deadline(seconds)
    for domain in running:
        with contextlib.suppress(libvirt.libvirtError):
            if not deadline.wait_for(partial(_is_off, domain), 0.5):
                say(f"    {domain.name()} did not shut down within {seconds:.0f} s: its plug is pulled")
                domain.destroy()


def _patience(domain: Any) -> float:
    """How long a guest may take to shut down, in seconds."""
    emulated = ElementTree.fromstring(domain.XMLDesc(0)).get("type") == "qemu"
    return power.EMULATED_SHUTDOWN_SECONDS if emulated else power.SHUTDOWN_SECONDS


def _is_off(domain: Any) -> bool:
    return not domain.isActive()


def _folder() -> Path:
    folder = places().state / "hypervisor"
    folder.mkdir(parents=True, exist_ok=True)
    # QEMU's user has to pass; what is secret inside is 0600.
    folder.chmod(0o755)
    return folder

"""The machines of a workspace on this machine's hypervisor: their states, and evidence of their failures."""

import contextlib
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

import libvirt

from deskyard.host.vm.agent_answer import HELD, held
from deskyard.plan import names
from deskyard.plan.power import Load, Power
from deskyard.plan.snapshot import Snapshot
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.libvirt import agent, console_log, daemon, moves, power, snapshots, storage
from deskyard.site.libvirt.backup import swap
from deskyard.site.libvirt.backup.backups import LibvirtBackups
from deskyard.site.libvirt.documents import GIB
from deskyard.site.libvirt.limits import memory
from deskyard.site.libvirt.link import gone_is_fine
from deskyard.site.libvirt.system_disk import LibvirtSystemDisk

T = TypeVar("T")


def active_domains() -> set[str]:
    """The names of all machines that run."""
    with daemon.connection() as link:
        return {domain.name() for domain in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)}


def loads(link: Any, domains: Sequence[str]) -> dict[str, Load]:
    """The load of each of these machines since it was started, as libvirt counts it."""
    kinds = libvirt.VIR_DOMAIN_STATS_CPU_TOTAL | libvirt.VIR_DOMAIN_STATS_INTERFACE
    counted = link.getAllDomainStats(kinds, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE)
    return {machine.name(): _load(counts) for machine, counts in counted if machine.name() in domains}


class LibvirtMachines:
    """Machines of this machine's hypervisor."""

    def __init__(self, plan: WorkspacePlan) -> None:
        machines = [*plan.machines().values(), *(seat.machine for seat in plan.seats)]
        self._names = [machine.domain for machine in machines]
        self._workspace = plan.name
        emulated = plan.accelerator == "tcg"
        self._shutdown_seconds = power.EMULATED_SHUTDOWN_SECONDS if emulated else power.SHUTDOWN_SECONDS

    def states(self) -> dict[str, dict[str, Any]]:
        """State, what it is wanted to be, and size of each machine that is there."""
        return self._of_each(_state)

    def is_there(self, desktop: str) -> bool:
        """Whether a desktop has a machine, declared or not; raises `SiteError` if nobody can tell."""
        with daemon.connection() as link:
            return names.domain(self._workspace, desktop) in {found.name() for found in link.listAllDomains()}

    def moves(self) -> AbstractContextManager[moves.LibvirtMoves]:
        """Hear what they do, as libvirt tells it."""
        return moves.listening(self._names)

    def desired(self) -> dict[str, Power]:
        """Read what each machine that is there is wanted to be."""
        return self._of_each(power.desired)

    def loads(self, domains: Sequence[str]) -> dict[str, Load]:
        """The load of each of these machines; those that do not run are left out."""
        with daemon.connection() as link:
            return loads(link, domains)

    def disk_sizes(self, domain: str) -> dict[str, int]:
        """The sizes of its disks, GiB, by what lies on them."""
        with daemon.connection() as link:
            named = {"/": f"{domain}{storage.DISK}", "/home": f"{domain}.home{storage.DISK}"}
            found = {mount: storage.lookup(link, name) for mount, name in named.items()}
            return {mount: volume.info()[1] // GIB for mount, volume in found.items() if volume is not None}

    def held(self, domain: str) -> dict[str, int]:
        """The bytes that its guest's file systems hold, told by its agent."""
        with daemon.machine(domain) as machine:
            return held(*agent.execute(machine, HELD), machine.name())

    def promise_home(self, domain: str, size_gib: int) -> None:
        """Nothing has to be done: `workspace.up` makes a volume of /home for each desktop."""

    def want(self, domain: str, wanted: Power) -> None:
        """Keep with a machine what it is wanted to be."""
        with daemon.machine(domain) as machine:
            power.want(machine, wanted)

    def mend_wishes(self, domains: Collection[str]) -> None:
        """Nothing has to be done: what goes back to a snapshot takes along what it is wanted to be now."""

    def take_room(self, domain: str) -> None:
        """Count on a machine that is about to start; raises `NoRoom` if its memory is not free."""
        with daemon.machine(domain) as machine:
            if not machine.isActive():
                memory.take(machine)

    def require_room_again(self, domain: str) -> None:
        """Raise `SiteError` unless a machine was halted for want of room, and there is some again."""
        with daemon.machine(domain) as machine:
            power.require_room_again(machine)

    def start(self, domain: str) -> None:
        """Let a machine run, with a clock that is right, and with disks of one moment."""
        with daemon.machine(domain) as machine:
            swap.mend(machine)
            power.start(machine)

    def shut_down(self, domain: str, *, force: bool) -> None:
        """Let the guest shut down, or pull its plug."""
        with moves.listening([domain]) as heard, daemon.machine(domain) as machine:
            power.shut_down(machine, force=force, seconds=self._shutdown_seconds, pause=heard.rest)

    def pause(self, domain: str, *, to_disk: bool) -> None:
        """Halt a machine as it is."""
        with daemon.machine(domain) as machine:
            power.pause(machine, to_disk=to_disk)

    def snapshots(self, domain: str) -> list[Snapshot]:
        """The snapshots of a machine, the oldest first."""
        with daemon.machine(domain) as machine:
            return snapshots.listed(machine)

    def take_snapshot(self, domain: str, wanted: Snapshot) -> None:
        """Take a snapshot of a machine."""
        with daemon.machine(domain) as machine:
            snapshots.take(machine, wanted)

    def restore_snapshot(self, domain: str, name: str) -> None:
        """Bring a machine back to what it was."""
        with daemon.machine(domain) as machine:
            snapshots.restore(machine, name)

    def delete_snapshot(self, domain: str, name: str) -> None:
        """Delete a snapshot of a machine."""
        with daemon.machine(domain) as machine:
            snapshots.delete(machine, name)

    def images(self) -> dict[str, str]:
        """Of each machine that tells: the image below the overlay that is its system disk."""
        if not daemon.answers():
            return {}
        found = {}
        with daemon.connection() as link:
            for domain in self._names:
                # One that is exchanged or goes in this moment tells it the next time.
                with contextlib.suppress(libvirt.libvirtError):
                    volume = storage.lookup(link, f"{domain}{storage.DISK}")
                    if volume is not None and (image := storage.origin(link, volume)) is not None:
                        found[domain] = image
        return found

    def system(self, domain: str) -> LibvirtSystemDisk:
        """The system disk of a machine."""
        return LibvirtSystemDisk(domain)

    def backups(self, domain: str) -> LibvirtBackups:
        """The maker of a machine's backups, which also takes it back to them."""
        return LibvirtBackups(domain)

    def stopped(self) -> list[str]:
        """Machines of the workspace that do not run."""
        running = active_domains()
        return [name for name in self._names if name not in running]

    def host_key(self, domain: str) -> str:
        """The SSH host key of a machine, told by its agent."""
        with daemon.machine(domain) as machine:
            return agent.host_key(machine)

    def keep_evidence(self, folder: Path, domains: Collection[str]) -> None:
        """Save console logs and screenshots of these machines."""
        with daemon.connection() as link:
            for domain in sorted(domains):
                _copy_console(domain, folder)
                try:
                    _screenshot(link, domain, folder)
                except (libvirt.libvirtError, OSError) as error:
                    (folder / f"{domain}.screenshot-error.txt").write_text(f"{error}\n")

    def _of_each(self, ask: Callable[[Any], T]) -> dict[str, T]:
        if not daemon.answers():
            return {}
        answers = {}
        with daemon.connection() as link:
            for found in link.listAllDomains():
                if found.name() in self._names:
                    # One of a seat may go meanwhile.
                    with gone_is_fine():
                        answers[found.name()] = ask(found)
        return answers


def _state(domain: Any) -> dict[str, Any]:
    active = bool(domain.isActive())
    later = _hardware(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    now = _hardware(domain.XMLDesc(0)) if active else later
    word = {"state": power.state(domain), "desired": str(power.desired(domain))}
    return {**word, "restart_needed": now != later, **later}


def _load(counts: dict[str, Any]) -> Load:
    names = (f"net.{number}.{way}.bytes" for number in range(counts.get("net.count", 0)) for way in ("rx", "tx"))
    return Load(sum(counts.get(name, 0) for name in names), cpu_seconds=counts["cpu.time"] / 1e9)


def _hardware(xml: str) -> dict[str, int]:
    root = ElementTree.fromstring(xml)
    return {
        "vcpus": int(root.findtext("vcpu") or 0),
        "memory_mib": int(root.findtext("memory") or 0) // 1024,
    }


def _copy_console(domain: str, folder: Path) -> None:
    source = console_log.path(domain)
    try:
        shutil.copyfile(source, folder / source.name)
    except OSError as error:
        (folder / source.name).write_text(f"{source}: {error.strerror}\n")


def _screenshot(link: Any, domain: str, folder: Path) -> None:
    stream = link.newStream()
    kind = link.lookupByName(domain).screenshot(stream, 0)
    suffix = {"image/png": "png", "image/x-portable-pixmap": "ppm"}.get(kind, "image")
    with (folder / f"{domain}.{suffix}").open("wb") as file:
        while chunk := stream.recv(1 << 18):
            file.write(chunk)
    stream.finish()

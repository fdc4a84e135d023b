"""The seam between workspaces and where they run: what each backend does in its own way. A new one is a row here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deskyard.declaration.declaration import Declared
from deskyard.engine.change import Change
from deskyard.engine.on_libvirt import LibvirtBackend
from deskyard.model.site import Site
from deskyard.plan.backup import Backup, Moment, Survey
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.isolation.probe import HostFacts
from deskyard.plan.pool.seat import Entry, Seated
from deskyard.plan.power import Load, Moved, Power
from deskyard.plan.snapshot import Snapshot
from deskyard.plan.warm import Templates
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.files import read_site
from deskyard.site.finding import Finding
from deskyard.site.remnant import Remnant

if TYPE_CHECKING:
    from deskyard.engine.leftovers import StateIds


class Guest(Protocol):
    """A restored machine that is tried out."""

    def nonce(self) -> str:
        """The nonce that lies in it; empty if there is none."""

    def machine_id(self) -> str:
        """The id by which its system knows it; empty if it tells none."""

    def faults(self) -> list[str]:
        """List the faults of the file systems."""


class Backups(Protocol):
    """Makes backups of one machine, and takes it back to them."""

    def moment(self, nonce: str) -> AbstractContextManager[Moment]:
        """Yield the disks as they are now; if it runs, it is given the nonce, and frozen for an instant."""

    def require_room(self, needed: int) -> None:
        """Raise `SiteError` unless there is room for so many bytes of restored disks; touches nothing."""

    def room(self, purpose: str, needed: int) -> AbstractContextManager[Path]:
        """A folder with room for so many bytes in which disks are restored, gone afterwards."""

    def scratch(self, disks: Mapping[str, Path]) -> AbstractContextManager[Guest]:
        """A machine like it, without any NIC, started from these restored disks; gone afterwards."""

    def renew(self, disks: Mapping[str, Path], prove: Callable[[Guest], None], identity: Mapping[str, str]) -> None:
        """Boot these restored disks without any NIC, have them proved, and make them another machine's.

        `identity` are the values of `deskyard.guest.identity.from_backup`.
        """

    def put_back(self) -> None:
        """Give it the content of before a restore that broke off; what was restored goes."""

    def mend(self) -> None:
        """Bring a restore that broke off to its end; raises `SiteError` if what it held before was kept beside it."""

    def swap(self, disks: Mapping[str, Path]) -> AbstractContextManager[None]:
        """Give it the content of these restored disks while it is off; if the block fails, its own is put back.

        Its snapshots went with the content of then, and are forgotten at the end.
        """

    def guest(self) -> AbstractContextManager[Guest]:
        """The guest of the machine itself, once it has booted."""


class Staged(Protocol):
    """A backup that is restored beside its machine."""

    def swap(self) -> AbstractContextManager[None]:
        """Give the machine that is off what was restored; if the block fails, it is off and has its own again."""

    def guest(self) -> AbstractContextManager[Guest]:
        """The guest of the machine itself, once it has booted."""


class Archive(Protocol):
    """Keeps the backups of a workspace in its backend's own way: whole machines, in a place of the site."""

    @property
    def location(self) -> str:
        """The place; raises `ConfigError` if the site names none."""

    def present(self, desktop: str | None) -> list[Backup]:
        """The whole backups of a desktop, or of all, the oldest first."""

    def survey(self, desktop: str) -> Survey:
        """All that is kept of a desktop, asked for once."""

    def runs(self, desktop: str) -> bool:
        """Whether the desktop runs; raises `SiteError` while no backup can be made of it."""

    def give(self, desktop: str, nonce: str) -> None:
        """Write a nonce into a desktop that runs."""

    def make(self, wanted: Backup) -> Backup:
        """Make a backup as of one moment; raises `SiteError` if it is not whole."""

    def note(self, backup: Backup) -> None:
        """Write down what is known of a backup by now: whether it is proved."""

    def require_trial(self, backup: Backup) -> None:
        """Raise `SiteError` unless it can be tried out: there is room for it once more, and the key to it."""

    def booted(self, backup: Backup) -> AbstractContextManager[Guest]:
        """A machine without any NIC that starts from a backup; it is gone with its block."""

    def mend(self, desktop: str) -> None:
        """Bring a restore of a desktop that broke off to its end; raises `SiteError` while another host is at one."""

    def staged(self, backup: Backup) -> AbstractContextManager[Staged]:
        """A backup restored beside its desktop; of both, what is not used is gone with the block.

        Raises `SiteError` before anything is touched if there is no room, or the two cannot be exchanged.
        """

    def drop(self, backups: Sequence[Backup]) -> None:
        """Delete backups; raises `SiteError` for one that is kept there."""


class SystemDisk(Protocol):
    """The system disk of a machine, which another one can replace under the same name."""

    def image(self) -> str | None:
        """The image that it started from, as NAME-DIGEST; None if that cannot be told."""

    def require_exchangeable(self) -> None:
        """Raise `SiteError` if another disk could not take its place, though its machine were off; touches nothing."""

    def stage(self, image: ImageSource, size_gib: int) -> None:
        """Make a disk of an image beside it."""

    def swap(self) -> None:
        """Let the staged disk take its place in one step, and keep it; the machine is off, and no memory is kept."""

    def swap_back(self) -> None:
        """Let the kept disk take its place again in one step; what was there goes.

        The machine is off, and no memory is kept.
        """

    def has_kept(self) -> bool:
        """Whether the disk of before is kept, and another one is in its place."""

    def forget(self) -> None:
        """Delete what lies beside it, staged or kept."""


class Moves(Protocol):
    """The moves of a workspace's machines, from the moment on that somebody listens."""

    def next(self, seconds: float) -> Moved | None:
        """The next move; None if there is none for so long, or it was woken. With 0 what is known already."""

    def wake(self) -> None:
        """Let whoever waits for the next move go on at once; from any thread."""


class Machines(Protocol):
    """The machines of a workspace, by the names in the Plan."""

    def states(self) -> dict[str, dict[str, Any]]:
        """State, what it is wanted to be, and size of each machine that is there.

        `state` is `running`, `paused` (memory kept by its process), `saved` (memory kept on disk), `io-error` (paused
        by the hypervisor, mostly for want of room) or `stopped`; `desired` is a `Power`.
        """

    def is_there(self, desktop: str) -> bool:
        """Whether a desktop of this name has a machine, in the Plan or not; raises `SiteError` if nobody can tell."""

    def moves(self) -> AbstractContextManager[Moves]:
        """Hear what they do from now on: pushed where the backend can, else looked for at a bounded pace."""

    def desired(self) -> dict[str, Power]:
        """Read what each machine that is there is wanted to be."""

    def loads(self, domains: Sequence[str]) -> dict[str, Load]:
        """Processor time and memory that each of these machines takes; those that do not run are left out."""

    def disk_sizes(self, domain: str) -> dict[str, int]:
        """The sizes of its disks, GiB, by what lies on them: `/`, and `/home` where that has one of its own."""

    def held(self, domain: str) -> dict[str, int]:
        """The bytes that its guest's file systems hold, by `/` and `/home`; raises `SiteError` unless it tells."""

    def promise_home(self, domain: str, size_gib: int) -> None:
        """Have the next `workspace.up` make a volume of /home for a machine without; raises `SiteError` if none can be.

        Where each desktop is given one unasked there is nothing to do.
        """

    def want(self, domain: str, power: Power) -> None:
        """Keep with the machine what it is wanted to be, and whether it starts with its host; moves nothing."""

    def mend_wishes(self, domains: Collection[str]) -> None:
        """Keep anew with these what they are wanted to be, where the way back to a snapshot broke off; moves nothing.

        Where such a way takes the wish along there is nothing to do.
        """

    def take_room(self, domain: str) -> None:
        """Count on a machine that is about to start; raises `NoRoom` if there is none for it now."""

    def require_room_again(self, domain: str) -> None:
        """Raise `SiteError` unless a machine that is `io-error` has room to write on, with some left for others."""

    def start(self, domain: str) -> None:
        """Let it run, from its memory if that was kept; then its clock is right. Fine if it runs."""

    def shut_down(self, domain: str, *, force: bool) -> None:
        """Let the guest shut down, or pull the plug and drop kept memory. Fine if it is off.

        Raises `SiteError` if the guest does not listen; it is left running.
        """

    def pause(self, domain: str, *, to_disk: bool) -> None:
        """Halt it as it is; its memory is kept by its process, or on disk. Fine if that is so already."""

    def snapshots(self, domain: str) -> list[Snapshot]:
        """The snapshots of a machine, the oldest first."""

    def take_snapshot(self, domain: str, wanted: Snapshot) -> None:
        """Take a snapshot: with the memory of a machine that runs, or of one that is off."""

    def restore_snapshot(self, domain: str, name: str) -> None:
        """Bring a machine back to a snapshot; what it is wanted to be stays, and its clock is right.

        It is off afterwards if the snapshot holds no memory.
        """

    def delete_snapshot(self, domain: str, name: str) -> None:
        """Delete a snapshot of a machine; the others stay whole."""

    def images(self) -> dict[str, str]:
        """Of each machine that tells: the image that its system started from, as NAME-DIGEST; no guest is asked."""

    def system(self, domain: str) -> SystemDisk:
        """The system disk of a machine; raises `SiteError` where none can be replaced."""

    def backups(self, domain: str) -> Backups:
        """The maker of a machine's backups; raises `SiteError` where its backend makes them in its own way."""

    def stopped(self) -> list[str]:
        """Machines of the workspace that do not run."""

    def host_key(self, domain: str) -> str:
        """The SSH host key of a machine, told by its agent."""

    def keep_evidence(self, folder: Path, domains: Collection[str]) -> None:
        """Save what helps to find out why these failed."""


class Record(Protocol):
    """Who has which machine at the seats of a workspace. Who decides by what it reads holds `alone` meanwhile.

    `host` stands for this machine where others may write, too; else it is empty.
    """

    host: str

    def alone(self) -> AbstractContextManager[None]:
        """Keep others of this machine from deciding; for a moment only."""

    def machines(self) -> dict[str, Seated]:
        """The machines at seats, by the names of these."""

    def note(self, entry: Entry) -> bool:
        """Keep what happened, for good when this ends; False if somebody else was faster."""

    def tidy(self) -> None:
        """Leave out what is of machines that are gone."""


class Disposables(Protocol):
    """The machines at the seats of a workspace: made beside the engine, and removed whole."""

    def record(self) -> Record | None:
        """Who has which, if that is kept with the machines; None: whoever asks keeps it on this machine's disk."""

    def there(self) -> set[str]:
        """The seats at which something is, whole or not."""

    def marks(self) -> dict[str, dict[str, str]]:
        """Of each machine that runs, by its seat: the words that are kept with it."""

    def mark(self, seat: str, words: Mapping[str, str]) -> None:
        """Keep words with a machine, in place of those before."""

    def require_room(self, seat: DesktopPlan) -> None:
        """Raise an error unless there is room for the machine of a seat; nothing is touched."""

    def make(
        self,
        plan: WorkspacePlan,
        seat: DesktopPlan,
        image: ImageSource | None,
        first_boot: FirstBoot,
        template: str | None,
    ) -> str:
        """Make the machine of a seat at which nothing is, with the network of its Plan; says how it started.

        `image` is None where the backend has templates of its own.
        """

    def remove(self, seat: str) -> None:
        """Remove what is at a seat with all its data."""


class Underlay(Protocol):
    """The hypervisor below a workspace, and what it says of its layers."""

    def inside(self) -> list[str]:
        """The start of a command line on the machine from which a verification probes."""

    def facts(self, plans: Sequence[WorkspacePlan]) -> HostFacts:
        """Look what can only be seen where the workspaces run."""

    def findings(self) -> list[str]:
        """List what of the layers is not as planned."""

    def not_examined(self) -> list[str]:
        """The parts that nothing here can tell."""

    def versions(self) -> dict[str, str]:
        """The programs below, and their versions."""

    def images(self) -> dict[str, str]:
        """Of each machine, as far as it is told: the image that its disk started from."""


class Backend(Protocol):
    """The part of a site's work that its backend does in its own way."""

    def engine_environment(self) -> dict[str, str]:
        """The variables that the engine's plugins need in their environment."""

    def check(self, declared: Declared) -> None:
        """Raise an error for what would leave a workspace half made, before anything is touched."""

    def networks(self) -> list[IPv4Network]:
        """The networks of the site beside those of its workspaces: a new one overlaps none of them."""

    def guard(self, declared: Declared, state_ids: Callable[[], "StateIds"], steps: Sequence[Change]) -> None:
        """Raise an error for steps that would cut machines off."""

    def clear(self, name: str, state_ids: Callable[[], "StateIds"]) -> None:
        """Take away what an interrupted run left; `state_ids` is what the engine's state holds."""

    def pauses(self) -> Iterator[float]:
        """How long to wait before each new try after a failure that passes, in seconds."""

    def prepare_starts(self, declared: Declared, new: Sequence[DesktopPlan], *, make: Templates) -> None:
        """Say how desktops that are made now start; first, make the templates that they lack as far as is wanted."""

    def replan(self, declared: Declared) -> Declared:
        """The declaration after the machines are there."""

    def open_way(self, plan: WorkspacePlan) -> None:
        """Lead to the gateway's door."""

    def prepare_destroy(self, name: str, state_ids: Callable[[], "StateIds"]) -> None:
        """Close the way to the door and stop the machines: their data goes too."""

    def answers(self) -> bool:
        """Whether machines can be asked for."""

    def gateway_runs(self, workspace: str) -> bool:
        """Whether the gateway of a workspace runs, asked by its name alone."""

    def machines(self, plan: WorkspacePlan) -> Machines:
        """The machines of a workspace."""

    def archive(self, workspace: str) -> Archive | None:
        """The store of a workspace's backups; None where that is a repository of our own."""

    def disposables(self, workspace: str) -> Disposables | None:
        """The machines at the seats of a workspace; None where there cannot be any."""

    def remnants(self, workspace: str, *, settled: bool = False) -> list[Remnant]:
        """List what killed restores and trials of backups have left beside desktops of a workspace.

        With `settled` it waits for what the backend still does of that; else what is seen now is enough.
        """

    def underlay(self, declared: Declared) -> Underlay:
        """The hypervisor below a workspace."""

    def examine(self) -> list[Finding]:
        """Every finding about the site, the good ones too; nothing is changed."""


def _proxmox(site: Site) -> Backend:
    # Late: this machine's own hypervisor needs no client of a cluster, which takes a fifth of a second.
    from deskyard.engine.on_proxmox import ProxmoxBackend

    return ProxmoxBackend(site)


BACKENDS: dict[str, Callable[[Site], Backend]] = {"libvirt": LibvirtBackend, "proxmox": _proxmox}


def backend_of(site: Site) -> Backend:
    """The backend of a site."""
    return BACKENDS[site.backend](site)


def archive_of(site: str, workspace: str) -> Archive | None:
    """The store of a workspace's backups on the backend of its site; None for a repository of our own."""
    return backend_of(read_site(site)).archive(workspace)


def machines_of(plan: WorkspacePlan) -> Machines:
    """The machines of a workspace on the backend of its site."""
    return backend_of(read_site(plan.site)).machines(plan)

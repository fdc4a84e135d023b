"""Makes another desktop of a backup: the content of then, with an identity of its own before it has a network."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any
from uuid import UUID

from deskyard.computer.recording import asked
from deskyard.declaration import declaration
from deskyard.declaration.declaration import PROJECT, Declared
from deskyard.declaration.desktop_list import declare, undeclare
from deskyard.desktop import customise_delivery, key_delivery, process_cap
from deskyard.desktop.customise_delivery import How
from deskyard.engine.backend import Guest, Staged, backend_of, machines_of
from deskyard.engine.change import Change
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.host.progress import say, step
from deskyard.life import power
from deskyard.life.backup import final
from deskyard.life.backup.proof import provable, prove
from deskyard.life.backup.vault import Vault, vault_of
from deskyard.life.power import Machine
from deskyard.plan import backup as plan
from deskyard.plan import key_file, names
from deskyard.plan.account import MANAGER
from deskyard.plan.backup import Backup
from deskyard.plan.customisation import ENVIRONMENT_FILE, STATE
from deskyard.plan.first_boot import desktop_first_boot
from deskyard.plan.power import Power
from deskyard.plan.workspace import DesktopPlan
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import copies, readiness, turn, workspace
from deskyard.workspace.copies import Begun

# The list of desktops in a stack file.
LIST = f"{PROJECT}:desktops"
# Lines of a declaration that are the first desktop's alone: its name and place, and what its owner gave that one.
OWN = {"name", "host_number", "keys", "customise", "lifetime"}
RENEWED = (
    "name, UUID, machine-id, MAC and address",
    "SSH host keys, and who comes in by SSH to look after it",
    "the secret of its agent, its device and what was paired with it",
    "the owner's keys and its environment: those that it is declared to have",
)
# Of the first one alone; each is made anew by who needs it, or brought as the new one is declared. What its agent keeps
# in its home is known to `deskyard.guest.identity.homes`.
SECRETS = (
    "/etc/deskyard/agent-openclaw.env",
    key_file.PATH,
    ENVIRONMENT_FILE,
    f"{STATE}/scripts/*-desktop*",  # that its own scripts ran, and what they said
    asked.PATH,
    "/var/lib/systemd/random-seed",
    "/var/lib/systemd/credential.secret",
)


@dataclass(frozen=True)
class _Wanted:
    """A copy as it is wanted: the first desktop and its backup, and the new one as it is declared, or will be."""

    source: Machine
    vault: Vault
    found: Backup
    nonces: set[str]
    declared: Declared
    entry: Mapping[str, Any]  # is added to the declaration; nothing if the new one is there already
    desktop: DesktopPlan
    begun: Begun | None
    is_there: bool  # holds something already: a copy of the same backup broke off

    @property
    def to(self) -> str:
        return f"{self.source.plan.name}/{self.desktop.name}"

    def prove(self, guest: Guest) -> None:
        """Raise `SiteError` unless the guest is of this backup, and whole."""
        prove(guest, self.found, self.nonces)

    def note(self, *, has_content: bool) -> None:
        """Keep on disk how far the copy has come."""
        begun = Begun(self.source.name, self.found.id, has_content)
        copies.write(self.declared.site.name, self.source.plan.name, self.desktop.name, begun)


def copy(target: str, name: str, to: str, *, again: bool = False) -> dict[str, Any]:
    """Make desktop `to` of a backup of another one, which stays as it is.

    Raises an error before anything is made if it is there already, there is no room, or the backup is not what it says.
    One that broke off before is gone on with by `again`, unless it had its content.
    """
    space, new = power.names(to)
    # What is looked at stays as it was seen: no other copy makes it meanwhile.
    with turn.of_copy(names.domain(space, new.replace("/", ""))):
        wanted = _wanted(target, name, to)
        if wanted.begun is not None and not wanted.begun.has_content and not again:
            reason = "was begun as a copy, which broke off: it is made anew, and holds only what the backup does then"
            remedy = "add --yes to go on; where it has a machine, a backup of that is made and verified before"
            raise ConfigError("to", to, reason, remedy)
        copied = Machine(wanted.declared.plan, wanted.desktop.name, machines_of(wanted.declared.plan))
        if wanted.begun is None or not wanted.begun.has_content:
            _give(wanted, copied)
        _finish(wanted)
    return {"desktop": target, "to": to, "backup": asdict(wanted.found), "renewed": list(RENEWED), **copied.state()}


def _give(wanted: _Wanted, copied: Machine) -> None:
    """Make the new desktop with the content of the backup."""
    # Who removes the first one removes what was restored beside it, unless somebody holds this.
    with (
        turn.of_trial(wanted.source.domain),
        wanted.vault.copied(wanted.source, wanted.found, wanted.desktop.name, wanted.prove, _identity(wanted)) as into,
    ):
        _make(wanted)
        if wanted.is_there:
            with copied.alone():
                # Puts back what it held, where the other run was killed in the middle.
                into(copied)
            _keep(copied)
        # Whoever is at work in the workspace by now is waited for: what was made here is nobody's yet.
        with copied.alone(), copied.shown():
            _exchange(wanted, copied, into(copied))


def would_copy(target: str, name: str, to: str) -> dict[str, Any]:
    """The desktop that `copy` would make, and what of it is its own; raises the errors of that, and makes nothing."""
    wanted = _wanted(target, name, to)
    new, machine = wanted.desktop, wanted.desktop.machine
    size = {"vcpus": machine.vcpus, "memory_mib": machine.memory_mib, "disk_gib": machine.disk_gib}
    made = {"name": new.name, "tier": new.tier, "image": machine.image, **size, "home_gib": machine.home_gib}
    own = {"machine_id": UUID(machine.uuid).hex, "mac": new.mac, "address": new.address}
    found = {"desktop": target, "to": to, "backup": asdict(wanted.found), "renewed": list(RENEWED)}
    begun = {"declared": not wanted.entry, "goes_on": wanted.begun is not None}
    return {**found, "made": {**made, **own}, **begun, "changed_besides": _besides(wanted)}


def _besides(wanted: _Wanted) -> list[str]:
    """Whose resources are changed with it, because their declaration was and `up` has not been run since."""
    changes = [Change(**step) for step in workspace.preview(wanted.source.plan.name)["steps"]]
    return sorted({change.owner for change in changes if change.desktop != wanted.desktop.name})


def _wanted(target: str, name: str, to: str) -> _Wanted:
    """Look at everything that can be known before anything is made; raises an error for what cannot be."""
    source = power.opened(target)
    space, new = power.names(to)
    if space != source.plan.name:
        reason = f"is of another workspace than the backup, whose keys and addresses are {source.plan.name}'s"
        raise ConfigError("to", to, reason, f"give it as {source.plan.name}/NAME, or bring files: ./inv backup.get")
    if new == source.name:
        raise ConfigError("to", to, "is the desktop of the backup itself", "leave --to out: it goes back to the backup")
    if source.machines.desired().get(source.plan.gateway.machine.domain, Power.RUNNING) is not Power.RUNNING:
        remedy = f"run ./inv workspace.start {space}, then this again"
        raise SiteError("workspace", space, "is stopped: nothing new is made in it", remedy)
    vault = vault_of(source.plan.site, space)
    present = vault.present(source.name)
    begun = copies.read(source.plan.site, space, new)
    if begun is not None and begun.source == source.name and name == "latest":
        # Of then: a newer one may have been made since.
        name = begun.backup
    found = plan.find(name, present, target)
    is_there = new in {held for kind in final.held(space) for held in kind}
    if begun is not None and (
        (begun.source, begun.backup) != (source.name, found.id) or (begun.has_content and not is_there)
    ):
        # Of another copy, or of one that is gone: it says nothing of what is there.
        begun = None
    declared, entry = _declared(space, source.name, new)
    # A seat is refused here: what is made there is for one task.
    desktop = declared.plan.desktop(new)
    if is_there and begun is None:
        reason = "is there already, and nothing takes the place of what it holds"
        raise ConfigError("to", to, reason, "take another name, or bring files to it: ./inv backup.get --to")
    _require_size(found, desktop)
    vault.require_copies(source, found)
    backend_of(declared.site).check(declared)
    return _Wanted(source, vault, found, provable(found, present, target), declared, entry, desktop, begun, is_there)


def _declared(space: str, source: str, new: str) -> tuple[Declared, Mapping[str, Any]]:
    """The workspace with the new desktop in it, and what of that is to be written into its file."""
    written = declaration.read_workspace(space)
    if any(desktop.name == new for desktop in written.desktops):
        return declaration.declared(written), {}
    config = declaration.written(space) or {}
    listed = config[LIST]
    (first,) = (entry for entry in listed if entry.get("name") == source)
    entry = {"name": new, **{key: value for key, value in first.items() if key not in OWN}}
    # As a whole: some names are no desktop's, and a workspace has so many desktops at most.
    content = {"config": {**config, LIST: [*listed, entry]}}
    return declaration.declared(declaration.check_content(space, content, declaration.stack_file(space).name)), entry


def _require_size(found: Backup, desktop: DesktopPlan) -> None:
    """Raise `ConfigError` unless the disks of the new desktop are as many as the backup's, and none is smaller."""
    machine = desktop.machine
    sizes = [machine.disk_gib, *([] if machine.home_gib is None else [machine.home_gib])]
    # The system's is the first by its name in the machine, too.
    kept = [-(-disk.size // (1 << 30)) for disk in sorted(found.disks, key=lambda disk: disk.target)]
    if len(kept) != len(sizes) or any(have > size for have, size in zip(kept, sizes, strict=True)):
        reason = f"has disks of {_gib(sizes)}, and backup {found.id} of {_gib(kept)}"
        remedy = "declare it with a larger tier; of another number of disks bring the files: ./inv backup.get"
        raise ConfigError(f"tier of {desktop.name}", desktop.tier, reason, remedy)


def _gib(sizes: list[int]) -> str:
    return " and ".join(f"{size} GiB" for size in sizes)


def _identity(wanted: _Wanted) -> dict[str, str]:
    """The values of the program that makes a machine of the backup the new desktop."""
    key, new, was = wanted.declared.management_key(), wanted.desktop, wanted.source
    return {
        "WAS": was.plan.desktop(was.name).machine.hostname,
        "WAS_MAC": was.plan.desktop(was.name).mac,
        "NAME": new.machine.hostname,
        "MAC": new.mac,
        "MACHINE_ID": UUID(new.machine.uuid).hex,
        "INSTANCE": str(desktop_first_boot(new, key).meta_data["instance-id"]),
        "MANAGER": MANAGER,
        "KEYS": key,
        "SECRETS": "\n".join(SECRETS),
    }


def _make(wanted: _Wanted) -> None:
    """Declare the new desktop unless it is, and have it made as any other; what is refused leaves no line of it."""
    space, new = wanted.source.plan.name, wanted.desktop.name
    path = declaration.stack_file(space)
    added, touched = Event(), Event()

    def declare_it() -> None:
        _require_source(wanted)
        wanted.note(has_content=False)
        if wanted.entry and declare(path, wanted.entry):
            added.set()
            say(f"    {wanted.to} is declared in {path}")

    try:
        workspace.up(space, on_turn=declare_it, on_steps=touched.set)
    except DeskyardError:
        if not touched.is_set():
            if added.is_set():
                undeclare(path, new)
            if wanted.begun is None:
                copies.forget(wanted.declared.site.name, space, new)
        raise


def _require_source(wanted: _Wanted) -> None:
    """Raise `SiteError` if the first desktop was taken away while its backup was restored and the turn awaited."""
    name, target = wanted.source.name, wanted.source.target
    declared = any(desktop.name == name for desktop in declaration.read_workspace(wanted.source.plan.name).desktops)
    if not declared or wanted.source.domain not in wanted.source.machines.states():
        reason = "was taken away meanwhile, and with it what was restored beside it"
        raise SiteError("desktop", target, reason, f"declare it and run ./inv workspace.up {wanted.source.plan.name}")


def _keep(copied: Machine) -> None:
    """Back up what is there of a copy that broke off: somebody may have used it since, or have made it themselves."""
    space, name = copied.plan.name, copied.name
    if copied.machines.states()[copied.domain]["state"] == "stopped":
        # As a run that was killed has left it: off, and wanted to run. What was never on cannot be proved.
        copied.machines.start(copied.domain)
        readiness.wait(copied.plan, desktops=[copied.plan.desktop(name)])
    final.keep(space, [name], f"./inv workspace.up {space} --remove {name} --no-backup without its lines, then this")


def _exchange(wanted: _Wanted, copied: Machine, staged: Staged) -> None:
    """Give the new desktop the content of the backup in place of its own, which nobody has used."""
    machines, domain = copied.machines, copied.domain
    # What the first one was given comes along: `up` asks for it, even where this run ends here.
    process_cap.note(copied.plan, copied.name)
    customise_delivery.note(copied.plan, copied.name)
    key_delivery.note(copied.plan)
    machines.shut_down(domain, force=True)
    try:
        with step(f"boot {copied.name} with what was restored"), staged.swap():
            machines.start(domain)
            with staged.guest() as guest:
                wanted.prove(guest)
                _require_own(wanted, copied, guest)
    except BaseException:
        again = f"./inv backup.restore {wanted.source.target} {wanted.found.id} --to {wanted.to} goes on"
        away = f"without its lines in {declaration.stack_file(copied.plan.name)} it goes: "
        away += f"./inv workspace.up {copied.plan.name} --remove {copied.name} --no-backup"
        say(f"    {copied.name} is empty, as it was made: {again}; {away}")
        machines.start(domain)
        raise
    wanted.note(has_content=True)


def _require_own(wanted: _Wanted, copied: Machine, guest: Guest) -> None:
    """Raise `SiteError` if the new desktop is the first one in anything by which machines are told apart."""
    name, link = copied.name, SshLink(copied.plan.site, copied.plan.name)
    if (found := guest.machine_id()) != UUID(wanted.desktop.machine.uuid).hex:
        reason = f"has the machine-id {found[:40]!r}, which is not its own"
        raise SiteError("desktop", name, reason, "see its console")
    first = wanted.source.name
    if link.pinned(first) and copied.machines.host_key(copied.domain) == link.host_key(first):
        raise SiteError("desktop", name, f"has the SSH host key of {first}", "see its console")


def _finish(wanted: _Wanted) -> None:
    """Wait until it answers, and bring what it is declared to have."""
    declared, desktop = wanted.declared, wanted.desktop
    space, name = declared.workspace.name, desktop.name
    with step("routes"):
        readiness.wait(declared.plan, desktops=[desktop])
    # Where its tier has none, that of the first one is lifted.
    process_cap.deliver(declared.plan, {name: desktop.caps.processes})
    if keys := (key_delivery.wanted(declared, WorkspaceStack(space)) or {}).get(name):
        key_delivery.deliver(declared.plan, {name: keys})
    if (customised := customise_delivery.wanted(declared, name).get(name)) is not None:
        customise_delivery.apply(declared.plan, {name: customised}, How())
    copies.forget(declared.site.name, space, name)

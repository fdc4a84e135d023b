"""The last backup of desktops that are about to go, or to be rebuilt: made and proved before anything is touched."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from deskyard.declaration import declaration
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import DeskyardError, SiteError
from deskyard.host.progress import say
from deskyard.life import power
from deskyard.life.backup import restoration
from deskyard.life.backup.vault import Vault, vault_of
from deskyard.life.power import Machine
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup


def held(name: str) -> tuple[list[str], list[str]]:
    """The desktops of a workspace that hold something, declared or not any more, and those with data alone.

    Of the latter a run that broke off has left no machine to back them up by. What is at a seat was made for one task,
    and is in neither.
    """
    stack = WorkspaceStack(name)
    if not stack.exists():
        return [], []
    machines = stack.desktops_with_machines()
    return sorted(machines), sorted(stack.desktops_with_disks() - machines)


def require_kept(name: str, desktops: Collection[str], kept: Collection[str], without: str) -> None:
    """Raise `SiteError` if data of these desktops would go of which no last backup is `kept`, and one is wanted."""
    if lost := _wanted(name, sorted({*desktops} - {*kept}), without):
        reason = f"there is none of {', '.join(lost)}, whose data would go"
        again = f"bring it up, declared again if it is no more: ./inv workspace.up {name}"
        remedy = f"{again}; with a machine each can be backed up: then repeat it"
        raise SiteError("last backup", name, reason, f"{remedy}; or without a backup: {without}")


def removed(name: str, remove: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of `workspace.up --remove`, as `held` has them; one that is still declared stays, as `up` says."""
    if not remove:
        return [], []
    wanted = {*remove} - {desktop.name for desktop in declaration.read_workspace(name).persistent()}
    going, alone = held(name)
    return [desktop for desktop in going if desktop in wanted], [desktop for desktop in alone if desktop in wanted]


def notice(name: str, desktops: Sequence[str], without: str, *, backup: bool) -> list[str]:
    """The notice of what becomes of these desktops' data; raises `SiteError` if one cannot be backed up and proved.

    `without` is how the same is done without backups.
    """
    wanted = _wanted(name, desktops, without) if backup else []
    lines = []
    if wanted:
        place = _checked(name, wanted, without)[0].location
        first = f"{', '.join(wanted)}: backed up to {place} and verified before"
        lines.append(f"{first}; snapshots are lost, and what changes meanwhile")
    if lost := [desktop for desktop in desktops if desktop not in wanted]:
        why = "backup: never" if backup else "--no-backup"
        first = f"{', '.join(lost)}: no backup is made before ({why})"
        lines.append(f"{first}: what changed since the last one is lost, or all of it")
    return lines


def keep(name: str, desktops: Sequence[str], without: str) -> dict[str, str]:
    """Make a backup of each of these desktops and prove it, and return its id; raises `SiteError` if one fails.

    One that is declared never to be backed up is left out.
    """
    wanted, kept = _wanted(name, desktops, without), dict[str, str]()
    if not wanted:
        return kept
    vault, machines = _checked(name, wanted, without)
    for machine in machines:
        with _or_without(machine.target, without):
            restoration.settle(machine)
            made = str(vault.make(machine, machine.target)["backup"]["id"])
            restoration.prove_backup(machine, made)
        kept[machine.name] = made
        say(f"    {machine.name}: its last backup is {made}, verified, in {vault.location}")
    return kept


def _wanted(name: str, desktops: Sequence[str], without: str) -> list[str]:
    """Those of these desktops of which a backup is made: of one that nobody declares any more, too."""
    if not desktops:
        return []
    with _or_without(name, without):
        planned = declaration.read(name).plan.desktops
    never = {desktop.name for desktop in planned if desktop.backup == "never"}
    return [desktop for desktop in desktops if desktop not in never]


def _checked(name: str, desktops: Sequence[str], without: str) -> tuple[Vault, list[Machine]]:
    """Where backups go and the machines of desktops; raises `SiteError` for what can be known before any is made."""
    with _or_without(name, without):
        workspace, machines = power.look_up(name)
        vault = vault_of(workspace.site, name)
        present, states = vault.present(None), machines.states()
    found = [Machine(workspace, desktop, machines) for desktop in desktops]
    for machine in found:
        # Of one that is not declared any more nothing is told here: then its backup says what is wrong.
        state = str(states.get(machine.domain, {}).get("state", "running"))
        with _or_without(machine.target, without):
            _require_provable(machine.target, state, [entry for entry in present if entry.desktop == machine.name])
    return vault, found


def _require_provable(target: str, state: str, present: Sequence[Backup]) -> None:
    if state not in ("running", "stopped"):
        reason = f"it is {state}, and no backup holds its memory"
        raise SiteError("desktop", target, reason, f"./inv desktop.resume {target}, or desktop.stop")
    if state == "stopped" and not plan.last_nonce(present):
        reason = "it is off, and nothing was ever written into it by which a backup could be verified"
        raise SiteError("desktop", target, reason, f"./inv desktop.start {target}")


@contextmanager
def _or_without(target: str, without: str) -> Iterator[None]:
    """Say of what fails that nothing was touched, and how it is done without a backup."""
    try:
        yield
    except DeskyardError as error:
        reason = f"cannot be made and verified, so nothing was touched: {error.reason}"
        remedy = f"{error.remedy}; or without a backup: {without}"
        raise SiteError("last backup", target, reason, remedy) from error

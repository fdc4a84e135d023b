"""Tasks with a workspace: preview, up, destroy."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Any, TypeVar

from deskyard.declaration import declaration
from deskyard.declaration import promise as promises
from deskyard.declaration.declaration import Declared
from deskyard.desktop import customise_delivery, key_delivery, process_cap
from deskyard.desktop.customise_delivery import How
from deskyard.engine.backend import Backend, Machines, backend_of, machines_of
from deskyard.engine.change import Change
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import ConfigError, SiteError
from deskyard.host.places import places
from deskyard.host.progress import Timings, say, step
from deskyard.plan import names
from deskyard.plan.customisation import Customisation
from deskyard.plan.power import Power
from deskyard.plan.warm import Templates
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.proxmox import retry
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import copies, last_backups, readiness, smaller, turn
from deskyard.workspace.seats import Seats
from deskyard.workspace.status import when_up

T = TypeVar("T")
# May refuse that desktops which hold something and seats that somebody has go.
Guard = Callable[[Collection[str], Collection[str]], None]


def preview(name: str) -> dict[str, Any]:
    """Preview what `up` would change: counts by operation, and each step."""
    declared = _checked(name)
    steps = _steps(declared, WorkspaceStack(name).preview)
    counts = Counter(change.operation for change in steps)
    return {
        "workspace": declared.workspace.name,
        "changes": dict(counts),
        "steps": [asdict(change) for change in steps if change.changes_something],
    }


def up(
    name: str,
    timings: Timings | None = None,
    remove: Sequence[str] = (),
    on_route: Callable[[str, str], None] | None = None,
    *,
    warm: bool = False,
    on_turn: Callable[[], object] | None = None,
    on_steps: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Bring a workspace to what is declared, wait until every route of every desktop answers; cap, keys, customise.

    `on_route` is told each desktop and route when it first answers; `on_turn` may change the declaration once nobody
    else moves machines of the workspace; `on_steps` is called before the first step that makes, changes or removes a
    machine. With `warm` the templates are made first that new desktops would start from.

    Desktops that were taken out of the declaration are only removed, disk and all, if `remove` names them.
    """
    with ExitStack() as held:
        with step("check", timings):
            if on_turn is None:
                # What is wrong is said before anybody is waited for.
                site = _checked(name).site.name
                held.enter_context(turn.whole(site, name))
            else:
                site = declaration.site_name(name)
                held.enter_context(turn.whole(site, name))
                # Whoever had the turn before may have put the declaration away: nothing is written into what is gone.
                declaration.read_workspace(name)
                on_turn()
                _checked(name)
            promise = held.enter_context(promises.given(site, name))
            # Whoever had the turn before may have put the declaration away.
            declared = declaration.read(name, promise)
            _look_after_seats(declared)
            stack = WorkspaceStack(name, promise)
            backend = backend_of(declared.site)
            asleep = _asleep(declared.plan, machines_of(declared.plan))
            if declared.plan.gateway.machine.domain in asleep:
                raise SiteError("workspace", name, "is stopped", f"run ./inv workspace.start {name}, then this again")
            backend.clear(name, stack.on_cluster)
            _release(declared, stack, remove)
            steps = _steps(declared, lambda: _again(backend, stack, stack.changes))
            _guard_data(name, steps, remove)
            backend.guard(declared, stack.on_cluster, steps)
            keys = key_delivery.wanted(declared, stack)
            customised = _to_customise(declared)
        if new := _new_desktops(declared.plan, steps):
            backend.prepare_starts(declared, new, make=Templates.ASKED if warm else Templates.KEPT)
        on_steps()
        if steps:
            with step("machines", timings):
                last_backups.forget(declared.site.name, name)
                _again(backend, stack, stack.up)
            declared = backend.replan(declared)
            if asleep:
                _put_back(declared.plan, asleep)
        if remove:
            _remove_remnants(backend, name, remove)
            for desktop in remove:
                process_cap.forget(declared.site.name, name, desktop)
                copies.forget(declared.site.name, name, desktop)
    with step("routes", timings):
        _connect(declared.plan)
        backend.open_way(declared.plan)
        desktops = readiness.awake(declared.plan)
        gateway = readiness.wait(declared.plan, on_route=on_route, desktops=desktops)
    awake = {desktop.name for desktop in desktops}
    for desktop in sorted({desktop.name for desktop in declared.plan.desktops} - awake):
        say(f"    {desktop} stays as it is: ./inv desktop.start {name}/{desktop} starts it")
    if caps := {desktop: cap for desktop, cap in process_cap.wanted(declared.plan).items() if desktop in awake}:
        with step("processes", timings):
            process_cap.deliver(declared.plan, caps)
    if keys is not None:
        with step("keys", timings):
            key_delivery.deliver(declared.plan, {desktop: keys[desktop] for desktop in keys if desktop in awake})
    if customised:
        with step("customise", timings):
            present = {desktop: customised[desktop] for desktop in customised if desktop in awake}
            customise_delivery.apply(declared.plan, present, How())
    return when_up(declared, gateway)


def destroy(name: str, guard: Guard | None = None, last: Callable[[], None] | None = None) -> None:
    """Remove a workspace with all its desktops and their data. The declaration stays.

    `guard` is given the desktops that hold something and the seats that somebody has, and may refuse before anything
    is touched; `last` is called once all is gone. Nobody else moves its machines meanwhile.
    """
    stack = WorkspaceStack(name)
    site = declaration.site_of(name)
    backend = backend_of(site)
    with turn.whole(site.name, name):
        if stack.exists():
            stack.check_passphrase()
            SshLink(site.name, name).close()
            disposables = backend.disposables(name)
            seats = None if disposables is None else Seats(site.name, name, disposables)
            if guard is not None:
                holding = stack.desktops_with_machines() | stack.desktops_with_disks()
                guard(holding, seats.claimed() if seats else [])
            _remove_remnants(backend, name)
            backend.prepare_destroy(name, stack.on_cluster)
            if seats is not None:
                seats.remove_all()
            _again(backend, stack, stack.destroy)
        else:
            say(f"    workspace {name} has no machines")
            _remove_remnants(backend, name)
        shutil.rmtree(places().workspace(site.name, name), ignore_errors=True)
        if last is not None:
            last()


def remnants(name: str) -> list[str]:
    """List what killed tasks have left beside the desktops of a workspace, which `destroy` removes as well."""
    site = declaration.site_of(name)
    return [f"{remnant.desktop}: {remnant.what}" for remnant in backend_of(site).remnants(name)]


def _remove_remnants(backend: Backend, name: str, only: Sequence[str] | None = None) -> None:
    """Remove what killed tasks have left beside desktops, or some of them; a `HostError` if such a task goes on."""
    for remnant in backend.remnants(name, settled=True):
        if only is None or remnant.desktop in only:
            # No restore goes on while the whole workspace is kept from others; a trial may.
            with turn.of_trial(names.domain(name, remnant.desktop)):
                remnant.remove()
            say(f"    removed what a killed task had left of {remnant.desktop}: {remnant.what}")


def _checked(name: str) -> Declared:
    declared = declaration.read(name)
    backend_of(declared.site).check(declared)
    return declared


def _steps(declared: Declared, work: Callable[[], list[Change]]) -> list[Change]:
    """The steps of the engine; where it refuses since a tier has smaller disks now, what would have to be freed."""
    try:
        return work()
    except SiteError:
        # Looked at then alone, since each machine is asked; if that fails, the engine's error is the one to show.
        with suppress(SiteError):
            smaller.require_none(declared.plan, machines_of(declared.plan))
        raise


def _look_after_seats(declared: Declared) -> None:
    """Remove machines whose seat is gone or another one now; an error if somebody has one of them."""
    disposables = backend_of(declared.site).disposables(declared.plan.name)
    if disposables is not None:
        seats = Seats(declared.site.name, declared.plan.name, disposables)
        # What nobody has any more is in nobody's way.
        seats.sweep(declared, whole=True)
        seats.require_fit(declared)


def _asleep(plan: WorkspacePlan, machines: Machines) -> dict[str, Power]:
    """The machines that are wanted off or paused, mended first: what is planned next goes by that."""
    machines.mend_wishes([desktop.machine.domain for desktop in plan.desktops])
    return {domain: power for domain, power in machines.desired().items() if power is not Power.RUNNING}


def _to_customise(declared: Declared) -> dict[str, Customisation]:
    """The customisation of each desktop, without those that are being made of a backup and empty yet."""

    def is_empty(desktop: str) -> bool:
        begun = copies.read(declared.site.name, declared.plan.name, desktop)
        return begun is not None and not begun.has_content

    return {name: what for name, what in customise_delivery.wanted(declared).items() if not is_empty(name)}


def _put_back(plan: WorkspacePlan, asleep: dict[str, Power]) -> None:
    """A machine that was made anew runs, and knows nothing of what the one before was wanted to be."""
    machines = machines_of(plan)
    now = machines.desired()
    for domain in asleep:
        if now.get(domain) is Power.RUNNING:
            machines.want(domain, Power.OFF)
            machines.shut_down(domain, force=False)


def _new_desktops(plan: WorkspacePlan, steps: Sequence[Change]) -> list[DesktopPlan]:
    fresh = {change.desktop for change in steps if change.is_disk and change.operation == "create"}
    return [desktop for desktop in plan.desktops if desktop.name in fresh]


def _guard_data(name: str, steps: Sequence[Change], remove: Sequence[str]) -> None:
    """Stop a run that would take a desktop's disk away, unless that desktop was named."""
    lost = sorted({change.desktop for change in steps if change.loses_data and change.desktop is not None})
    unnamed = [desktop for desktop in lost if desktop not in remove]
    if unnamed:
        reason = f"this run would delete the disk of: {', '.join(unnamed)}"
        remedy = f"declare it again, or name it: ./inv workspace.up {name} --remove {unnamed[0]}"
        raise ConfigError("desktops", None, reason, remedy)


def _again(backend: Backend, stack: WorkspaceStack, work: Callable[[], T]) -> T:
    """Do it, and again after what passes, as often as the backend says; what the last try left is cleared before."""
    pauses = backend.pauses()
    again = False
    while True:
        try:
            if again:
                backend.clear(stack.name, stack.on_cluster)
            return work()
        except SiteError as error:
            pause = next(pauses, None)
            if pause is None or not retry.passes(error.reason):
                raise
            say(f"    trying again in some seconds: {error.reason.strip().splitlines()[-1][:200]}")
        # Clients that failed in the same moment, for the same lock, do not come again in the same moment.
        time.sleep(pause * random.uniform(1, 1.5))
        again = True


def _release(declared: Declared, stack: WorkspaceStack, remove: Sequence[str]) -> None:
    """Lift the protection of the disks that the user named; one that an interrupted run has removed is no mistake."""
    if not remove:
        return
    declared_names = {desktop.name for desktop in declared.workspace.persistent()}
    present = stack.desktops_with_disks()
    for desktop in remove:
        if desktop in declared_names:
            raise ConfigError("--remove", desktop, "is still declared", "take it out of the declaration first")
    for desktop in remove:
        if desktop in present:
            stack.unprotect(desktop)
        else:
            say(f"    --remove {desktop}: there is no such desktop (any more)")


def _connect(plan: WorkspacePlan) -> None:
    desktops = [(desktop.name, desktop.address) for desktop in (*plan.desktops, *plan.seats)]
    SshLink(plan.site, plan.name).write_config(plan.gateway.uplink_address, desktops)

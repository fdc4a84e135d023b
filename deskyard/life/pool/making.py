"""Makes the machine of a seat: from its template or by booting, in its place in the network, with its owner's keys."""

from contextlib import suppress
from dataclasses import replace

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.desktop import customise_delivery, key_delivery, process_cap
from deskyard.desktop.customise_delivery import How
from deskyard.engine import stack_secrets
from deskyard.engine.backend import Moves, backend_of, machines_of
from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.progress import say
from deskyard.plan.first_boot import desktop_first_boot
from deskyard.plan.names import machine_uuid
from deskyard.plan.pool import seat as seat_plan
from deskyard.plan.pool.seat import Claim, Entry
from deskyard.plan.warm import BOOTS, Templates
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness, turn
from deskyard.workspace.seats import Seats

PAUSE_SECONDS = 1.0


def make(
    seats: Seats,
    declared: Declared,
    seat: DesktopPlan,
    claim: Claim | None = None,
    *,
    routes: bool,
    cold: bool = False,
    once: bool = False,
) -> None:
    """Make the machine of a free seat, to wait or for a claim; it lets us in, and with `routes` these answer.

    Whoever calls holds the seat. What fails, or is interrupted, leaves nothing. With `cold` it boots, template or not;
    with `once` it is not made for a claimer who has one.
    """
    seats.disposables.require_room(seat)
    begun = seats.begin(declared, seat, claim, once=once)
    try:
        with turn.of(declared.plan, seat.name):
            # An `up` that it waited for may have made the network another one.
            now = declaration.read(seats.workspace)
            if seat_plan.wiring(now.plan, now.plan.seat(seat.name)) != begun.wiring:
                target = f"{seats.workspace}/{seat.name}"
                raise SiteError("seat", target, "was declared otherwise meanwhile", "run the same command again")
            _build(seats, now, now.plan.seat(seat.name), begun, cold=cold)
            if routes:
                readiness.wait(now.plan, desktops=[seat])
            else:
                _let_in(now.plan, seat)
            _equip(now, seat.name)
            seats.ready(begun)
    except BaseException:
        with suppress(DeskyardError):
            seats.remove(seat.name)
        raise


def _build(seats: Seats, declared: Declared, seat: DesktopPlan, begun: Entry, *, cold: bool) -> None:
    """The machine with an identity that none had before; nobody has a session for it."""
    try:
        access.revoke(seats.workspace, desktop=seat.name)
    except ConfigError as error:
        reason = f"its gateway does not know it: {error.reason}"
        remedy = f"run ./inv workspace.up {seats.workspace}"
        raise SiteError("seat", f"{seats.workspace}/{seat.name}", reason, remedy) from error
    seats.disposables.remove(seat.name)
    uuid = machine_uuid(seats.site, seats.workspace, seat.name, begun.machine)
    if not cold:
        backend_of(declared.site).prepare_starts(declared, [seat], make=Templates.TRIED)
    how = seats.disposables.make(
        declared.plan,
        replace(seat, machine=replace(seat.machine, uuid=uuid)),
        declared.disk_source(seat.machine.image),
        desktop_first_boot(seat, declared.management_key()),
        None if cold else declared.templates().get(seat.name),
    )
    if how.startswith(BOOTS) and how != BOOTS:
        say(f"    {seat.name} {how}")


def _let_in(plan: WorkspacePlan, seat: DesktopPlan) -> None:
    """Trust its host key, which its agent tells, and wait until it lets us in."""
    link, machines = SshLink(plan.site, plan.name), machines_of(plan)
    deadline = Deadline(readiness.SECONDS[plan.accelerator])
    with machines.moves() as moves:
        while True:
            try:
                link.pin(seat.name, machines.host_key(seat.machine.domain))
                break
            except SiteError:
                if deadline.is_over:
                    raise
            moves.next(PAUSE_SECONDS)
        link.wait(seat.name, deadline.left, lambda seconds: _rest(moves, seconds))


def _rest(moves: Moves, seconds: float) -> None:
    moves.next(seconds)


def _equip(declared: Declared, name: str) -> None:
    """Bring the cap of processes of its tier, and the owner's keys and files that the seat declares."""
    process_cap.equip(declared.plan, declared.plan.seat(name))
    desktop = next(desktop for desktop in declared.workspace.desktops if desktop.name == name)
    if names := declared.workspace.keys_of(desktop):
        # Late: only who needs keys waits for the engine.
        from deskyard.engine.stack import WorkspaceStack

        values = stack_secrets.read_keys(WorkspaceStack(declared.workspace.name), names)
        key_delivery.deliver(declared.plan, {name: values})
    customised = customise_delivery.wanted(declared, name)[name]
    if not customised.is_empty:
        customise_delivery.apply(declared.plan, {name: customised}, How())

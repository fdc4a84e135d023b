"""Stops, starts, pauses and resumes desktops; what a machine is wanted to be is kept with it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from deskyard.declaration import declaration
from deskyard.engine.backend import Machines, backend_of, machines_of
from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.host.at_once import at_once
from deskyard.host.progress import say
from deskyard.life import waiting_pages
from deskyard.life.idle import asleep
from deskyard.life.pool import pool
from deskyard.plan.names import domain as domain_of
from deskyard.plan.power import RESTING, NoRoom, Power, stage_of
from deskyard.plan.workspace import GATEWAY, WorkspacePlan
from deskyard.site.files import read_site
from deskyard.site.ssh_link import SshLink
from deskyard.wire.stages import Stage
from deskyard.workspace import readiness, turn


@dataclass(frozen=True)
class Machine:
    """A machine that is there: a desktop, or the gateway of its workspace."""

    plan: WorkspacePlan
    name: str
    machines: Machines

    @property
    def domain(self) -> str:
        """Its name at the hypervisor, also once it is declared no more."""
        return domain_of(self.plan.name, self.name)

    @property
    def target(self) -> str:
        """How a person names it: WORKSPACE/DESKTOP."""
        return f"{self.plan.name}/{self.name}"

    @contextmanager
    def alone(self, *, at_once: bool = False) -> Iterator[None]:
        """Keep others from moving it meanwhile; with `at_once` an error if another does.

        What a task that was killed has left of the wish for it is mended first.
        """
        with turn.of(self.plan, self.name, at_once=at_once):
            self.machines.mend_wishes([self.domain])
            yield

    def move(self, power: Power, work: Callable[[], None], only_if: Callable[[], bool] = lambda: True) -> bool:
        """Do it while nobody else moves the machine; what cannot be halted is wanted as it was.

        `only_if` is asked when its turn has come; false if nothing was done. Raises `NoRoom`, before anything was done,
        if there is no memory for a machine that is to run.
        """
        with self.alone():
            if not only_if():
                return False
            if power is Power.RUNNING:
                self.machines.take_room(self.domain)
            asleep.forget(self.plan, self.name)
            before = self.machines.desired()[self.domain]
            self.machines.want(self.domain, power)
            try:
                work()
            except SiteError:
                # What was to run and does not is drift, which `workspace.up` mends.
                if power is not Power.RUNNING:
                    self.machines.want(self.domain, before)
                self.show_rest()
                raise
        say(f"    {self.name}: {self.machines.states()[self.domain]['state']}")
        return True

    def show(self, stage: Stage) -> None:
        """Have the pages that wait for it at its gateway know where it is; no task waits for that."""
        waiting_pages.tell(self.plan, self.name, stage)

    def show_rest(self) -> None:
        """Have those pages know if it rests; whether one that runs answers, its gateway finds by itself."""
        if not waiting_pages.has_any(self.plan):
            return
        # A courtesy, also where a task has just failed because nothing answers.
        with suppress(DeskyardError, OSError):
            stage = stage_of(self.machines.states().get(self.domain))
            if stage in RESTING.values():
                self.show(stage)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Have those pages know if it rests at the end of a task that may leave it so, however that ends."""
        try:
            yield
        finally:
            self.show_rest()

    def shut_down(self, *, force: bool = False) -> None:
        """Shut it down, which those pages are shown; raises `SiteError` for a guest that does not listen."""
        # A guest may take minutes.
        self.show(Stage.STOPPING)
        try:
            self.machines.shut_down(self.domain, force=force)
        except SiteError:
            # It goes on: whether its routes answer, the gateway sees.
            self.show(Stage.BOOTING)
            raise
        self.show(Stage.STOPPED)

    def require_no_memory(self) -> None:
        """Raise `SiteError` if its memory is kept: that belongs to its disks, not to what takes their place."""
        if (state := self.machines.states()[self.domain]["state"]) not in ("running", "stopped"):
            reason = f"is {state}: its memory belongs to the disks that it has now"
            remedy = f"./inv desktop.resume {self.target}, or desktop.stop --force"
            raise SiteError("desktop", self.target, reason, remedy)

    def say_what_is_old(self) -> None:
        """Say what one that went back in time lacks."""
        up = f"./inv workspace.up {self.plan.name}"
        say(f"    its keys and files are those of that time: {up} brings what changed since")

    def state(self) -> dict[str, Any]:
        """How it is now."""
        return _state(self.plan, self.machines, [self.name])


def start(target: str, *, wait: bool = True) -> dict[str, Any]:
    """Start a desktop, or let it go on from its kept memory, and wait until its routes answer."""
    machine = behind_gateway(target)
    machine.move(Power.RUNNING, partial(machine.machines.start, machine.domain))
    machine.show(Stage.BOOTING)
    return _answering(machine, wait)


def wake(target: str, *, wait: bool = True, shows: bool = True) -> bool:
    """Start a desktop that was stopped for want of use; false if somebody moved it before its turn came.

    Who tells the pages that wait for it that it starts has no need of `shows`: they would hear it twice.
    """
    machine = behind_gateway(target)
    start = partial(machine.machines.start, machine.domain)
    woken = machine.move(Power.RUNNING, start, only_if=lambda: asleep.is_asleep(machine.plan, machine.name))
    if woken:
        if shows:
            machine.show(Stage.BOOTING)
        if wait:
            _answering(machine, wait)
    return woken


def stop(target: str, *, force: bool = False) -> dict[str, Any]:
    """Shut a desktop down and keep it off; `force` pulls the plug."""
    machine = opened(target)
    machine.move(Power.OFF, partial(machine.shut_down, force=force))
    return machine.state()


def restart(
    target: str, *, force: bool = False, wait: bool = True, only_if: Callable[[], bool] = lambda: True
) -> dict[str, Any]:
    """Shut a desktop down and start it again, with the size that it is declared to have.

    `only_if` is asked when its turn has come.
    """
    machine = behind_gateway(target)

    def anew() -> None:
        machine.machines.shut_down(machine.domain, force=force)
        machine.machines.start(machine.domain)

    if not machine.move(Power.RUNNING, anew, only_if):
        return machine.state()
    machine.show(Stage.BOOTING)
    return _answering(machine, wait)


def pause(target: str, *, to_disk: bool = False) -> dict[str, Any]:
    """Halt a desktop as it is; with `to_disk` its memory goes to disk, and is free on the host."""
    machine = opened(target)
    machine.move(Power.PAUSED, partial(machine.machines.pause, machine.domain, to_disk=to_disk))
    machine.show(Stage.PAUSED)
    return machine.state()


def stop_workspace(name: str, *, force: bool = False) -> dict[str, Any]:
    """Shut down the desktops of a workspace, then its gateway, and keep them off; those that wait for a claim go."""
    plan, machines = look_up(name)
    there = [machine for machine in _all(plan, machines) if machine.domain in machines.desired()]

    def off(machine: Machine) -> None:
        machine.move(Power.OFF, partial(machines.shut_down, machine.domain, force=force))

    at_once({machine.name: partial(off, machine) for machine in there if machine.name != GATEWAY})
    SshLink(plan.site, plan.name).close()
    for machine in there:
        if machine.name == GATEWAY:
            off(machine)
    if plan.seats:
        # Last: a timer fills no pool whose gateway is off.
        pool.drain(name)
    return _state(plan, machines, [machine.name for machine in there])


def start_workspace(name: str, *, wait: bool = True) -> dict[str, Any]:
    """Start the gateway of a workspace and all its desktops, and wait until their routes answer.

    Raises `NoRoom` if memory lacks for some; the others run then.
    """
    plan, machines = look_up(name)
    wanted = _all(plan, machines)
    for machine in wanted:
        _require_there(machine)
    lacking: dict[str, NoRoom] = {}
    for machine in wanted:
        try:
            machine.move(Power.RUNNING, partial(machines.start, machine.domain))
        except NoRoom as error:
            if machine.name == GATEWAY:
                raise
            lacking[machine.name] = error
    backend_of(read_site(plan.site)).open_way(plan)
    if lacking:
        first = next(iter(lacking.values()))
        reason = f"{first.reason}; of workspace {name} did not start: {', '.join(lacking)}"
        raise NoRoom(first.field, first.value, reason, first.remedy)
    if wait:
        readiness.wait(plan)
    return _state(plan, machines, [machine.name for machine in wanted])


def names(target: str) -> tuple[str, str]:
    """The workspace and the desktop of WORKSPACE/DESKTOP."""
    name, _, desktop = target.partition("/")
    if not desktop:
        raise ConfigError("target", target, "names no desktop", f"give it as {name or 'WORKSPACE'}/DESKTOP")
    return name, desktop


def opened(target: str) -> Machine:
    """The desktop called WORKSPACE/DESKTOP; raises an error unless its machine is there."""
    name, desktop = names(target)
    plan, machines = look_up(name)
    machine = Machine(plan, plan.desktop(desktop).name, machines)
    _require_there(machine)
    return machine


def text(done: dict[str, Any]) -> str:
    """How the machines are, a line for each."""
    return "\n".join(f"{done['workspace']}/{row['name']}  {row['state']}" for row in done["machines"])


def look_up(name: str) -> tuple[WorkspacePlan, Machines]:
    """The Plan of a workspace and its machines; raises `SiteError` if nothing can be asked of them."""
    plan = declaration.read(name).plan
    if not backend_of(read_site(plan.site)).answers():
        raise SiteError("site", plan.site, "its hypervisor does not run", "run ./inv site.up")
    return plan, machines_of(plan)


def _all(plan: WorkspacePlan, machines: Machines) -> list[Machine]:
    """The gateway, then the desktops."""
    return [Machine(plan, name, machines) for name in plan.machines()]


def _require_there(machine: Machine) -> None:
    if machine.domain not in machine.machines.desired():
        workspace = machine.plan.name
        target = f"{workspace}/{machine.name}"
        raise SiteError("machine", target, "is not there", f"run ./inv workspace.up {workspace}")


def behind_gateway(target: str) -> Machine:
    """A desktop is of use through its gateway alone: raises `SiteError` if that is not wanted to run."""
    machine = opened(target)
    gateway = machine.plan.gateway.machine.domain
    if machine.machines.desired().get(gateway) is not Power.RUNNING:
        reason, workspace = "its gateway is not wanted to run", machine.plan.name
        raise SiteError("workspace", workspace, reason, f"run ./inv workspace.start {workspace}")
    return machine


def expected(target: str) -> Machine:
    """A desktop that is about to start: its memory is counted on before its turn comes; `NoRoom` if there is none."""
    machine = behind_gateway(target)
    machine.machines.take_room(machine.domain)
    return machine


def _answering(machine: Machine, wait: bool) -> dict[str, Any]:
    if wait:
        readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])
    return machine.state()


def _state(plan: WorkspacePlan, machines: Machines, names: Sequence[str]) -> dict[str, Any]:
    """How the machines are, and what they are wanted to be."""
    states, domains = machines.states(), {name: machine.domain for name, machine in plan.machines().items()}
    known = {name: states[domains[name]] for name in names if domains[name] in states}
    rows = [{"name": name, "state": row["state"], "desired": row["desired"]} for name, row in known.items()]
    return {"workspace": plan.name, "machines": rows}

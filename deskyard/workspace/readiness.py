"""Waits until a workspace answers: every route of every desktop, asked by the gateway with real handshakes."""

import math
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from deskyard.access import gateway_program
from deskyard.engine.backend import Moves, machines_of
from deskyard.engine.running import stopped_machines
from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import make_folder
from deskyard.plan.power import Power
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.ssh_link import GATEWAY, SshLink
from deskyard.wire.stages import Stage

# Whoever answers there stays for the next question; the gateway's units name it.
STATUS_SOCKET = "run/deskyard-status/status.sock"
# Emulated desktops share few cores: the last of four takes more than six minutes.
SECONDS = {"kvm": 300.0, "tcg": 1500.0}
# A gateway answers whoever waits when there is news, at the latest after so long: then the machines are looked at, too.
WAIT_SECONDS = 10.0
# To answer keeps an emulated gateway's processor busy, and desktops that start want it: whoever answers slowly is asked
# less often; not yet at first, since what went on from a template answers soon.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PAUSE_PER_ANSWER = 1.0, 15.0, 3.0
# Of each, some MB for each machine.
KEPT_FAILURES = 10


@dataclass
class _Seen:
    """The news that was said already, so that each piece of news is said once."""

    pinned: set[str]
    ready: set[str]


def stopped_agent(status: Mapping[str, Any], desktop: str) -> dict[str, Any] | None:
    """Who has stopped the agent of a desktop, and since when; None also of a gateway that is older, or silent."""
    stopped = status.get("stopped")
    halt = stopped.get(desktop) if isinstance(stopped, dict) else None
    if not isinstance(halt, dict) or halt.get("stopped") is not True:
        return None
    return {name: halt.get(name) for name in ("by", "since", "by_host", "still")}


def wait(
    plan: WorkspacePlan,
    seconds: float | None = None,
    on_route: Callable[[str, str], None] | None = None,
    desktops: Sequence[DesktopPlan] | None = None,
) -> dict[str, Any]:
    """Wait until the gateway says that it and the desktops are ready; returns its last status.

    `desktops` are those that are waited for; by default all that are not wanted off or paused. `on_route` is told each
    desktop and route when it first answers. Raises `SiteError` naming what did not answer and the folder with console
    logs and screenshots.
    """
    deadline = Deadline(SECONDS[plan.accelerator] if seconds is None else seconds)
    seen = _Seen(set(), set())
    awaited = awake(plan) if desktops is None else desktops
    needed = {plan.gateway.machine.domain, *(desktop.machine.domain for desktop in awaited)}
    times = 0
    with machines_of(plan).moves() as moves:
        while True:
            times += 1
            _pin_desktops(plan, awaited, seen)
            asked = time.monotonic()
            status = ask(plan, awaited, WAIT_SECONDS)
            # One that has waited with us was left alone meanwhile.
            pause = 0.0 if status.get("waited") else pause_after(time.monotonic() - asked, times)
            for desktop, route in _news(status, seen):
                say(f"    {desktop}/{route} answers")
                if on_route is not None:
                    on_route(desktop, route)
            if is_ready(status, awaited) and len(seen.pinned) == len(awaited):
                return status
            dead = [domain for domain in stopped_machines(plan) if domain in needed]
            if dead or deadline.is_over:
                reason = f"stopped: {', '.join(dead)}" if dead else _missing(awaited, status, seen)
                folder = keep_evidence(plan, needed)
                raise SiteError("workspace", plan.name, reason, f"see {folder}, then run the same command again")
            _rest(moves, needed, pause)


def pause_after(seconds: float, times: float = math.inf) -> float:
    """How long to leave a gateway alone that took so many seconds to answer, and was asked so many times."""
    return min(max(min(times, PAUSE_PER_ANSWER) * seconds, PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)


def _rest(moves: Moves, needed: Collection[str], seconds: float) -> None:
    """Leave the gateway alone for so long; at once back if a machine stops that is needed."""
    deadline = Deadline(seconds)
    while (moved := moves.next(deadline.left)) is not None:
        if moved.domain in needed and moved.stage in (Stage.STOPPED, Stage.ERROR):
            return


def awake(plan: WorkspacePlan, desired: Mapping[str, str] | None = None) -> list[DesktopPlan]:
    """The desktops of a workspace that are not wanted off or paused; the machines are asked unless it is known."""
    wanted: Mapping[str, str] = machines_of(plan).desired() if desired is None else desired
    running = Power.RUNNING
    return [desktop for desktop in plan.desktops if wanted.get(desktop.machine.domain, running) == running]


def is_ready(status: Mapping[str, Any], desktops: Iterable[DesktopPlan]) -> bool:
    """Whether a status of the gateway says that it and every awaited route of these desktops answers."""
    states = status.get("desktops", {})
    answers = (states.get(desktop.name, {}).get(route, {}) for desktop in desktops for route in desktop.awaited)
    return bool(status.get("gateway_ready")) and all(answer.get("ready") for answer in answers)


def ask(plan: WorkspacePlan, desktops: Iterable[DesktopPlan] | None = None, wait: float = 0) -> dict[str, Any]:
    """The gateway's status, or what keeps it from answering.

    It looks at the routes of `desktops`, by default of all: each whose machine does not run takes three seconds. While
    not all of theirs answer it waits for so many seconds until more or fewer do, and says then that it has `waited`.
    """
    ssh = SshLink(plan.site, plan.name)
    if not ssh.pinned(GATEWAY):
        return silent("it has not been set up yet")
    try:
        about: dict[str, Any] = {}
        if desktops is not None:
            about["desktops"] = sorted(desktop.name for desktop in desktops)
        return _status(ssh, about | ({"wait": wait} if wait and about else {}))
    except DeskyardError as error:
        return silent(error.reason)


def _status(ssh: SshLink, about: Mapping[str, Any]) -> dict[str, Any]:
    request = {"command": "status", **about}
    try:
        status: dict[str, Any] = gateway_program.ask_socket(
            ssh, STATUS_SOCKET, request, lambda: gateway_program.ask(ssh, ["status"])
        )
        return status
    except ConfigError as error:
        # A gateway from before looks at all desktops, and knows no other question.
        if error.field != "request" or not about:
            raise
        return _status(ssh, {})


def running(desktops: Iterable[DesktopPlan], machines: Mapping[str, Mapping[str, Any]]) -> list[DesktopPlan]:
    """Those of the desktops whose machines run, by the states of machines."""
    return [desktop for desktop in desktops if machines.get(desktop.machine.domain, {}).get("state") == "running"]


def ask_of_running(
    plan: WorkspacePlan, desktops: Iterable[DesktopPlan], machines: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The gateway's status of those desktops whose machines run, by the states of machines, its own among them."""
    if machines.get(plan.gateway.machine.domain, {}).get("state") != "running":
        return silent("its machine does not run")
    return ask(plan, running(desktops, machines))


def silent(reason: str) -> dict[str, Any]:
    """The status of a gateway that does not answer."""
    return {"ready": False, "gateway_ready": False, "error": reason, "desktops": {}}


def keep_evidence(plan: WorkspacePlan, domains: Collection[str]) -> Path:
    """Save console logs and screenshots of these machines; returns the folder. Of earlier failures the last are kept.

    A pool is filled again each minute, also while none of its machines comes up.
    """
    failures = places().workspace(plan.site, plan.name) / "failures"
    for older in sorted(failures.glob("*"))[: 1 - KEPT_FAILURES]:
        shutil.rmtree(older, ignore_errors=True)
    folder = failures / datetime.now().strftime("%Y%m%d-%H%M%S")
    make_folder(folder)
    machines_of(plan).keep_evidence(folder, domains)
    return folder


def _pin_desktops(plan: WorkspacePlan, desktops: Sequence[DesktopPlan], seen: _Seen) -> None:
    waiting = [desktop for desktop in desktops if desktop.name not in seen.pinned]
    if not waiting:
        # On a cluster each look at the machines is a call.
        return
    ssh, machines = SshLink(plan.site, plan.name), machines_of(plan)
    for desktop in waiting:
        try:
            ssh.pin(desktop.name, machines.host_key(desktop.machine.domain))
        except SiteError:
            continue
        seen.pinned.add(desktop.name)


def _news(status: dict[str, Any], seen: _Seen) -> list[tuple[str, str]]:
    """Desktop and route of what answers for the first time."""
    answering = [
        (desktop, route)
        for desktop, routes in status.get("desktops", {}).items()
        for route, answer in routes.items()
        if answer["ready"]
    ]
    new = [(desktop, route) for desktop, route in answering if f"{desktop}/{route}" not in seen.ready]
    seen.ready.update(f"{desktop}/{route}" for desktop, route in new)
    return new


def _missing(desktops: Sequence[DesktopPlan], status: dict[str, Any], seen: _Seen) -> str:
    parts = [] if status.get("gateway_ready") else [f"gateway ({status.get('error') or status.get('services')})"]
    for desktop in desktops:
        parts += [f"{desktop.name}/{route}" for route in desktop.awaited if f"{desktop.name}/{route}" not in seen.ready]
        if desktop.name not in seen.pinned:
            parts.append(f"{desktop.name}/guest agent")
    return f"not ready in time: {', '.join(parts)}"

"""The demo: a desktop of its own, and Mission Control in which it is seen, from nothing to their links."""

import os
from dataclasses import dataclass
from typing import Any

from deskyard.access import access
from deskyard.control.control import Control
from deskyard.declaration import declaration
from deskyard.errors import DeskyardError, HostError
from deskyard.host.progress import Timings, step
from deskyard.workspace import demo


@dataclass(frozen=True)
class Demo:
    """The outcome of the demo; `link` holds a one-use ticket that expires at a Unix time.

    `mission_control` is its state, with a one-use `link` until a passkey is enrolled; None where it was not wanted.
    Where it could not be brought up, `problem` says why.
    """

    target: str
    link: str
    ticket_expires: int
    certificate_authority: str
    mission_control: dict[str, Any] | None
    problem: dict[str, Any] | None
    seconds: dict[str, float]


def run_demo(plain: bool = False) -> Demo:
    """Bring the workspace up, then Mission Control unless it is to be `plain`, and grant a session."""
    timings = Timings()
    state = demo.bring_up(timings)
    mission_control, problem = (None, None) if plain else _mission_control(timings)
    # The ticket comes last: it is short-lived.
    with step("session", timings):
        target = f"{demo.NAME}/{state['desktops'][0]['name']}"
        granted = access.grant(target)
    return Demo(
        target=target,
        link=granted["url"],
        ticket_expires=granted["ticket_expires"],
        certificate_authority=state["certificate_authority"],
        mission_control=mission_control,
        problem=problem,
        seconds=timings.steps,
    )


def _mission_control(timings: Timings) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Mission Control's state, or why there is none: the desktop is there all the same."""
    try:
        if os.geteuid() != 0:
            reason = "each of its processes has a Linux account of its own, which takes root to make"
            raise HostError("Mission Control", "demo", reason, "run it as root: ./inv control.up")
        control = Control()
        state = control.status()
        if state["ready"]:
            return {**state, "link": control.first_link()}, None
        return control.up(declaration.read(demo.NAME).plan.site, timings=timings), None
    except DeskyardError as error:
        return None, error.as_dict()

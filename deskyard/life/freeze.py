"""Halts what runs in the agent's slice of a desktop, at once, and lets it go on where it was."""

from typing import Any

from deskyard.desktop import program
from deskyard.guest import freeze as guest_freeze
from deskyard.life import power


def freeze(target: str) -> dict[str, Any]:
    """Halt the agent of WORKSPACE/DESKTOP: keys and buttons are released, then no process of its slice runs any more.

    The desktop stays: a person sees the screen, types, and uses the terminal. Not in the slice: an agent that comes by
    SSH (`agent: {command: ...}`), and what somebody typed into a terminal or made a service of root's.
    """
    return _asked(target, "freeze")


def thaw(target: str) -> dict[str, Any]:
    """Let the agent go on; it finds the time gone, and connections perhaps broken."""
    return _asked(target, "thaw")


def _asked(target: str, action: str) -> dict[str, Any]:
    name, desktop = power.names(target)
    plan, _ = power.look_up(name)
    plan.desktop(desktop)
    answer = program.ask(plan, desktop, guest_freeze, {"action": action})
    return {"desktop": target, **answer}

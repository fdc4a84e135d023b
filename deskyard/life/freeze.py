"""Halts what runs in the agent's slice of a desktop, at once, and lets it go on where it was."""

from typing import Any

from deskyard.access import access
from deskyard.desktop import program
from deskyard.errors import ConfigError
from deskyard.guest import freeze as guest_freeze
from deskyard.host.progress import say
from deskyard.life import power


def freeze(target: str, actor: str = "") -> dict[str, Any]:
    """Halt the agent of WORKSPACE/DESKTOP, and shut the desktop for programs at its gateway until `thaw`.

    Keys and buttons are released, then no process of its slice runs any more; started anew, the desktop halts it again.
    The desktop stays: a person sees the screen, types, and uses the terminal. Not in the slice: an agent that comes by
    SSH (`agent: {command: ...}`), and what somebody typed into a terminal or made a service of root's. It is done
    in the name of who runs this, unless `actor` says for whom.
    """
    answer = _asked(target, "freeze")
    return {**answer, "shut_out": _stands(target, "stop", actor)}


def thaw(target: str, actor: str = "") -> dict[str, Any]:
    """Let the agent go on and programs in, whoever stopped it.

    It finds the time gone, and connections perhaps broken.
    """
    # First, or the gateway would halt it again.
    _stands(target, "go", actor)
    return _asked(target, "thaw")


def _stands(target: str, action: str, actor: str) -> bool:
    """Have the gateway stop the agent or let it go on; false from one that cannot: it is older, or its desktop is."""
    name, desktop = power.names(target)
    try:
        stopped = access.agent(name, action, desktop, actor)
    except ConfigError as error:
        say(f"    its gateway shuts no program out: {error.reason}")
        return False
    return any(halt["desktop"] == desktop and halt.get("stopped") is True for halt in stopped)


def _asked(target: str, action: str) -> dict[str, Any]:
    name, desktop = power.names(target)
    plan, _ = power.look_up(name)
    plan.desktop(desktop)
    answer = program.ask(plan, desktop, guest_freeze, {"action": action})
    return {"desktop": target, **answer}

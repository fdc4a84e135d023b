"""Customises desktops again without a new image, a new desktop or a whole `up`."""

from dataclasses import asdict
from typing import Any

from deskyard.declaration import declaration
from deskyard.desktop import customise_delivery
from deskyard.desktop.customise_delivery import How
from deskyard.engine import running


def customise(target: str, how: How) -> dict[str, Any]:
    """Customise WORKSPACE/DESKTOP, or all desktops of WORKSPACE; what became of every file and script."""
    name, slash, desktop = target.partition("/")
    declared = declaration.read(name)
    if slash:
        declared.plan.desktop(desktop)
    desired = customise_delivery.wanted(declared, desktop if slash else None)
    if not slash:
        # A machine at a seat is customised when it is made, and then given to somebody.
        desired = {desktop.name: desired[desktop.name] for desktop in declared.plan.desktops if desktop.name in desired}
    if desired:
        running.require_running(declared.plan)
    reports = customise_delivery.apply(declared.plan, desired, how)
    return {
        "workspace": name,
        "dry_run": how.dry_run,
        "desktops": [asdict(reports[name]) for name in desired],
    }

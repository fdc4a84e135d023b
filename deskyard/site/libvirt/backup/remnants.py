"""The folders in which disks of desktops were restored by tasks that were killed.

What lies in the pool goes with its disk (`storage.remove_overlay`), and the machine of a trial ended with its task.
"""

import shutil
from functools import partial

from deskyard.plan.names import domain
from deskyard.site.libvirt.backup.backups import RESTORED
from deskyard.site.remnant import Remnant


def remnants(workspace: str) -> list[Remnant]:
    """The folders of a workspace's desktops that are there; root's, so none for somebody else."""
    start, found = domain(workspace, ""), []
    try:
        folders = sorted(RESTORED.glob(f"{start}*"))
    except PermissionError:
        return []
    for folder in folders:
        desktop, _, purpose = folder.name.removeprefix(start).partition(".")
        what = f"{folder}, in which a backup of it was restored ({purpose})"
        found.append(Remnant(desktop, what, partial(shutil.rmtree, folder)))
    return found

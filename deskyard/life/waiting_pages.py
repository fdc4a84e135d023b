"""Lets the pages that wait for a desktop at its gateway know where its host has it, as a courtesy."""

import time
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress

from deskyard.access import access
from deskyard.errors import DeskyardError
from deskyard.plan.workspace import GATEWAY, WorkspacePlan
from deskyard.site.ssh_link import SshLink
from deskyard.wire.stages import Stage

# One word after the other, beside the task: a gateway that does not answer holds up the end of its process alone.
TELLER: Executor = ThreadPoolExecutor(1, "waiting pages")


def tell(plan: WorkspacePlan, desktop: str, stage: Stage) -> None:
    """Tell it in the background, if the gateway is set up; it matters to nobody else whether it is heard."""
    if has_any(plan):
        TELLER.submit(_tell, plan.name, desktop, stage, time.time())


def has_any(plan: WorkspacePlan) -> bool:
    """Whether a gateway is set up, at which pages may wait."""
    return SshLink(plan.site, plan.name).pinned(GATEWAY)


def _tell(workspace: str, desktop: str, stage: Stage, at: float) -> None:
    with suppress(DeskyardError, OSError):
        access.tell_stages(workspace, {desktop: (stage, at)})

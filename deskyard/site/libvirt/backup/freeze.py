"""Lets a guest's file systems stand still for a moment; a watchdog in the guest thaws them whatever happens here."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deskyard.errors import SiteError
from deskyard.guest import thaw
from deskyard.host.vm.agent_answer import understood
from deskyard.plan.backup import NONCE, WRITE_NONCE
from deskyard.site.libvirt import agent

# No freeze lasts longer than ten seconds.
WATCHDOG_SECONDS, WATCHDOG_GOES_ON_SECONDS = 8, 60
FREEZE_SECONDS = 15


def hold(machine: Any, nonce: str, work: Callable[[], None]) -> float:
    """Write the nonce into the guest, then do the work while its file systems stand still; for how long, in seconds.

    Raises `SiteError` if the guest thawed them before the work was done.
    """
    release(machine)
    code, output = agent.execute(machine, WRITE_NONCE, stdin=nonce)
    if code != 0:
        raise SiteError("machine", machine.name(), f"{NONCE} cannot be written: {output.strip()}", "see its disk")
    guard = watchdog(machine)
    began = time.monotonic()
    frozen = thawed = 0
    try:
        frozen = _count(machine, "guest-fsfreeze-freeze", FREEZE_SECONDS)
        work()
    finally:
        thawed = _count(machine, "guest-fsfreeze-thaw", FREEZE_SECONDS)
        seconds = time.monotonic() - began
    agent.execute(machine, ["/bin/kill", str(guard)])
    if not 0 < frozen <= thawed:
        reason = f"its file systems did not stand still ({frozen} frozen, {thawed} thawed, {seconds:.1f} s)"
        raise SiteError("machine", machine.name(), reason, "run it again while it writes less")
    return seconds


def release(machine: Any) -> None:
    """Thaw what a run that was killed left frozen: until then the agent runs no programs."""
    if agent.call(machine, "guest-fsfreeze-status") == "frozen":
        agent.call(machine, "guest-fsfreeze-thaw")


def watchdog(machine: Any) -> int:
    """Start what thaws the guest in time; its process there."""
    program = Path(thaw.__file__).read_text()
    options = [str(WATCHDOG_SECONDS), str(WATCHDOG_GOES_ON_SECONDS)]
    code, output = agent.execute(machine, ["/usr/bin/python3", "-B", "-", *options], stdin=program)
    found = re.fullmatch(r"([0-9]{1,9})\n", output)
    if code != 0 or found is None:
        reason = f"the watchdog against a long freeze did not start: {output.strip()[-300:]}"
        raise SiteError("machine", machine.name(), reason, "stop the machine, and make a backup while it is off")
    return int(found[1])


def _count(machine: Any, command: str, seconds: int) -> int:
    answer = agent.call(machine, command, seconds=seconds)
    with understood(machine.name()):
        return int(answer)

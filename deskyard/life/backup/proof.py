"""Proves that a restored machine is what was kept, and whole."""

import time
from collections.abc import Callable, Sequence

from deskyard.engine.backend import Guest
from deskyard.errors import ConfigError, DeskyardError, HostError, SiteError
from deskyard.host.progress import say
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup, NoVerdict


def provable(found: Backup, present: Sequence[Backup], target: str) -> set[str]:
    """The nonces that it may hold; raises `SiteError` for a backup into which none was written."""
    expected = plan.nonces(found, present)
    if not expected:
        reason = "was made while the desktop was off, and nothing was written into that before"
        raise SiteError("backup", found.id, reason, f"./inv desktop.start {target} and make another")
    return expected


def prove(guest: Guest, found: Backup, expected: set[str]) -> None:
    """It booted: is it what was kept, and whole? Raises `SiteError` if not."""
    nonce = guest.nonce()
    if expected and nonce not in expected:
        reason = f"what was restored holds the nonce {nonce[:40]!r}, which is not of this backup"
        raise SiteError("backup", found.id, reason, "take another backup")
    faults = guest.faults()
    if faults:
        reason = f"its file systems are not well: {'; '.join(faults)}"
        raise SiteError("backup", found.id, reason, "take another backup")


def judge(found: Backup, write: Callable[[Backup], None], attempt: Callable[[], None]) -> Backup:
    """Try a backup out, and write down what is known by then: it is proved; or, if the attempt fails, it is not.

    Where it could not be tried out, what is known of it stays: who prunes would delete the last that was proved.
    """
    try:
        attempt()
    except (NoVerdict, ConfigError, HostError):
        # What is declared, what this machine lacks, and what cannot be reached say nothing of a backup.
        say(f"    {found.id} could not be tried out: what is known of it stays")
        raise
    except DeskyardError:
        if found.verified is not None:
            write(plan.with_verdict(found, None))
        raise
    proved = plan.with_verdict(found, int(time.time()))
    try:
        write(proved)
    except DeskyardError as error:
        reason = f"was tried out and is whole, but that could not be written down: {error.reason}"
        raise SiteError("backup", found.id, reason, error.remedy) from error
    return proved

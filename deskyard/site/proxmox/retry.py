"""Which failed calls may be made again, and when: pure rules."""

import re
from collections.abc import Iterator

# The call did not happen: pveproxy could not reach the other node (595), or has nobody to hand it to (503).
NOT_DONE = frozenset({503, 595})
# Whether the call happened is not known: the way to the other node broke (596), or a proxy in between gave up.
UNSURE = frozenset({502, 504, 596, 597, 598, 599})
# Calls that lead to the same state made once or twice. A POST is none: it makes machines, tasks, uploads.
REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
# Proxmox VE answers 500 to everything its code refuses; these texts say that a lock was not had, so nothing was done.
# "VM is locked (clone)" or "(create)" is a task that makes the machine just now.
_NO_LOCK = re.compile(
    r"can't lock file|can't acquire (?:cfs )?lock|got lock request timeout|\bVM is locked \(\w+\)", re.I
)
# These locks last as long as somebody wants: waiting does not help.
_HELD = re.compile(r"VM is locked \((?:backup|migrate|rollback|snapshot|snapshot-delete|suspend\w*)\)", re.I)
# A node has not the key of a backup: so a Proxmox Backup Server's client and plugin say it, before they read its disks.
_KEYLESS = re.compile(r"(?:missing|wrong) key - manifest|no encryption key file found", re.I)
# What stays so, however often it is asked.
_SETTLED = re.compile(
    rf"does not exist|no such|not found|unable to find|already exists|{_KEYLESS.pattern}",
    re.I,
)
# What else passes by itself, in the words of a task, of the engine's plugin or of our client: no quorum, a process of
# the node that had no answer, the way to a node. "Already exists" is somebody who was faster with the same id. The
# engine gives a plugin that it has started ten seconds to answer: on a busy machine that may be too short.
_PASSING = re.compile(
    r"cluster not ready|got timeout|no worker upid|HTTP (?:50[234]|59[5-9])\b|connection (?:reset|refused)|\bEOF\b|"
    r"no answer: |already (?:exists|defined|used)|config file already|did not (?:come alive|begin responding)",
    re.I,
)
# A disk that is not there will not come by itself; a later try would only fail with another, less clear, error.
_GONE = re.compile(r"volume '[^']*' does not exist|volume_size_info on '[^']*' failed", re.I)


def is_lock_timeout(text: str) -> bool:
    """Whether this refusal only says that another call held the lock for the moment."""
    return bool(_NO_LOCK.search(text)) and not _HELD.search(text)


def is_without_key(text: str) -> bool:
    """Whether this refusal says that a node has not the key that a backup is encrypted with."""
    return bool(_KEYLESS.search(text))


def again(method: str, status: int, text: str) -> bool:
    """Whether a call that was answered with this status and text may be made again as it is."""
    if status in NOT_DONE:
        return True
    if status == 500 and is_lock_timeout(text):
        return True
    if status == 500:
        return method == "GET" and not _SETTLED.search(text) and not _HELD.search(text)
    return status in UNSURE and method in REPEATABLE


def passes(text: str) -> bool:
    """Whether a run that failed with this may be begun anew: its cause passes by itself.

    A run does several things at once and may fail with several causes; one that stays is enough to end it.
    """
    if _HELD.search(text) or _GONE.search(text):
        return False
    return bool(_PASSING.search(text) or _NO_LOCK.search(text))


def unsure(method: str, status: int) -> bool:
    """Whether a call that was answered so may have been done all the same."""
    return method != "GET" and status in UNSURE


def pauses(first: float, longest: float, attempts: int) -> Iterator[float]:
    """Seconds to wait before each further attempt: doubled each time, bounded, `attempts - 1` of them."""
    for number in range(attempts - 1):
        yield min(longest, first * 2**number)

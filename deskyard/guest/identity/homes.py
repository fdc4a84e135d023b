"""Forgets what lies below /home and is the first desktop's alone, as the owner of each home.

An account may have put a link on any way in its home: whatever it points at, nothing is opened there that the account
could not open itself, and nothing of root's is left. Agents keep their device and whom they are paired with in SQLite.

As a program it runs in a machine that becomes a template, whose name comes by standard input.
"""

import contextlib
import glob
import os
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Callable
from functools import partial

HOMES = "/home"
# By which an agent is known, below its home; the last two of OpenClaw before it had a state.
AGENT_SECRETS = (".local/state/deskyard/agent-device.pem", ".openclaw/devices", ".openclaw/identity")
AGENT_STATE = ".openclaw/state/openclaw.sqlite"
# Of OpenClaw 2026.9.6: its private keys and tokens, and who was paired with it. It makes anew what it needs.
PAIRED = (
    "device_identities",
    "device_pairing_paired",
    "device_pairing_pending",
    "device_pairing_join_codes",
    "device_auth_tokens",
    "device_bootstrap_tokens",
    "gateway_origin_device_tokens",
    "audit_identity_keys",
    "web_push_subscriptions",
    "apns_registrations",
    "worker_environment_credentials",
)
MACHINE_STATE, OWN_KEYS = "config_machine_state", ("nodeHost.", "webPush.vapidKeys")
# Where a lock of Chromium's leads to begins with the name of its machine: of another one it lets no browser start.
LOCK, BESIDE_LOCK = "SingletonLock", ("SingletonCookie", "SingletonSocket")
BUSY_SECONDS = 60.0


def forget_in_homes(homes: str, was: str) -> None:
    """Forget in each home what its agent is known by, and locks of machine `was`."""
    for home in sorted(path for path in glob.glob(f"{homes}/*") if os.path.isdir(path) and not os.path.islink(path)):
        as_owner(home, partial(_forget_in, home, was))


def is_own(path: bytes) -> bool:
    """Whether a path below a home is of its machine alone: such as a program that copies a home leaves behind."""
    agents = [own.encode() for own in (*AGENT_SECRETS, AGENT_STATE, f"{AGENT_STATE}-wal", f"{AGENT_STATE}-shm")]
    locks = [name.encode() for name in (LOCK, *BESIDE_LOCK)]
    return any(path == own or path.startswith(own + b"/") for own in agents) or path.rpartition(b"/")[2] in locks


def as_owner(folder: str, work: Callable[[], None]) -> None:
    """Do this in a process of the folder's owner; ends this one if it fails."""
    found = os.stat(folder)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(found.st_gid)
            os.setuid(found.st_uid)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise SystemExit(f"what is the first one's alone in {folder} could not be removed")


def forget(paths: list[str]) -> None:
    """Remove what is there of files and folders; a link is removed itself."""
    for path in paths:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)


def forget_pairings(path: str) -> None:
    """Delete an agent's device and pairings from its state so that no byte of them stays in it or beside it."""
    if not os.path.exists(path):
        return
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as state:
        state.execute("PRAGMA secure_delete = ON")
        present = {name for (name,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in PAIRED:
            if table in present:
                state.execute(f"DELETE FROM {table}")
        if MACHINE_STATE in present:
            for prefix in OWN_KEYS:
                own = (len(prefix), prefix)
                state.execute(f"DELETE FROM {MACHINE_STATE} WHERE substr(state_key, 1, ?) = ?", own)
        _write_through(state)
        state.execute("VACUUM")
        _write_through(state)


def forget_locks(home: str, was: str) -> None:
    """Remove the locks that browsers of machine `was` hold."""
    for folder, folders, files in os.walk(home):
        if LOCK not in {*folders, *files}:
            continue
        lock = os.path.join(folder, LOCK)
        if os.path.islink(lock) and os.readlink(lock).startswith(f"{was}-"):
            forget([lock, *(os.path.join(folder, name) for name in BESIDE_LOCK)])


def _forget_in(home: str, was: str) -> None:
    forget([f"{home}/{path}" for path in AGENT_SECRETS])
    forget_pairings(f"{home}/{AGENT_STATE}")
    forget_locks(home, was)


def _write_through(state: sqlite3.Connection) -> None:
    """Empty the log beside the state; it says whether somebody else had it open, who would write the old pages anew."""
    (busy, *_) = state.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise SystemExit("the agent's state is in use")


def main() -> None:
    """Do it in this machine, and have it on the disk."""
    forget_in_homes(HOMES, sys.stdin.read().strip())
    os.sync()


if __name__ == "__main__":
    main()

"""Starts a program that reads what nobody trusts: it has no rights, no network and no file but the one that it reads.

Who takes such a program over by what it reads is the account `nobody` in namespaces of its own, sees the programs of
this machine and that file, and can write to its own output alone.
"""

from collections.abc import Sequence
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.command import run
from deskyard.host.facts import find_program

# Where the program finds its file.
FILE = "/file"
MEMORY_BYTES, OPEN_FILES = 1 << 30, 16
NOBODY = "65534"
TRIAL_SECONDS = 60.0
# bwrap drops all other rights; these are for the way to `nobody`, and go with it.
_RIGHTS = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


def sandboxed(program: Sequence[str], file: Path, cpu_seconds: int) -> list[str]:
    """The command line of a program that reads one file as `FILE`; only root can start it.

    The file may lie in a folder that is root's alone, and has to be one that everybody may read.
    """
    if find_program("bwrap") is None:
        reason = "is not on this machine, and what a desktop wrote is read in its sandbox alone"
        raise HostError("program", "bwrap", reason, "run ./inv --yes, which installs the packages in host/debian.txt")
    apart = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    apart += ["--die-with-parent", "--new-session", "--clearenv", "--chdir", "/", "--cap-drop", "ALL"]
    apart += [word for right in _RIGHTS for word in ("--cap-add", right)]
    apart += ["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
    apart += ["--ro-bind", str(file), FILE, "--"]
    # It writes to pipes: no file may grow by a byte.
    bounds = [f"--as={MEMORY_BYTES}", f"--cpu={cpu_seconds}", "--core=0", "--fsize=0", f"--nofile={OPEN_FILES}"]
    weak = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"]
    weak += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    return [*apart, "/usr/bin/prlimit", *bounds, "/usr/bin/setpriv", *weak, *program]


def require(program: Sequence[str], file: Path) -> None:
    """Raise `HostError` unless this machine can start a program in the sandbox, with words that let it end at once."""
    answer = run(sandboxed(program, file, int(TRIAL_SECONDS)), timeout=TRIAL_SECONDS, check=False)
    if answer.code != 0:
        reason = f"{program[0]} does not start in its sandbox: {answer.stderr.strip()[-300:] or answer.code}"
        raise HostError("program", "bwrap", reason, "run it as root, on a kernel with namespaces; mend the cause")

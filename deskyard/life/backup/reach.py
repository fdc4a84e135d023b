"""The way to a repository on another machine by SSH: its host's key is pinned, nobody is asked anything.

restic starts the `ssh` of this machine. Its own settings name user, port and key of the host; these here come before
them: a host that is not known, or not any more, is never talked to, and a question that nobody hears ends nothing.
"""

from urllib.parse import urlsplit

from deskyard.errors import ConfigError
from deskyard.host.command import run
from deskyard.plan.printable import printable

ASK_SECONDS = 300.0
# What restic says where ssh has ended; what that has said before is not always heard.
NO_SESSION = "unable to start the sftp session"
SSH_OPTIONS = (
    "StrictHostKeyChecking=yes",
    "BatchMode=yes",
    "ConnectTimeout=60",
    # A host that is gone is found out in two minutes, not when TCP gives up.
    "ServerAliveInterval=15",
    "ServerAliveCountMax=8",
)
_AS_THIS_USER = "as the user who runs ./inv"
# What ssh says, why it is so, and what helps; the first that is found counts.
_FAULTS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host has another key than the one that is known: it may be another machine",
        f"find out why; if it is right, forget the old one {_AS_THIS_USER} (ssh-keygen -R HOST) and pin the new one",
    ),
    (
        "Host key verification failed",
        "the key of its host is not known here",
        "see it with ssh-keyscan HOST (-p PORT), compare its fingerprint (ssh-keygen -lf -) with what the host itself "
        f"says, and add it to ~/.ssh/known_hosts {_AS_THIS_USER}",
    ),
    (
        "Permission denied",
        "its host does not let this user in",
        f"let a key in there that needs no passphrase (ssh-copy-id {_AS_THIS_USER}), and name it in ~/.ssh/config",
    ),
    ("Could not resolve hostname", "the name of its host is not known", "correct backups in the site's file"),
)


def options(location: str) -> list[str]:
    """The options of restic for a repository at that place."""
    if not location.startswith("sftp:"):
        return []
    return ["-o", f"sftp.args={' '.join(_ssh_options())}"]


def fault(location: str, said: str) -> ConfigError | None:
    """Why a repository could not be reached, by asking its host; None if restic says that it was something else."""
    if not location.startswith("sftp:") or NO_SESSION not in said:
        return None
    heard = run(["ssh", *_ssh_options(), _host(location), "-s", "sftp"], timeout=ASK_SECONDS, check=False).stderr
    found = next(((reason, remedy) for words, reason, remedy in _FAULTS if words in heard), None)
    last = printable(heard.strip().rpartition("\n")[2])
    reason, remedy = found or (f"its host cannot be reached, or has no SFTP: {last}", f"try sftp HOST {_AS_THIS_USER}")
    return ConfigError("backups", location, reason, remedy)


def _host(location: str) -> str:
    """The host that ssh is to connect to: `user@host`, or ssh://user@host:port."""
    if location.startswith("sftp://"):
        return f"ssh://{urlsplit(location).netloc}"
    return location.removeprefix("sftp:").partition(":")[0]


def _ssh_options() -> list[str]:
    return [f"-o{option}" for option in SSH_OPTIONS]

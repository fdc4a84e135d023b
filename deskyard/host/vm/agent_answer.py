"""The answers of guests' agents, whatever way they come: data of a guest that may be hostile."""

import contextlib
import re
from collections.abc import Callable, Iterator

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline

# Never keep more than this of an answer.
MAX_BYTES = 65_536
# A key of this kind is 51 bytes that start with its name; nothing else is written into known_hosts.
ED25519 = re.compile(r"AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}")
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"
# A guest's program by which it says what its file systems hold.
HELD = ("/bin/df", "--block-size=1", "--output=target,used", "/", "/home")
PAUSE_SECONDS = 2.0


def wait_for(answers: Callable[[], bool], machine: str, seconds: float, pause: Callable[[float], None]) -> None:
    """Wait until the agent of a machine answers; raises `SiteError` if it does not in time."""
    if not Deadline(seconds).wait_for(answers, PAUSE_SECONDS, pause):
        reason = f"the guest agent did not answer within {seconds:.0f} s"
        raise SiteError("machine", machine, reason, "see its console, then run the command again")


@contextlib.contextmanager
def understood(machine: str) -> Iterator[None]:
    """An answer of another form than the agent's is an error of that machine, never one of this program."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        reason = f"guest agent: an answer that makes no sense ({type(error).__name__})"
        raise SiteError("machine", machine, reason, "see what runs in it") from error


def ed25519_key(text: str, machine: str) -> str:
    """The host key in what a guest says is its key file; raises `SiteError` if it is none."""
    words = text.split()
    if len(words) < 2 or words[0] != "ssh-ed25519" or not ED25519.fullmatch(words[1]):
        reason = "the guest has no ed25519 SSH host key"
        raise SiteError("machine", machine, reason, "rebuild the image; its first boot makes the key")
    return f"{words[0]} {words[1]}"


def held(code: int, output: str, machine: str) -> dict[str, int]:
    """The bytes that file systems hold, by where they are, in what a guest's `HELD` says."""
    if code != 0:
        raise SiteError("machine", machine, f"does not say what it holds: exit code {code}", "see what runs in it")
    with understood(machine):
        rows = [line.split() for line in output.splitlines()[1:]]
        return {target: int(used) for target, used in rows if target in HELD}

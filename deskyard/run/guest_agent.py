"""Talks to the QEMU guest agent: the channel that needs no network and no trust on first use."""

import base64
import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import libvirt
import libvirt_qemu

from deskyard.errors import SiteError

ANSWER_SECONDS = 10
# An answer is data of a guest that may be hostile: never keep more than this of it.
MAX_BYTES = 65_536
# A key of this kind is 51 bytes that start with its name; nothing else is written into known_hosts.
ED25519 = re.compile(r"AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}")
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"


def answers(machine: Any) -> bool:
    """True if the agent in this machine answers."""
    try:
        _call(machine, "guest-ping", {}, seconds=5)
    except SiteError:
        return False
    return True


def wait(machine: Any, seconds: float, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until the agent answers; raises `SiteError` if it does not in time."""
    deadline = time.monotonic() + seconds
    while not answers(machine):
        if time.monotonic() > deadline:
            reason = f"the guest agent did not answer within {seconds:.0f} s"
            raise SiteError("machine", machine.name(), reason, "read its console log, then run the command again")
        pause(2)


def read_file(machine: Any, path: str) -> str:
    """The text of a small file of the guest."""
    with _understood(machine):
        handle = int(_call(machine, "guest-file-open", {"path": path, "mode": "r"}))
        try:
            answer = _call(machine, "guest-file-read", {"handle": handle, "count": MAX_BYTES})
        finally:
            _call(machine, "guest-file-close", {"handle": handle})
        return _text(answer["buf-b64"])


def execute(machine: Any, argv: Sequence[str], seconds: float = 30) -> tuple[int, str]:
    """Run a program in the guest; returns its exit code and output."""
    arguments = {"path": argv[0], "arg": list(argv[1:]), "capture-output": True}
    deadline = time.monotonic() + seconds
    with _understood(machine):
        pid = int(_call(machine, "guest-exec", arguments)["pid"])
        while not (status := _call(machine, "guest-exec-status", {"pid": pid}))["exited"]:
            if time.monotonic() > deadline:
                raise SiteError("machine", machine.name(), f"{argv[0]} did not end in time", "run the command again")
            time.sleep(0.3)
        output = "".join(_text(status.get(stream, "")) for stream in ("out-data", "err-data"))
        return int(status.get("exitcode", -1)), output[:MAX_BYTES]


def host_key(machine: Any) -> str:
    """The guest's SSH host key: `ssh-ed25519 AAAA...`."""
    words = read_file(machine, HOST_KEY).split()
    if len(words) < 2 or words[0] != "ssh-ed25519" or not ED25519.fullmatch(words[1]):
        reason = "the guest has no ed25519 SSH host key"
        raise SiteError("machine", machine.name(), reason, "rebuild the image; its first boot makes the key")
    return f"{words[0]} {words[1]}"


@contextlib.contextmanager
def _understood(machine: Any) -> Iterator[None]:
    """An answer of another form than the agent's is an error of that machine, never one of this program."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"guest agent: an answer that makes no sense ({type(error).__name__})"
        raise SiteError("machine", machine.name(), reason, "see what runs in it") from error


def _text(encoded: str) -> str:
    """The start of what an agent sent; what is longer is not even decoded."""
    return base64.b64decode(encoded[: MAX_BYTES * 2])[:MAX_BYTES].decode(errors="replace")


def _call(machine: Any, command: str, arguments: dict[str, Any], seconds: int = ANSWER_SECONDS) -> Any:
    request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
    try:
        answer = libvirt_qemu.qemuAgentCommand(machine, request, seconds, 0)
    except libvirt.libvirtError as error:
        raise SiteError("machine", machine.name(), f"guest agent: {error}", "see whether it has booted") from error
    with _understood(machine):
        return json.loads(answer)["return"]

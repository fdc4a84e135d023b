"""Talks to the QEMU guest agent: the channel that needs no network and no trust on first use."""

import base64
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import libvirt
import libvirt_qemu

from deskyard.errors import SiteError

ANSWER_SECONDS = 10
# An answer is data of a guest that may be hostile: never keep more than this of it.
MAX_BYTES = 65_536
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
    handle = _call(machine, "guest-file-open", {"path": path, "mode": "r"})
    try:
        answer = _call(machine, "guest-file-read", {"handle": handle, "count": MAX_BYTES})
    finally:
        _call(machine, "guest-file-close", {"handle": handle})
    return base64.b64decode(answer["buf-b64"])[:MAX_BYTES].decode(errors="replace")


def execute(machine: Any, argv: Sequence[str], seconds: float = 30) -> tuple[int, str]:
    """Run a program in the guest; returns its exit code and output."""
    arguments = {"path": argv[0], "arg": list(argv[1:]), "capture-output": True}
    pid = _call(machine, "guest-exec", arguments)["pid"]
    deadline = time.monotonic() + seconds
    while not (status := _call(machine, "guest-exec-status", {"pid": pid}))["exited"]:
        if time.monotonic() > deadline:
            raise SiteError("machine", machine.name(), f"{argv[0]} did not end in time", "run the command again")
        time.sleep(0.3)
    output = "".join(
        base64.b64decode(status.get(stream, "")).decode(errors="replace") for stream in ("out-data", "err-data")
    )
    return int(status.get("exitcode", -1)), output[:MAX_BYTES]


def host_key(machine: Any) -> str:
    """The guest's SSH host key: `ssh-ed25519 AAAA...`."""
    words = read_file(machine, HOST_KEY).split()
    if len(words) < 2 or words[0] != "ssh-ed25519":
        reason = "the guest has no ed25519 SSH host key"
        raise SiteError("machine", machine.name(), reason, "rebuild the image; its first boot makes the key")
    return f"{words[0]} {words[1]}"


def _call(machine: Any, command: str, arguments: dict[str, Any], seconds: int = ANSWER_SECONDS) -> Any:
    request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
    try:
        return json.loads(libvirt_qemu.qemuAgentCommand(machine, request, seconds, 0))["return"]
    except libvirt.libvirtError as error:
        raise SiteError("machine", machine.name(), f"guest agent: {error}", "see whether it has booted") from error

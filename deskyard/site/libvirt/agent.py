"""Talks to the QEMU guest agent: the channel that needs no network and no trust on first use."""

import base64
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import libvirt
import libvirt_qemu

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.vm.agent_answer import HOST_KEY, MAX_BYTES, ed25519_key, understood, wait_for

ANSWER_SECONDS = 10
POLL_SECONDS = 0.1


def answers(machine: Any) -> bool:
    """True if the agent in this machine answers."""
    try:
        call(machine, "guest-ping", seconds=5)
    except SiteError:
        return False
    return True


def wait(machine: Any, seconds: float, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until the agent answers; raises `SiteError` if it does not in time."""
    wait_for(lambda: answers(machine), machine.name(), seconds, pause)


def read_file(machine: Any, path: str) -> str:
    """The text of a small file of the guest."""
    with understood(machine.name()):
        handle = int(call(machine, "guest-file-open", {"path": path, "mode": "r"}))
        try:
            answer = call(machine, "guest-file-read", {"handle": handle, "count": MAX_BYTES})
        finally:
            call(machine, "guest-file-close", {"handle": handle})
        return _text(answer["buf-b64"])


def execute(machine: Any, argv: Sequence[str], seconds: float = 30, stdin: str = "") -> tuple[int, str]:
    """Run a program in the guest; returns its exit code and output.

    An agent may take as long for each answer: one of eight guests that start at once takes more than a few seconds.
    """
    arguments = {"path": argv[0], "arg": list(argv[1:]), "capture-output": True}
    if stdin:
        arguments["input-data"] = base64.b64encode(stdin.encode()).decode()
    deadline, patience = Deadline(seconds), max(ANSWER_SECONDS, math.ceil(seconds))
    with understood(machine.name()):
        pid = int(call(machine, "guest-exec", arguments, seconds=patience)["pid"])
        while not (status := call(machine, "guest-exec-status", {"pid": pid}, seconds=patience))["exited"]:
            if deadline.is_over:
                raise SiteError("machine", machine.name(), f"{argv[0]} did not end in time", "run the command again")
            time.sleep(POLL_SECONDS)
        output = "".join(_text(status.get(stream, "")) for stream in ("out-data", "err-data"))
        return int(status.get("exitcode", -1)), output[:MAX_BYTES]


def host_key(machine: Any) -> str:
    """The guest's SSH host key: `ssh-ed25519 AAAA...`."""
    return ed25519_key(read_file(machine, HOST_KEY), machine.name())


def _text(encoded: str) -> str:
    """The start of what an agent sent; what is longer is not even decoded."""
    return base64.b64decode(encoded[: MAX_BYTES * 2])[:MAX_BYTES].decode(errors="replace")


def call(machine: Any, command: str, arguments: dict[str, Any] | None = None, *, seconds: int = ANSWER_SECONDS) -> Any:
    """Ask the agent of a machine; what it answers may be anything."""
    request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
    try:
        answer = libvirt_qemu.qemuAgentCommand(machine, request, seconds, 0)
    except libvirt.libvirtError as error:
        raise SiteError("machine", machine.name(), f"guest agent: {error}", "see whether it has booted") from error
    with understood(machine.name()):
        return json.loads(answer)["return"]

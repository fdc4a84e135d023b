"""A restored machine that is tried out, asked by its guest agent, whatever hypervisor it runs on."""

from collections.abc import Callable, Sequence

from deskyard.plan.backup import LOOK, READ_NONCE, faults


class TriedGuest:
    """A booted guest; `execute` runs a program in it: exit code and output."""

    def __init__(self, execute: Callable[[Sequence[str]], tuple[int, str]]) -> None:
        self._execute = execute

    def nonce(self) -> str:
        """The nonce that lies in it; empty if there is none."""
        code, output = self._execute(READ_NONCE)
        return output.strip() if code == 0 else ""

    def machine_id(self) -> str:
        """The id by which its system knows it; empty if it tells none."""
        code, output = self._execute(["/bin/cat", "/etc/machine-id"])
        return output.strip() if code == 0 else ""

    def faults(self) -> list[str]:
        """List the faults of the file systems."""
        _, output = self._execute(["/bin/sh", "-c", LOOK])
        return faults(output)

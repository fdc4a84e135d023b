"""A desktop to whose agent's home files of a backup are brought: what runs as its agent there writes them, no more."""

import base64
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

from deskyard.desktop.stream import DesktopStream
from deskyard.errors import ConfigError, SiteError
from deskyard.guest import home_files
from deskyard.host.vm.ext4 import DamagedError
from deskyard.plan.account import AGENT
from deskyard.plan.printable import printable
from deskyard.plan.workspace import WorkspacePlan

# Where the agent's home is in a backup, and on a desktop.
HOME = HERE = f"/home/{AGENT}"
SECONDS = 6 * 3600.0
MODE = 0o777
Parts = Sequence[bytes]


class Desktop:
    """The agent's home on a desktop that runs, while its block lasts; `top` is what is brought, by its path in it."""

    def __init__(self, plan: WorkspacePlan, name: str, top: Parts, *, force: bool) -> None:
        self._name = f"{plan.name}/{name}"
        request = {"home": HERE, "top": _text(top), "force": force}
        self._stream = DesktopStream(plan, name, AGENT, home_files, request, SECONDS)
        self._answers: Iterator[dict[str, Any]] = iter(())
        # What is there by the path of what is brought (folder, other, or nothing), and the bytes that are free.
        self.there, self.free = "", 0

    def __enter__(self) -> Self:
        self._stream.__enter__()
        try:
            self._answers = self._stream.lines()
            answer = self._answer()
            self.there, self.free = str(answer.get("there")), int(answer.get("free", 0))
        except BaseException:
            self._stream.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.end()

    def make(self, parts: Parts, mode: int) -> None:
        """Make a folder; one that is there stays as it is."""
        if parts:
            self._stream.say(do="folder", path=_text(parts), mode=mode & MODE | 0o700)
            self._done(parts)

    def write(self, parts: Parts, mode: int, changed: int, pieces: Iterable[bytes]) -> None:
        """Write a file whole or not at all."""
        self._stream.say(do="file", path=_text(parts), mode=mode & MODE, changed=changed)
        try:
            for piece in pieces:
                self._stream.say(data=base64.b64encode(piece).decode())
        except DamagedError:
            self._stream.say(whole=False)
            self._done(parts)
            raise
        self._stream.say(whole=True)
        self._done(parts)

    def link(self, parts: Parts, leads_to: bytes) -> None:
        """Make a link."""
        self._stream.say(do="link", path=_text(parts), to=os.fsdecode(leads_to))
        self._done(parts)

    def _answer(self) -> dict[str, Any]:
        answer = next(self._answers, None)
        if answer is None:
            raise SiteError(
                "to", self._name, "stopped to answer", "see what runs there, then run it again with --force"
            )
        return answer

    def _done(self, parts: Parts) -> None:
        answer = self._answer()
        if answer.get("done") is not True:
            why = printable(str(answer.get("error")))
            path = printable(_text(parts))
            remedy = "make room or way for it there; what was brought so far stays"
            raise SiteError("to", self._name, f"{path} cannot be written: {why}", remedy)


def required(plan: WorkspacePlan, target: str, path: bytes) -> tuple[str, list[bytes]]:
    """The name of the desktop to which something of a workspace's backup goes, and its path in the agent's home.

    Raises `ConfigError` for one of another workspace, or a path that is not in that home.
    """
    workspace, _, name = target.partition("/")
    if workspace != plan.name:
        reason = f"is a desktop of another workspace than the backup, which is {plan.name}'s"
        raise ConfigError("to", target, reason, "take a folder of this machine, and decide there what goes on")
    desktop = plan.desktop(name)
    if (path + b"/").startswith(f"{HOME}/".encode()):
        return desktop.name, path.split(b"/")[3:]
    reason = f"is not in {HOME}, and a desktop gets back what is its agent's alone"
    raise ConfigError("path", os.fsdecode(path), reason, f"give it as {HOME}/NAME, or take a folder of this machine")


def _text(parts: Parts) -> str:
    return os.fsdecode(b"/".join(parts))

"""Removes a desktop; one whose machine does not go is declared again, also where who removed it was killed.

What its declaration said is kept in a file meanwhile: a machine that nobody declares is seen by nobody, and keeps every
change of its workspace from being made.
"""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from deskyard.control.machines.target import DESTROY
from deskyard.control.store.connection import Link
from deskyard.errors import DeskyardError
from deskyard.host.deadline import Deadline
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import write_secret

# Where one cannot be put back, as while somebody moves machines of its workspace, it is tried again by the clock.
AGAIN_SECONDS = 30.0
log = logging.getLogger(__name__)


def remove(name: str, desktop: str) -> None:
    """Take a desktop out of its declaration, and remove its machine and data."""
    from deskyard.declaration import declaration
    from deskyard.declaration.desktop_list import TakenOut, undeclare
    from deskyard.workspace import workspace

    def keep(taken_out: TakenOut) -> None:
        write_secret(_file(name, desktop), json.dumps(asdict(taken_out), default=str).encode())

    with _removing(name, desktop):
        undeclare(declaration.stack_file(name), desktop, keep)
        try:
            workspace.up(name, remove=[desktop])
        except BaseException:
            try:
                _put_back(name, desktop)
            except DeskyardError as error:
                # The worker tries it again.
                say(f"    {desktop} is not declared again yet: {error}")
            raise
        _file(name, desktop).unlink(missing_ok=True)


class Unfinished:
    """The removals whose program was killed: their desktops are declared again while their machines are there."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._pause = Deadline(0)

    def look(self, link: Link) -> None:
        """Begin to put back what no program removes any more; nobody waits for its end."""
        left = sorted(path.stem for path in _folder().glob("*.json"))
        if not left or not self._pause.is_over or (self._thread is not None and self._thread.is_alive()):
            return
        # What a killed program started may still be removing them.
        query = "select desktop_id from operation where kind = %s and state = 'running' and desktop_id = any(%s)"
        removed = {row["desktop_id"] for row in link.execute(query, [DESTROY, left]).fetchall()}
        if desktops := [id for id in left if id not in removed]:
            self._thread = threading.Thread(target=self._put_back, args=(desktops,), daemon=True)
            self._thread.start()

    def _put_back(self, desktops: list[str]) -> None:
        for id in desktops:
            name, _, desktop = id.partition(".")
            try:
                with _removing(name, desktop, at_once=True):
                    _put_back(name, desktop)
            except Exception as error:
                level = logging.WARNING if isinstance(error, DeskyardError) else logging.ERROR
                log.log(level, "%s is not declared again yet: %s", id, error, exc_info=level == logging.ERROR)
                self._pause = Deadline(AGAIN_SECONDS)


def _put_back(name: str, desktop: str) -> None:
    from deskyard.declaration import declaration
    from deskyard.declaration.desktop_list import TakenOut, put_back
    from deskyard.workspace import turn

    file, path = _file(name, desktop), declaration.stack_file(name)
    if not file.exists():
        return
    if path.exists():
        with turn.whole(declaration.site_of(name).name, name):
            if _is_left(name, desktop) and put_back(path, TakenOut(**json.loads(file.read_text()))):
                say(f"    {desktop} is there yet, and declared again")
    file.unlink()


def _is_left(name: str, desktop: str) -> bool:
    """Whether the engine knows anything of a desktop; also if it cannot be asked: what is declared can be destroyed."""
    from deskyard.engine.stack import WorkspaceStack

    stack = WorkspaceStack(name)
    try:
        return stack.exists() and desktop in stack.desktops_with_machines() | stack.desktops_with_disks()
    except DeskyardError:
        return True


@contextmanager
def _removing(name: str, desktop: str, *, at_once: bool = False) -> Iterator[None]:
    with alone(f"removal-{name}.{desktop}", at_once=at_once):
        yield


def _file(name: str, desktop: str) -> Path:
    return _folder() / f"{name}.{desktop}.json"


def _folder() -> Path:
    return places().state / "removals"

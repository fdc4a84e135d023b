"""Removes a desktop; one whose machine does not go is declared again, also where who removed it was killed.

What its declaration said is kept in a file meanwhile: a machine that nobody declares is seen by nobody, and keeps every
change of its workspace from being made.
"""

import json
import logging
import threading
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from deskyard.control.people.intent import DESTROY
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
    """Take a desktop out of its declaration once its workspace's turn has come, and remove its machine and data."""
    from deskyard.declaration import declaration
    from deskyard.declaration.desktop_list import TakenOut, undeclare
    from deskyard.workspace import workspace

    def keep(taken_out: TakenOut) -> None:
        write_secret(_file(name, desktop), json.dumps(asdict(taken_out), default=str).encode())

    begun, was_declared = threading.Event(), False

    def take_out() -> None:
        nonlocal was_declared
        was_declared = undeclare(declaration.stack_file(name), desktop, keep)

    with _removing(name, desktop):
        try:
            # While another task has the workspace, for minutes perhaps, it is in sight.
            workspace.up(name, remove=[desktop], on_turn=take_out, on_steps=begun.set)
        except BaseException:
            try:
                # Nothing of it was touched, as where somebody cancels while another task has the workspace for minutes.
                if was_declared and not begun.is_set():
                    _declare_again(name, desktop)
                else:
                    _settle(name, desktop)
            except DeskyardError as error:
                # The worker tries it again.
                say(f"    {desktop} is not declared again yet: {error}")
            raise
        _file(name, desktop).unlink(missing_ok=True)


def resume(name: str, desktop: str) -> None:
    """Declare a desktop again whose removal was killed, before it is begun anew; not one that is gone.

    So it is in sight, and backed up as it was declared. Raises `DeskyardError` if nobody can say now what is there.
    """
    with _removing(name, desktop):
        _settle(name, desktop)


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
                    _settle(name, desktop)
            except Exception as error:
                level = logging.WARNING if isinstance(error, DeskyardError) else logging.ERROR
                log.log(level, "%s is not declared again yet: %s", id, error, exc_info=level == logging.ERROR)
                self._pause = Deadline(AGAIN_SECONDS)


def _settle(name: str, desktop: str) -> None:
    """Declare a desktop again of which the engine knows anything, and forget another.

    Raises `DeskyardError`, and leaves all as it is, where it cannot be asked, or machines of the workspace are made or
    removed just now: one that is gone and declared again would be made anew, and empty.
    """
    from deskyard.declaration import declaration
    from deskyard.engine.stack import WorkspaceStack
    from deskyard.workspace import turn

    file = _file(name, desktop)
    if not file.exists():
        return
    if declaration.stack_file(name).exists():
        with turn.unchanged(declaration.site_of(name).name, name):
            stack = WorkspaceStack(name)
            if stack.exists() and desktop in stack.desktops_with_machines() | stack.desktops_with_disks():
                _declare_again(name, desktop)
                return
    file.unlink()


def _declare_again(name: str, desktop: str) -> None:
    from deskyard.declaration import declaration
    from deskyard.declaration.desktop_list import TakenOut, put_back

    file, path = _file(name, desktop), declaration.stack_file(name)
    if path.exists() and put_back(path, TakenOut(**json.loads(file.read_text()))):
        say(f"    {desktop} is there yet, and declared again")
    file.unlink()


def _removing(name: str, desktop: str, *, at_once: bool = False) -> AbstractContextManager[None]:
    return alone(f"removal-{name}.{desktop}", at_once=at_once)


def _file(name: str, desktop: str) -> Path:
    return _folder() / f"{name}.{desktop}.json"


def _folder() -> Path:
    return places().state / "removals"

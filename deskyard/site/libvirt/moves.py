"""Moves of machines, as libvirt tells them in the moment that they happen: nobody asks for it again and again."""

import functools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import libvirt

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.plan.power import Moved, Power
from deskyard.site.libvirt import daemon, power
from deskyard.wire.stages import Stage

# By libvirt's event: the stage.
LIFECYCLE: dict[int, Stage] = {
    libvirt.VIR_DOMAIN_EVENT_DEFINED: Stage.PROVISIONING,
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED: Stage.PROVISIONING,
    libvirt.VIR_DOMAIN_EVENT_STARTED: Stage.BOOTING,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: Stage.BOOTING,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED: Stage.PAUSED,
    libvirt.VIR_DOMAIN_EVENT_PMSUSPENDED: Stage.PAUSED,
    libvirt.VIR_DOMAIN_EVENT_SHUTDOWN: Stage.STOPPING,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: Stage.STOPPED,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: Stage.ERROR,
}
# Of such an end nobody in the machine knows; it has crashed where its own kernel did.
PLUG_PULLED, QEMU_ENDED = "plug pulled", "QEMU ended"
# News of what has happened may be on its way for so long.
NEWS_SECONDS = 5.0
# Where the event's detail says more than the event.
DETAILS: dict[tuple[int, int], tuple[Stage, str]] = {
    (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_IOERROR): (Stage.IO_ERROR, ""),
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED): (Stage.PAUSED, "memory on disk"),
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED): (Stage.STOPPED, PLUG_PULLED),
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED): (Stage.ERROR, "crashed"),
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED): (Stage.ERROR, QEMU_ENDED),
}
NO_ROOM = "enospc"
# Only an event that a machine is made says so; that its definition was changed is no move.
ADDED = libvirt.VIR_DOMAIN_EVENT_DEFINED_ADDED


@functools.cache
def _start_loop() -> None:
    """Once for the process, and before the connection that is to hear of anything."""
    libvirt.virEventRegisterDefaultImpl()
    threading.Thread(target=_run_loop, name="libvirt events", daemon=True).start()


def _run_loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


@contextmanager
def listening(domains: Iterable[str], uri: str = daemon.URI) -> Iterator["LibvirtMoves"]:
    """Hear what these machines do from now on, also those that are not there yet."""
    _start_loop()
    with daemon.connection(uri) as link:
        heard = LibvirtMoves(frozenset(domains))
        numbers = [
            link.domainEventRegisterAny(None, kind, callback, None) for kind, callback in heard.callbacks().items()
        ]
        link.registerCloseCallback(heard.closed, None)
        try:
            yield heard
        finally:
            # A connection that broke refuses it, which is no reason to hide why the block ended.
            with suppress(libvirt.libvirtError):
                link.unregisterCloseCallback()
            for number in numbers:
                with suppress(libvirt.libvirtError):
                    link.domainEventDeregisterAny(number)


class LibvirtMoves:
    """The moves that were heard and not taken yet, the oldest first."""

    def __init__(self, domains: frozenset[str]) -> None:
        self._domains = domains
        self._heard: queue.Queue[Moved | SiteError | None] = queue.Queue()

    def next(self, seconds: float) -> Moved | None:
        """The next move; None if there is none for so long. Raises `SiteError` if the hypervisor went away."""
        try:
            moved = self._heard.get(timeout=seconds) if seconds > 0 else self._heard.get_nowait()
        except queue.Empty:
            return None
        if isinstance(moved, SiteError):
            raise moved
        return moved

    def end_from_outside(self) -> str:
        """Why a machine has ended, or nobody can tell, if nothing in it did that; empty if it runs or did it itself."""
        deadline = Deadline(NEWS_SECONDS)
        try:
            while (moved := self.next(deadline.left)) is not None:
                if moved.detail in (PLUG_PULLED, QEMU_ENDED):
                    return moved.detail
        except SiteError as error:
            return f"the hypervisor {error.reason}"
        return ""

    def wake(self) -> None:
        """Let whoever waits go on at once."""
        self._heard.put(None)

    def rest(self, seconds: float) -> None:
        """Do nothing until the next move, at most for so long."""
        self.next(seconds)

    def callbacks(self) -> dict[int, Callable[..., None]]:
        """The functions that libvirt is to call, by its numbers of events."""
        return {
            libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: self._moved,
            libvirt.VIR_DOMAIN_EVENT_ID_REBOOT: self._rebooted,
            libvirt.VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON: self._failed,
            libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE: self._wanted,
        }

    def closed(self, _link: Any, _reason: int, _opaque: Any) -> None:
        """The connection broke."""
        self._heard.put(SiteError("hypervisor", daemon.URI, "ended, or was restarted", "run the command again"))

    def _moved(self, _link: Any, machine: Any, event: int, detail: int, _opaque: Any) -> None:
        if event == libvirt.VIR_DOMAIN_EVENT_DEFINED and detail != ADDED:
            return
        if event in LIFECYCLE:
            stage, why = DETAILS.get((event, detail), (LIFECYCLE[event], ""))
            self._note(machine, stage, why)

    def _rebooted(self, _link: Any, machine: Any, _opaque: Any) -> None:
        self._note(machine, Stage.BOOTING, "restarted from inside")

    def _failed(
        self, _link: Any, machine: Any, _path: str, device: str, action: int, reason: str, _opaque: Any
    ) -> None:
        if action == libvirt.VIR_DOMAIN_EVENT_IO_ERROR_PAUSE:
            why = "the host has no room" if reason == NO_ROOM else reason
            self._note(machine, Stage.IO_ERROR, f"{device}: {why}" if why else device)

    def _wanted(self, _link: Any, machine: Any, _kind: int, space: str, _opaque: Any) -> None:
        """A task wrote what a machine is wanted to be: it begins to stop, or goes on since it did not listen."""
        if space == power.METADATA and machine.name() in self._domains:
            # It may be gone by now.
            with suppress(libvirt.libvirtError):
                wanted = power.desired(machine)
                if machine.isActive() and wanted is not Power.PAUSED:
                    self._note(machine, Stage.STOPPING if wanted is Power.OFF else Stage.BOOTING, "")

    def _note(self, machine: Any, stage: Stage, why: str) -> None:
        if machine.name() in self._domains:
            self._heard.put(Moved(machine.name(), stage, time.time(), why))

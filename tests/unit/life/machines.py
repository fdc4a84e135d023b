"""Machines of workspace `lab` that do at once what they are asked."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.image.source import ImageSource
from deskyard.plan.power import Load, NoRoom, Power
from deskyard.plan.snapshot import Snapshot
from tests.desktop.lab import planned

PLAN = planned("dev1", "dev2")
GATEWAY, DEV1, DEV2 = (machine.domain for machine in PLAN.machines().values())


class Disk:
    """The system disk of a machine as a word; `act` is asked before each thing that it does."""

    def __init__(self, act: Callable[[str], None]) -> None:
        self.now, self.staged, self.before = "desktop-old", "", ""
        self._act = act

    def image(self) -> str:
        return self.now

    def require_exchangeable(self) -> None:
        self._act("may exchange")

    def stage(self, image: ImageSource, size_gib: int) -> None:
        self._act("stage")
        self.staged = f"{image.name}-{image.digest}"

    def swap(self) -> None:
        self._act("swap")
        self.before, self.now, self.staged = self.now, self.staged, ""

    def swap_back(self) -> None:
        self._act("swap back")
        self.now, self.before = self.before, ""

    def has_kept(self) -> bool:
        return bool(self.before)

    def forget(self) -> None:
        self._act("forget")
        self.staged = self.before = ""


class Machines:
    """Machines that do at once what they are asked; `deaf` hear no shutdown, and for those `too_large` memory lacks.

    The host's disk has `disk_room` for so many machines that were halted.
    """

    def __init__(self) -> None:
        self.now = dict.fromkeys((GATEWAY, DEV1, DEV2), "running")
        self.wanted = dict.fromkeys(self.now, Power.RUNNING)
        self.deaf: set[str] = set()
        self.too_large: set[str] = set()
        self.disk_room = 0
        self.kept: list[Snapshot] = []
        self.act: Callable[[str], None] = lambda _: None
        self.disk = Disk(lambda what: self.act(what))
        self.keys = dict.fromkeys(self.now, "the key")
        self.taken = dict.fromkeys(self.now, Load(0, 0.0))
        self.moves: list[tuple[str, str, Power]] = []
        self.sizes = {"/": 20, "/home": 10}
        self.promised: list[tuple[str, int]] = []
        self.mended: list[str] = []

    def states(self) -> dict[str, dict[str, Any]]:
        return {domain: {"state": state, "desired": self.wanted[domain]} for domain, state in self.now.items()}

    def desired(self) -> dict[str, Power]:
        return dict(self.wanted)

    def loads(self, domains: Sequence[str]) -> dict[str, Load]:
        return {domain: self.taken[domain] for domain in domains}

    def disk_sizes(self, domain: str) -> dict[str, int]:
        return self.sizes

    def promise_home(self, domain: str, size_gib: int) -> None:
        self.act("promise")
        self.promised.append((domain, size_gib))

    def want(self, domain: str, wanted: Power) -> None:
        self.wanted[domain] = wanted

    def mend_wishes(self, domains: Collection[str]) -> None:
        self.mended += domains

    def take_room(self, domain: str) -> None:
        if domain in self.too_large and self.now[domain] in ("stopped", "saved"):
            raise NoRoom("memory", "4096 MiB", f"100 MiB are free for {domain}", "stop others")

    def require_room_again(self, domain: str) -> None:
        if self.disk_room == 0:
            raise SiteError("storage", "/pool", "10 MiB are free, 90 MiB too few", "delete snapshots")
        self.disk_room -= 1

    def start(self, domain: str) -> None:
        self._move(domain, "running")

    def shut_down(self, domain: str, *, force: bool) -> None:
        if domain in self.deaf and not force:
            raise SiteError("machine", domain, "did not shut down", "add --force")
        self._move(domain, "stopped")

    def pause(self, domain: str, *, to_disk: bool) -> None:
        self._move(domain, "saved" if to_disk else "paused")

    def snapshots(self, domain: str) -> list[Snapshot]:
        return list(self.kept)

    def take_snapshot(self, domain: str, wanted: Snapshot) -> None:
        self.kept.append(replace(wanted, made=len(self.kept), memory=self.now[domain] == "running"))

    def restore_snapshot(self, domain: str, name: str) -> None:
        (kept,) = [snapshot for snapshot in self.kept if snapshot.name == name]
        self._move(domain, "running" if kept.memory else "stopped")

    def delete_snapshot(self, domain: str, name: str) -> None:
        self.kept = [snapshot for snapshot in self.kept if snapshot.name != name]

    def images(self) -> dict[str, str]:
        return dict.fromkeys(self.now, self.disk.now)

    def system(self, domain: str) -> Disk:
        return self.disk

    def host_key(self, domain: str) -> str:
        return self.keys[domain]

    def _move(self, domain: str, state: str) -> None:
        self.act(state)
        self.moves.append((domain, state, self.wanted[domain]))
        self.now[domain] = state
